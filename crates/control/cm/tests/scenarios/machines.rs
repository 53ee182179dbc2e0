//! One node of a real Unit: what is on its disk, how it boots, and the cable between two of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_lab::instances::instances;
use muster_lab::machine::{Binaries, Machine, MachineBuilder};
use muster_lab::muster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// For whatever takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
/// The Main Node: it has the Communication Manager.
pub(crate) const MAIN: &str = "main";
/// The other one.
pub(crate) const SECOND: &str = "second";
/// Which system all of this is.
pub(crate) const SYSTEM: &str = "unit-7";
/// What a running node consists of.
pub(crate) const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-iam", "muster-iam"),
    ("muster-cm", "muster-cm"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
    ("muster-firewall", "muster-firewall"),
];
/// Where every node finds the Main Node: on its loopback, so that it is there without a cable, too.
const MAIN_ADDRESS: &str = "10.88.0.1";

/// Which managers a node starts when it boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Managers {
    /// As before it is provisioned.
    Identity,
    /// All but the controller.
    WithoutController,
    /// All that it has.
    All,
}

impl Managers {
    fn units(self, node: &str) -> String {
        let units: &[&str] = match (self, node == MAIN) {
            (Self::Identity, _) => &["muster-iam.service"],
            (Self::All, true) => &[
                "muster-iam.service",
                "muster-sm.service",
                "muster-cm.service",
            ],
            (Self::WithoutController, _) | (Self::All, false) => {
                &["muster-iam.service", "muster-sm.service"]
            }
        };
        units.join(" ")
    }
}

fn identity_manager(node: &str) -> Value {
    let roles: &[&str] = if node == MAIN {
        &["iam", "sm", "cm"]
    } else {
        &["iam", "sm"]
    };
    let module = |role: &&str| {
        json!({
            "id": role, "plugin": "file", "maxItems": 2, "extendedKeyUsage": ["serverAuth", "clientAuth"],
            "params": {"storagePath": format!("/var/lib/muster/keys/{role}")},
        })
    };
    let mut config = json!({
        "caCert": "/test/pki/ca.pem",
        "nodeInfo": {"nodeIdPath": "/etc/muster/node-id", "nodeName": node, "nodeType": node, "maxDmips": 10000},
        "identifier": {"plugin": "file", "params": {"systemIdPath": "/etc/muster/system-id"}},
        "certModules": roles.iter().map(module).collect::<Vec<_>>(),
    });
    if node != MAIN {
        config["mainIamPublicServerUrl"] = format!("{MAIN_ADDRESS}:8090").into();
        config["mainIamProtectedServerUrl"] = format!("{MAIN_ADDRESS}:8089").into();
    }
    config
}

