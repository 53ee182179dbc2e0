//! The units that run the daemons of a node.

use crate::NodeFiles;

/// What a node boots that is a member.
pub const EVERYTHING: &str = "node.target";
/// What a node boots that is to be provisioned.
pub const IDENTITY: &str = "identity.target";
/// The unit of the Communication Manager.
pub const COMMUNICATION_MANAGER: &str = "muster-cm.service";
/// What the machine's own boot would have done is done.
const EMPTY_TARGET: &str = "[Unit]\nDefaultDependencies=no\n";

impl NodeFiles {
    /// A daemon's unit.
    fn service(&self, daemon: &Daemon<'_>) -> String {
        let after = daemon.after.map_or_else(String::new, |after| {
            format!("Wants={after}\nAfter={after}\n")
        });
        format!(
            "[Unit]\n\
             Description={description} of Node {node}\n\
             {after}\
             StartLimitIntervalSec=0\n\
             \n\
             [Service]\n\
             Type=notify\n\
             ExecStart={program} --config {config}\n\
             Restart=always\n\
             RestartSec=200ms\n\
             WatchdogSec=1min\n\
             TimeoutStartSec=infinity\n\
             TimeoutStopSec=10\n\
             {more}\
             Environment=MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=65536\n\
             LimitNOFILE=65536:65536\n",
            description = daemon.description,
            node = self.name,
            program = self.programs.join(daemon.program).display(),
            config = self.place.dir.join(daemon.config).display(),
            more = daemon.more,
        )
    }

    fn log_daemon(&self) -> String {
        let run = &self.place.run;
        format!(
            "[Unit]\n\
             Description=Log Daemon of Node {node}\n\
             DefaultDependencies=no\n\
             StartLimitIntervalSec=0\n\
             \n\
             [Service]\n\
             Type=notify\n\
             ExecStart={program} --no-kmsg --config {config} --runtime-journal {runtime} --journal {journal} \
             --state {state} --varlink {varlink}\n\
             Restart=always\n\
             RestartSec=200ms\n\
             WatchdogSec=3min\n\
             StandardOutput=null\n\
             StandardError=null\n",
            node = self.name,
            program = self.programs.join("muster-logd").display(),
            config = self.place.dir.join("logd.conf").display(),
            runtime = run.join("journal").display(),
            journal = self.place.journal().display(),
            state = run.join("logd.state").display(),
            varlink = run.join("io.muster.Log").display(),
        )
    }

    pub(crate) fn units(&self) -> Vec<(&'static str, String)> {
        let iam = Daemon {
            description: "Identity Manager",
            program: "muster-iam",
            config: "iam.json",
            after: None,
            more: "UMask=0077\n",
        };
        let sm = Daemon {
            description: "Service Manager",
            program: "muster-sm",
            config: "sm.json",
            after: Some("muster-iam.service"),
            // Instances are units of their own and go on.
            more: "KillMode=process\n",
        };
        let cm = Daemon {
            description: "Communication Manager",
            program: "muster-cm",
            config: "cm.json",
            after: Some("muster-iam.service"),
            more: "UMask=0077\n",
        };
        let mut units = vec![
            ("muster-iam.service", self.service(&iam)),
            ("muster-sm.service", self.service(&sm)),
            ("muster-logd.service", self.log_daemon()),
            (IDENTITY, wants("muster-logd.service muster-iam.service")),
        ];
        let mut all = "muster-logd.service muster-iam.service muster-sm.service".to_owned();
        if self.is_main() {
            units.push((COMMUNICATION_MANAGER, self.service(&cm)));
            all.push_str(" muster-cm.service");
        }
        units.push((EVERYTHING, wants(&all)));
        for target in ["sysinit.target", "basic.target"] {
            units.push((target, EMPTY_TARGET.to_owned()));
        }
        units.extend(ENDING.map(|(name, text)| (name, text.to_owned())));
        units
    }
}

/// A daemon of the product.
struct Daemon<'a> {
    description: &'a str,
    program: &'a str,
    config: &'a str,
    after: Option<&'a str>,
    more: &'a str,
}

/// How a supervisor ends, as Muster installs it.
const ENDING: [(&str, &str); 5] = [
    ("exit.target", include_str!("../../../../units/exit.target")),
    (
        "muster-exit.service",
        include_str!("../../../../units/muster-exit.service"),
    ),
    (
        "shutdown.target",
        include_str!("../../../../units/shutdown.target"),
    ),
    (
        "umount.target",
        include_str!("../../../../units/umount.target"),
    ),
    (
        "final.target",
        include_str!("../../../../units/final.target"),
    ),
];

fn wants(units: &str) -> String {
    format!("[Unit]\nWants={units}\n")
}
