//! The units that are started, loaded and killed.

/// Units, and the target that pulls them in.
pub(crate) struct Workload {
    pub(crate) target: &'static str,
    pub(crate) units: Vec<(String, String)>,
}

const ONESHOT: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n";
/// What careful packages ask for.
const SANDBOX: &str = "NoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\n\
    ProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectKernelLogs=yes\nProtectControlGroups=yes\nProtectClock=yes\n\
    RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\nRestrictNamespaces=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes\n\
    LockPersonality=yes\nMemoryDenyWriteExecute=yes\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n\
    SystemCallArchitectures=native\nSystemCallFilter=@system-service\n";
const DAEMON: &str = "[Service]\nExecStart=/bin/sleep infinity\n";

/// Units that know nothing of each other.
pub(crate) fn flat(count: usize) -> Workload {
    Workload::new(
        "flat.target",
        [(0..count)
            .map(|n| (format!("flat-{n}.service"), ONESHOT.to_owned()))
            .collect()],
    )
}

/// As [`flat`], each in a sandbox.
pub(crate) fn sandboxed(count: usize) -> Workload {
    Workload::new(
        "sandboxed.target",
        [(0..count)
            .map(|n| {
                let text = format!("{ONESHOT}{SANDBOX}");
                (format!("sandboxed-{n}.service"), text)
            })
            .collect()],
    )
}

/// Each unit needs, and waits for, the one before it in the layer below.
pub(crate) fn layers(depth: usize, width: usize) -> Workload {
    stacked("layers.target", "layer", depth, width, ONESHOT)
}

/// As [`layers`], but of programs that stay.
pub(crate) fn daemons(depth: usize, width: usize) -> Workload {
    stacked("daemons.target", "daemon", depth, width, DAEMON)
}

/// Units that are known because something is ordered after them, and never started.
pub(crate) fn loaded(count: usize) -> Workload {
    let mut units: Vec<_> = (0..count)
        .map(|n| {
            (
                format!("loaded-{n}.service"),
                format!("[Unit]\nDescription=Unit {n}\n{DAEMON}"),
            )
        })
        .collect();
    let mut target = "[Unit]\n".to_owned();
    for (name, _) in &units {
        target.push_str(&format!("After={name}\n"));
    }
    units.push(("loaded.target".to_owned(), target));
    Workload {
        target: "loaded.target",
        units,
    }
}

/// One daemon that is started again as soon as it ends, however often.
pub(crate) fn respawning() -> Workload {
    let text = format!("[Unit]\nStartLimitIntervalSec=0\n{DAEMON}Restart=always\nRestartSec=0\n");
    Workload::new(
        "respawn.target",
        [vec![("respawn.service".to_owned(), text)]],
    )
}

fn stacked(
    target: &'static str,
    prefix: &str,
    depth: usize,
    width: usize,
    service: &str,
) -> Workload {
    let layer = |level: usize| {
        let unit = |n: usize| {
            let below = match level {
                0 => String::new(),
                _ => format!(
                    "[Unit]\nRequires={prefix}-{0}-{n}.service\nAfter={prefix}-{0}-{n}.service\n",
                    level - 1
                ),
            };
            (format!("{prefix}-{level}-{n}.service"), below + service)
        };
        (0..width).map(unit).collect()
    };
    Workload::new(target, (0..depth).map(layer))
}

impl Workload {
    fn new(target: &'static str, layers: impl IntoIterator<Item = Vec<(String, String)>>) -> Self {
        let mut units: Vec<(String, String)> = layers.into_iter().flatten().collect();
        let mut text = "[Unit]\n".to_owned();
        for (name, _) in &units {
            text.push_str(&format!("Wants={name}\n"));
        }
        units.push((target.to_owned(), text));
        Self { target, units }
    }
}