/// What both other managers need to know about the identity manager, and more.
fn manager(more: &Value) -> Value {
    let mut config = json!({
        "iamPublicServerUrl": "127.0.0.1:8090",
        "iamProtectedServerUrl": "127.0.0.1:8089",
        "caCert": "/test/pki/ca.pem",
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// Whether instances have networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Networks {
    Off,
    /// One for each owner and subject; those of the subject `local` and the owner `elsewhere` have a cable each.
    On,
}

impl Networks {
    fn mode(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

fn service_manager(networks: Networks) -> Value {
    manager(&json!({
        "cmServerUrl": format!("{MAIN_ADDRESS}:8093"),
        "maxDmips": 10000,
        "runtimes": [{"type": "runc"}],
        "network": {"mode": networks.mode(), "untaggedUplinks": {"local": "eth1", "elsewhere": "eth2"}},
        // As the first process of its namespace, the program does not hear the request to end.
        "launcher": {"stopTimeout": "100ms"},
    }))
}

fn communication_manager(networks: Networks) -> Value {
    manager(&json!({
        "fileServerUrl": ":8094",
        "fileServerAddress": MAIN_ADDRESS,
        "networks": {"mode": networks.mode()},
        "dnsIp": MAIN_ADDRESS,
    }))
}

/// A node that is switched on.
pub(crate) struct NodeMachine {
    machine: Machine,
}

impl NodeMachine {
    /// Boots a node whose disk is `files/NODE`, and which sees all of `files`.
    pub(crate) fn boot(
        node: &str,
        files: &Path,
        programs: &Binaries,
        managers: Managers,
        networks: Networks,
    ) -> Self {
        let file = |builder: MachineBuilder, name: &str, text: String| {
            builder.file(format!("/etc/muster/{name}"), text, 0o644)
        };
        let wants = format!("[Unit]\nWants={}\n", managers.units(node));
        let builder = muster::machine(programs)
            .hybrid_cgroups()
            .bind(files, "/test")
            .bind(files.join(node), "/var/lib/muster")
            .unit("default.target.d/unit.conf", wants);
        let builder = file(builder, "node-id", format!("{node}\n"));
        let builder = file(builder, "system-id", format!("{SYSTEM}\n"));
        let builder = file(builder, "iam.json", identity_manager(node).to_string());
        let builder = file(builder, "sm.json", service_manager(networks).to_string());
        let builder = file(
            builder,
            "cm.json",
            communication_manager(networks).to_string(),
        );
        let machine = muster::boot(&builder, TIME).unwrap();
        let booted = Self { machine };
        if node == MAIN {
            booted.run(&format!("ip address add {MAIN_ADDRESS}/32 dev lo"));
        }
        booted
    }

    /// Runs a script; it must end well.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        let done = self.machine.run(["sh", "-c", script]).unwrap();
        assert!(
            done.status.success(),
            "{script}: {}{}",
            done.stdout,
            done.stderr
        );
        done.stdout
    }

    /// Starts what a node has beside its identity manager.
    pub(crate) fn start_managers(&self, node: &str) {
        self.run(&format!("sctl start {}", Managers::All.units(node)));
    }

    /// How the host reaches a file of it.
    pub(crate) fn path(&self, inside: &str) -> std::path::PathBuf {
        self.machine.path(inside)
    }

    /// Processes of instances, by the names of their units.
    pub(crate) fn pids(&self) -> BTreeMap<String, i32> {
        instances(&self.machine, "sleep", TIME).unwrap()
    }

    /// The process of a manager, as the host counts.
    pub(crate) fn process(&self, program: &str) -> Option<i32> {
        let processes = self.machine.processes().unwrap();
        let mut found = processes
            .iter()
            .filter(|it| it.name == program && !it.zombie);
        found.next().map(|it| it.host_pid)
    }

    /// Kills a manager, and waits until core has started another.
    pub(crate) fn kill(&self, program: &str) {
        let old = self.process(program).unwrap();
        kill_process(Pid::from_raw(old).unwrap(), Signal::KILL).unwrap();
        muster_lab::poll_until(TIME, "another manager", || {
            self.process(program).is_some_and(|new| new != old)
        });
    }

    /// The end of what its managers have said.
    pub(crate) fn last_words(&self) -> String {
        let script = "journalctl --no-pager --quiet -o short-iso -n 60 -D /run/log/journal || journalctl --no-pager -n 60";
        self.machine
            .run(["sh", "-c", script])
            .map_or_else(|error| error.to_string(), |it| it.stdout)
    }
}

/// Lays a cable between two nodes, and two for networks of instances. They go with either of them.
pub(crate) fn connect(main: &NodeMachine, second: &NodeMachine) {
    let (one, other) = (
        main.machine.host_pid().to_string(),
        second.machine.host_pid().to_string(),
    );
    for link in ["eth0", "eth1", "eth2"] {
        let words = [
            "link", "add", link, "netns", &one, "type", "veth", "peer", "name", link, "netns",
            &other,
        ];
        let made = Command::new("ip").args(words).output().unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }
    main.run("ip address add 10.88.1.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up && ip link set eth2 up");
    second.run(&format!(
        "ip address add 10.88.1.2/24 dev eth0 && ip link set eth0 up && ip link set eth1 up && ip link set eth2 up \
         && ip route add {MAIN_ADDRESS} via 10.88.1.1"
    ));
}
