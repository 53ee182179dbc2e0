//! The files of a node: configuration of its daemons, and the units that run them. Pure.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::layout::{Layout, MAIN, NodePlace, SECOND_UPLINK, SUBJECT, addresses};
use crate::record::{Ports, Record, USUAL_PORTS};
use crate::settings::Shape;

/// What the demo's node boots: all of it, or only what provisioning needs.
pub(crate) const EVERYTHING: &str = "demo.target";
pub(crate) const IDENTITY: &str = "identity.target";
pub(crate) const COMMUNICATION_MANAGER: &str = "muster-cm.service";

/// Nodes of one machine share its power; what it really is does not matter to a demo, and measuring takes time.
const DMIPS: u64 = 10_000;
/// What the machine's own boot would have done is done.
const EMPTY_TARGET: &str = "[Unit]\nDefaultDependencies=no\n";

/// One node, and what its files depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodePlan<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) record: &'a Record,
    pub(crate) place: &'a NodePlace,
    pub(crate) programs: &'a Path,
}

/// A file and its content.
pub(crate) type Text = (PathBuf, String);

impl NodePlan<'_> {
    fn is_main(&self) -> bool {
        self.place.name == MAIN
    }

    /// Where this node listens.
    pub(crate) fn address(&self) -> Ipv4Addr {
        match (self.is_main(), self.record.subnet) {
            (false, Some(subnet)) => addresses(subnet).1,
            _ => self.record.main_address(),
        }
    }

    fn ports(&self) -> Ports {
        match self.is_main() {
            true => self.record.ports,
            false => USUAL_PORTS,
        }
    }

    fn at(&self, port: u16) -> String {
        SocketAddrV4::new(self.address(), port).to_string()
    }

    fn at_main(&self, port: u16) -> String {
        SocketAddrV4::new(self.record.main_address(), port).to_string()
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.place.dir.join(name)
    }

    fn root_certificate(&self) -> PathBuf {
        self.layout.pki().join("root.crt.pem")
    }

    fn revocation_lists(&self) -> [PathBuf; 1] {
        [self.layout.pki().join("crl.pem")]
    }

    /// Certificates that the node needs.
    fn roles(&self) -> &'static [&'static str] {
        match self.is_main() {
            true => &["iam", "sm", "cm"],
            false => &["iam", "sm"],
        }
    }

    fn identity_manager(&self) -> Value {
        let modules: Vec<Value> = self
            .roles()
            .iter()
            .map(|role| {
                json!({
                    "id": role,
                    "plugin": "file",
                    "extendedKeyUsage": ["serverAuth", "clientAuth"],
                    "params": {"storagePath": self.dir("keys").join(role)},
                })
            })
            .collect();
        let ports = self.ports();
        let mut config = json!({
            "publicServerUrl": self.at(ports.iam_public),
            "protectedServerUrl": self.at(ports.iam_protected),
            "localSocket": self.place.iam_socket(),
            "workingDir": self.dir("iam"),
            "caCert": self.root_certificate(),
            "certRevocationLists": self.revocation_lists(),
            "nodeInfo": {
                "nodeIdPath": self.dir("node-id"),
                "provisioningStatePath": self.place.provisioning_state(),
                "nodeName": self.place.name,
                "nodeType": self.place.name,
                "maxDmips": DMIPS,
            },
            "identifier": {"plugin": "file", "params": {
                "systemIdPath": self.dir("system-id"),
                "unitModelPath": self.dir("model"),
                "subjectsPath": self.dir("subjects"),
            }},
            "certModules": modules,
        });
        if !self.is_main() {
            config["mainIamPublicServerUrl"] = self.at_main(self.record.ports.iam_public).into();
            config["mainIamProtectedServerUrl"] =
                self.at_main(self.record.ports.iam_protected).into();
        }
        config
    }

    fn service_manager(&self) -> Value {
        let ports = self.ports();
        let uplink = match self.is_main() {
            true => self.layout.uplink(),
            false => SECOND_UPLINK.to_owned(),
        };
        let mut config = json!({
            "cmServerUrl": self.at_main(self.record.ports.cm),
            "iamPublicServerUrl": self.at(ports.iam_public),
            "iamProtectedServerUrl": self.at(ports.iam_protected),
            "caCert": self.root_certificate(),
            "certRevocationLists": self.revocation_lists(),
            "workingDir": self.dir("sm"),
            "runtimeDir": self.place.run.join("sm"),
            "storageDir": self.dir("storages"),
            "stateDir": self.dir("states"),
            "initSystem": "core",
            "coreSocket": self.place.manager_socket(),
            "programDir": self.programs,
            "nodeIdPath": self.dir("node-id"),
            "nodeType": self.place.name,
            "maxDmips": DMIPS,
            "monitoring": {"pollPeriod": "5s", "averageWindow": "30s"},
            "journalDirs": [self.place.journal()],
            "resourcesFile": self.dir("resources.json"),
            "network": {"mode": "on", "untaggedUplinks": {SUBJECT: uplink}},
        });
        if self.record.shape() == Shape::OneUser {
            config["network"] = json!({"mode": "off"});
            config["runtimes"] = json!([{"type": "native", "hostNetwork": true}]);
        }
        config
    }

    fn communication_manager(&self) -> Value {
        let ports = self.record.ports;
        let mode = match self.record.shape() {
            Shape::TwoNodes => "on",
            Shape::OneUser => "off",
        };
        json!({
            "cmServerUrl": self.at_main(ports.cm),
            "fileServerUrl": self.at_main(ports.files),
            "iamPublicServerUrl": self.at_main(ports.iam_public),
            "iamProtectedServerUrl": self.at_main(ports.iam_protected),
            "caCert": self.root_certificate(),
            "certRevocationLists": self.revocation_lists(),
            "workingDir": self.dir("cm"),
            "storageDir": self.dir("storages"),
            "stateDir": self.dir("states"),
            "controlSocket": self.layout.control_socket(),
            "networks": {"mode": mode},
        })
    }

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
            node = self.place.name,
            program = self.programs.join(daemon.program).display(),
            config = self.dir(daemon.config).display(),
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
            node = self.place.name,
            program = self.programs.join("muster-logd").display(),
            config = self.dir("logd.conf").display(),
            runtime = run.join("journal").display(),
            journal = self.place.journal().display(),
            state = run.join("logd.state").display(),
            varlink = run.join("io.muster.Log").display(),
        )
    }

    fn units(&self) -> Vec<(&'static str, String)> {
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

    /// Everything that the node's programs read.
    pub(crate) fn files(&self, system_id: &str) -> Vec<Text> {
        let mut files = vec![
            (self.dir("node-id"), format!("{}\n", self.place.name)),
            (self.dir("system-id"), format!("{system_id}\n")),
            (self.dir("model"), "muster-demo;1.0\n".to_owned()),
            (self.dir("subjects"), format!("{SUBJECT}\n")),
            (self.dir("iam.json"), pretty(&self.identity_manager())),
            (self.dir("sm.json"), pretty(&self.service_manager())),
            (
                self.dir("logd.conf"),
                "[Journal]\nStorage=persistent\nSystemMaxUse=64M\n".to_owned(),
            ),
        ];
        if self.is_main() {
            files.push((self.dir("cm.json"), pretty(&self.communication_manager())));
        }
        let folder = self.place.units();
        files.extend(
            self.units()
                .into_iter()
                .map(|(name, text)| (folder.join(name), text)),
        );
        files
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

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::layout::SECOND;
    use crate::record::Before;

    fn files(shape: Shape, name: &'static str) -> BTreeMap<String, String> {
        let layout = Layout::new(Path::new("/var/lib/demo"), Path::new("/run/demo")).unwrap();
        let record = Record {
            subnet: (shape == Shape::TwoNodes).then_some(7),
            ports: USUAL_PORTS,
            before: Before::default(),
        };
        let place = layout.node(name);
        let plan = NodePlan {
            layout: &layout,
            record: &record,
            place: &place,
            programs: Path::new("/usr/lib/muster"),
        };
        let files = plan.files("demo-1").into_iter();
        let named = files.map(|(path, text)| {
            let name = path.file_name().unwrap_or_default();
            (name.to_string_lossy().into_owned(), text)
        });
        named.collect()
    }

    fn json_of(files: &BTreeMap<String, String>, name: &str) -> Value {
        serde_json::from_str(&files[name]).unwrap()
    }

    #[test]
    fn the_second_node_joins_the_first_and_has_no_communication_manager() {
        let (main, second) = (files(Shape::TwoNodes, MAIN), files(Shape::TwoNodes, SECOND));
        let main_iam = json_of(&main, "iam.json");
        let second_iam = json_of(&second, "iam.json");
        assert_eq!(
            second_iam["mainIamPublicServerUrl"],
            main_iam["publicServerUrl"]
        );
        assert_eq!(main_iam["publicServerUrl"], "10.213.7.1:8090");
        assert_eq!(second_iam["publicServerUrl"], "10.213.7.2:8090");
        let cm = json_of(&main, "cm.json");
        assert_eq!(
            json_of(&second, "sm.json")["cmServerUrl"],
            cm["cmServerUrl"]
        );
        assert!(!second.contains_key("cm.json") && !second.contains_key("muster-cm.service"));
        assert!(!second[EVERYTHING].contains("muster-cm"));
        assert!(!main[IDENTITY].contains("muster-sm"));
    }

    #[test]
    fn one_user_has_no_networks_and_no_containers() {
        let main = files(Shape::OneUser, MAIN);
        let sm = json_of(&main, "sm.json");
        assert_eq!(sm["network"], json!({"mode": "off"}));
        assert_eq!(
            sm["runtimes"],
            json!([{"type": "native", "hostNetwork": true}])
        );
        assert_eq!(json_of(&main, "cm.json")["networks"]["mode"], "off");
        assert!(
            sm["cmServerUrl"]
                .as_str()
                .unwrap()
                .starts_with("127.0.0.1:")
        );
    }

    #[test]
    fn everything_a_unit_names_is_there() {
        let main = files(Shape::TwoNodes, MAIN);
        for (name, text) in main.iter().filter(|(_, text)| text.starts_with("[Unit]")) {
            for line in text
                .lines()
                .filter(|it| it.starts_with("Wants=") || it.starts_with("Requires="))
            {
                let (_, units) = line.split_once('=').unwrap();
                for unit in units.split_whitespace() {
                    assert!(main.contains_key(unit), "{name} names {unit}");
                }
            }
        }
    }
}
