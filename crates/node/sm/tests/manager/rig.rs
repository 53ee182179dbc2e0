//! A machine with core, the Service Manager as one of its units, images, and a controller.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_api::domain::{InstanceIdent, ItemType};
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::instances::{Pids, instances};
use muster_lab::machine::{Binaries, Build, Machine};
use muster_lab::pki::{CertSpec, Pki};
use muster_lab::program::{Process, Stream};
use muster_lab::python::{PYTHON, contracts};
use muster_lab::{muster, poll_for, poll_until, try_poll_for};
use serde_json::json;
use tempfile::TempDir;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(120);
const SM_UNIT: &str = "[Unit]\nDescription=Service Manager\nStartLimitIntervalSec=0\n[Service]\nType=notify\nEnvironment=MUSTER_FAULT_FILE=/run/fault\nExecStart=/usr/lib/muster/muster-sm --config /etc/muster/sm.json\nRestart=always\nRestartSec=0\n[Install]\nWantedBy=multi-user.target\n";
/// What a running node consists of.
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
    ("muster-firewall", "muster-firewall"),
];

pub(crate) struct Rig {
    machine: Machine,
    // Both end before the machine that they are in.
    controller: Process,
    iam: Option<Process>,
    /// Digests of the versions of the one image.
    pub(crate) versions: Vec<String>,
    sets: u32,
    /// Of the next sets, if they say anything of networks: the networks, and the parameters of items that have one.
    pub(crate) networks: Option<(serde_json::Value, serde_json::Value)>,
    commands: u32,
    // The machine sees them until it ends.
    files: TempDir,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

/// What is special about the last version of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    /// It asks for permissions.
    AsksForPermissions,
    /// It and all others ask for a resource called `place`.
    AllAskForAPlace,
    /// Its program ends at once.
    Fails,
}

/// Images of busybox that sleep, one for each version, with a layer of its own; their manifests' digests.
fn images(folder: &Path, versions: usize, last: Last) -> Vec<String> {
    let content = folder.join("content");
    fs::create_dir_all(content.join("bin")).expect("a folder");
    fs::copy("/bin/busybox", content.join("bin/busybox")).expect("busybox");
    symlink("busybox", content.join("bin/sleep")).expect("a link");
    let plain = json!({"runtimes": [{"codename": "runc"}], "quotas": {"pidsLimit": 16}});
    let mut special = plain.clone();
    special["permissions"] = json!({"vis": {"*": "r"}});
    let mut placed = plain.clone();
    placed["resources"] = json!([{"name": "place", "mode": "rw"}]);
    (0..versions)
        .map(|version| {
            fs::write(content.join("version"), version.to_string()).expect("a file");
            let is_last = version + 1 == versions;
            let kind = match last {
                Last::AllAskForAPlace => last,
                _ if is_last => last,
                _ => Last::Nothing,
            };
            let item = match kind {
                Last::AsksForPermissions => &special,
                Last::AllAskForAPlace => &placed,
                Last::Nothing | Last::Fails => &plain,
            };
            let time = match kind {
                Last::Fails => "no time",
                Last::Nothing | Last::AsksForPermissions | Last::AllAskForAPlace => "1000000",
            };
            let order = BuildOrder {
                content: Content::Folder(content.clone()),
                run: RunSettings {
                    entrypoint: vec!["/bin/sleep".into(), time.into()],
                    env: vec![format!("VERSION={version}")],
                    ..RunSettings::default()
                },
                item_config: Some(item.to_string().into_bytes()),
                platform: Platform::of_this_program(),
                format: LayerFormat::TarGzip,
                name: None,
                output: folder.join(format!("images/{version}")),
                as_archive: false,
            };
            build(&order).expect("an image").digest.to_string()
        })
        .collect()
}

/// What the kernel has of a machine and of the instances on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Traces {
    /// Cgroups of instances' units, each counted once for all hierarchies.
    cgroups: usize,
    /// Namespaces that some process is in.
    namespaces: usize,
    /// Processes by name.
    processes: BTreeMap<String, usize>,
}

impl Traces {
    /// These, with so many more instances like those that `some` has more than this.
    pub(crate) fn with(&self, some: &Self, had: usize, instances: usize) -> Self {
        let more = |none: usize, some: usize| none + (some - none) / had * instances;
        let processes = some.processes.iter().map(|(name, count)| {
            let none = self.processes.get(name).copied().unwrap_or_default();
            (name.clone(), more(none, *count))
        });
        Self {
            cgroups: more(self.cgroups, some.cgroups),
            namespaces: more(self.namespaces, some.namespaces),
            processes: processes.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// What certificates of the node say about their owners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Nobody shows any.
    None,
    /// Node and role, as ours do.
    OfRoles,
    /// Neither hosts nor roles, as those of an AosCore system.
    Plain,
}

/// An authority, and certificates for everybody on the node.
fn certificates(folder: &Path, kind: Certificates) {
    fs::create_dir(folder).expect("a folder");
    let pki = Pki::new("system").expect("an authority");
    pki.write_ca(folder, "ca").expect("its certificate");
    for role in ["iam", "cm", "sm"] {
        let spec = CertSpec::node("node-7", role);
        let spec = match kind {
            Certificates::Plain => spec.without_spiffe(),
            Certificates::None | Certificates::OfRoles => spec,
        };
        let issued = pki.issue(&spec);
        let issued = issued.expect("a certificate");
        issued.write_to(folder, role).expect("it is written");
    }
}

impl Rig {
    /// A node without an identity manager, registered with its controller.
    pub(crate) fn boot(versions: usize) -> Self {
        let mut rig = Self::boot_up(versions, Certificates::None);
        rig.start_manager();
        rig.wait_for_node();
        rig
    }

    /// A node without an identity manager, with these settings over the usual ones and these files.
    pub(crate) fn boot_with(settings: &serde_json::Value, files: &[(&str, &str)]) -> Self {
        let mut rig = Self::boot_machine((0, Last::Nothing), Certificates::None, settings, files);
        rig.start_manager();
        rig.wait_for_node();
        rig
    }

    /// A node without an identity manager, registered with its controller, that has networks and a resource which all ask for.
    pub(crate) fn boot_equipped(versions: usize) -> Self {
        let settings = json!({"network": {"mode": "on"}});
        let resources = json!([{"name": "place", "sharedCount": 8, "env": ["PLACE=here"]}]);
        let files = [("/etc/muster/resources.json", &*resources.to_string())];
        let images = (versions, Last::AllAskForAPlace);
        let mut rig = Self::boot_machine(images, Certificates::None, &settings, &files);
        rig.start_manager();
        rig.wait_for_node();
        rig
    }

    /// A node without an identity manager, registered with its controller; the last version fails.
    pub(crate) fn boot_failing(versions: usize) -> Self {
        let images = (versions, Last::Fails);
        let mut rig = Self::boot_machine(images, Certificates::None, &json!({}), &[]);
        rig.start_manager();
        rig.wait_for_node();
        rig
    }

    /// A node with certificates, on which neither the identity manager nor the Service Manager has been started.
    pub(crate) fn boot_with_certificates(versions: usize) -> Self {
        Self::boot_up(versions, Certificates::OfRoles)
    }

    /// The same, with certificates that do not say whose they are, and a Service Manager that takes them.
    pub(crate) fn boot_with_plain_certificates(versions: usize) -> Self {
        let settings = json!({"cmServerName": "anyOfCa", "iamServerName": "anyOfCa"});
        let images = (versions, Last::AsksForPermissions);
        Self::boot_machine(images, Certificates::Plain, &settings, &[])
    }

    fn boot_up(versions: usize, kind: Certificates) -> Self {
        let last = match kind {
            Certificates::None => Last::Nothing,
            Certificates::OfRoles | Certificates::Plain => Last::AsksForPermissions,
        };
        Self::boot_machine((versions, last), kind, &json!({}), &[])
    }

    fn boot_machine(
        (versions, last): (usize, Last),
        kind: Certificates,
        settings: &serde_json::Value,
        more: &[(&str, &str)],
    ) -> Self {
        let with_iam = kind != Certificates::None;
        let files = tempfile::tempdir().expect("a folder");
        let versions = images(files.path(), versions, last);
        certificates(&files.path().join("pki"), kind);
        let protos = [
            "common/v2/common.proto",
            "servicemanager/v5/servicemanager.proto",
            "iamanager/v6/iamanager.proto",
        ];
        contracts(&files.path().join("generated"), &protos, TIME).expect("contracts");
        fs::create_dir(files.path().join("sets")).expect("a folder");
        let programs = Binaries::build(
            Build::Test,
            PROGRAMS,
            &["muster-core/fault-points", "muster-sm/fault-points"],
        )
        .expect("programs");
        let mut config = json!({
            "cmServerUrl": "127.0.0.1:8093",
            "maxDmips": 10000,
            "runtimes": [{"type": "runc"}, {"type": "native"}],
            // As the first process of its namespace, the program does not hear the request to end.
            "launcher": {"stopTimeout": "100ms"},
        });
        if with_iam {
            config["iamPublicServerUrl"] = "127.0.0.1:8090".into();
            config["iamProtectedServerUrl"] = "127.0.0.1:8089".into();
            config["caCert"] = "/test/pki/ca.pem".into();
        } else {
            config["insecure"] = "the controller of this test has no certificate".into();
        }
        for (key, value) in settings.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manager");
        let mut builder = muster::machine(&programs)
            .hybrid_cgroups()
            .bind(files.path(), "/test")
            .bind(sources.join("cm.py"), "/usr/local/lib/cm.py")
            .bind(sources.join("iam.py"), "/usr/local/lib/iam.py")
            .file("/etc/muster/sm.json", config.to_string(), 0o644)
            .unit("muster-sm.service", SM_UNIT);
        for (path, content) in more {
            builder = builder.file(path, content, 0o644);
        }
        let machine = muster::boot(&builder, TIME).expect("it boots");
        let up = machine.run(["ip", "link", "set", "lo", "up"]);
        assert!(up.expect("a command").status.success());
        let words = [
            PYTHON,
            "/usr/local/lib/cm.py",
            "/test/generated",
            "/test/sets",
            "/test/images",
        ];
        let secured = with_iam.then_some("/test/pki");
        let controller = machine.program(words.into_iter().chain(secured));
        let controller = controller.start().expect("the controller starts");
        Self {
            machine,
            controller,
            iam: None,
            versions,
            sets: 0,
            networks: None,
            commands: 0,
            files,
        }
    }

    pub(crate) fn start_manager(&self) {
        let started = self.machine.run(["sctl", "start", "muster-sm.service"]);
        let started = started.expect("a command");
        assert!(started.status.success(), "{}", started.stderr);
    }

    /// Waits until the node has registered with its controller.
    pub(crate) fn wait_for_node(&mut self) {
        let registered = self.controller.wait_for_line("node", TIME);
        registered.expect("the node registers");
    }

    pub(crate) fn start_iam(&mut self) {
        let words = [
            PYTHON,
            "/usr/local/lib/iam.py",
            "/test/generated",
            "/test/pki",
        ];
        let mut iam = self.machine.program(words).start().expect("it starts");
        iam.wait_for_line("ready", TIME).expect("it is ready");
        self.iam = Some(iam);
    }

    pub(crate) fn kill_iam(&mut self) {
        let mut iam = self.iam.take().expect("there is one");
        iam.kill9().expect("it ends");
    }

    /// The identity manager forgets whom it has registered, as one does that keeps this in memory and was started anew.
    pub(crate) fn forget_permissions(&self) {
        let registered = self.files.path().join("pki/registered");
        fs::remove_dir_all(registered).expect("somebody was registered");
    }

    /// What the identity manager was asked for since it was started.
    pub(crate) fn iam_said(&self) -> String {
        let iam = self.iam.as_ref().expect("there is one");
        iam.text(Stream::Stdout)
    }

    /// Waits until the identity manager has taken an item's permissions back.
    pub(crate) fn wait_until_unregistered(&mut self, item: &str) {
        let iam = self.iam.as_mut().expect("there is one");
        let line = format!("unregistered {item}");
        iam.wait_for_line(&line, TIME).expect("it is asked");
    }

    /// What a power cut and a boot leave of instances: nothing but what is on disk.
    pub(crate) fn lose_power(&self) {
        // As first processes of their namespaces, the programs do not hear the request to end.
        let script = "sctl stop muster-sm.service && sctl stop --no-block 'muster-container-*' && \
            sctl kill -s KILL 'muster-container-*' && sctl stop 'muster-container-*' && \
            awk '$2 ~ \"^/run/muster/sm/\" {print $2}' /proc/mounts | xargs -r umount && \
            rm -r /run/muster/sm";
        let lost = self.machine.run(["sh", "-c", script]).expect("a script");
        assert!(lost.status.success(), "{}", lost.stderr);
    }

    /// Sends a set of (item, version) and waits until the node reports exactly that as active.
    #[track_caller]
    pub(crate) fn run_set(&mut self, set: &BTreeMap<String, usize>) {
        self.send_set(set);
        self.wait_for_set();
    }

    pub(crate) fn send_set(&mut self, set: &BTreeMap<String, usize>) {
        self.sets += 1;
        let digests: BTreeMap<&String, &String> = set
            .iter()
            .map(|(item, version)| (item, &self.versions[*version]))
            .collect();
        let path = self.files.path().join(format!("sets/{}.json", self.sets));
        let mut set = json!({"items": digests});
        if let Some((networks, addresses)) = &self.networks {
            set["networks"] = networks.clone();
            set["addresses"] = addresses.clone();
        }
        let text = set.to_string();
        // The controller looks at any moment.
        let beside = path.with_extension("new");
        fs::write(&beside, text).expect("it is written");
        fs::rename(&beside, &path).expect("it is whole");
    }

    #[track_caller]
    pub(crate) fn wait_for_set(&self) {
        let path = format!("/test/sets/{}.done", self.sets);
        if let Err(error) = self.machine.wait_for_path(&path, TIME) {
            panic!("{error}: {}", self.controller.text(Stream::Stdout));
        }
    }

    /// Where images and other files are that the controller sees.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Sends a message as it is, in protobuf's JSON.
    pub(crate) fn command(&mut self, message: &serde_json::Value) {
        self.commands += 1;
        let name = format!("sets/command.{}", self.commands);
        let path = self.files.path().join(name);
        fs::write(path.with_extension("new"), message.to_string()).expect("it is written");
        let whole = self
            .files
            .path()
            .join(format!("sets/command.{}.json", self.commands));
        fs::rename(path.with_extension("new"), whole).expect("it is whole");
    }

    /// Waits until the node has said something that `look` finds.
    #[track_caller]
    pub(crate) fn wait_until_said<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&serde_json::Value) -> Option<T>,
    ) -> T {
        let path = self.files.path().join("sets/said");
        let deadline = Instant::now() + TIME;
        loop {
            let said = fs::read_to_string(&path).unwrap_or_default();
            // The last line may be half written.
            let messages = said
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            if let Some(found) = messages.into_iter().find_map(|message| look(&message)) {
                return found;
            }
            if Instant::now() > deadline {
                let lines: Vec<&str> = said.lines().collect();
                let telling = lines
                    .into_iter()
                    .filter(|it| !it.contains("instantMonitoring"));
                let last: Vec<&str> = telling.rev().take(20).collect();
                panic!("the node did not say {what}: {last:#?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The processes of all instances, as soon as none is on its way.
    pub(crate) fn pids(&self) -> Pids {
        instances(&self.machine, "sleep", TIME).expect("a list")
    }

    /// Kills the Service Manager when it next reaches a point.
    pub(crate) fn arm(&self, point: &str) {
        let _ = fs::remove_file(self.machine.path("/run/fault.reached"));
        self.machine
            .replace("/run/fault", point.as_bytes())
            .expect("it is written");
    }

    /// Whether it reached the point since then.
    pub(crate) fn disarm(&self) -> bool {
        let _ = fs::remove_file(self.machine.path("/run/fault"));
        self.machine.path("/run/fault.reached").exists()
    }

    /// What the units of an item's instance are called by.
    pub(crate) fn instance_id(&self, item: &str) -> String {
        let ident = InstanceIdent {
            item_id: item.parse().expect("an id"),
            subject_id: "subject".parse().expect("an id"),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        };
        ident.instance_id().to_string()
    }

    /// Folders and mounts of instances.
    pub(crate) fn places(&self) -> String {
        let look = "ls /run/muster/sm/runc; grep -c /run/muster/sm/ /proc/self/mounts";
        self.machine.run(["sh", "-c", look]).expect("a list").stdout
    }

    /// Links, pinned namespaces and everything else that networks and instances leave, or do not. Rules are counted: each
    /// instance has as many.
    pub(crate) fn network_traces(&self) -> String {
        let look = "ip -o link | wc -l; nft list ruleset | grep -vE 'packets|bytes' | wc -l; nft list ruleset | grep -cE 'packets|bytes'; \
                    find /run/muster/sm/network/netns /run/muster/sm/runc -mindepth 1 -maxdepth 1 2>/dev/null | sort; \
                    awk '$2 ~ \"^/run/muster/sm/\" {print $2}' /proc/self/mounts | sort; \
                    find /run/muster/sm/network -type f | wc -l";
        self.machine.run(["sh", "-c", look]).expect("a list").stdout
    }

    /// What instances leave behind, or do not.
    /// The same at a moment when the manager is not asking the kernel how much traffic there was, which it does now and then.
    pub(crate) fn traces_at_rest(&self) -> Traces {
        poll_for(TIME, "nobody asks for traffic", || {
            let traces = self.traces();
            (!traces.processes.contains_key("nft")).then_some(traces)
        })
    }

    pub(crate) fn traces(&self) -> Traces {
        // Whatever this look itself consists of is not looked at.
        let look = "find /sys/fs/cgroup -type d -name 'muster-container-*' | sed 's|.*/||' | sort -u | wc -l; \
                    for process in /proc/[0-9]*; do \
                        readlink $process/ns/mnt $process/ns/pid $process/ns/net $process/ns/ipc $process/ns/uts; \
                    done 2>/dev/null | sort -u | wc -l; \
                    cat /proc/[0-9]*/comm 2>/dev/null | grep -vxE 'sh|cat|grep'";
        let seen = self.machine.run(["sh", "-c", look]).expect("a list").stdout;
        let mut lines = seen.lines();
        let mut number = || lines.next()?.trim().parse().ok();
        let (cgroups, namespaces) = (number().expect("cgroups"), number().expect("namespaces"));
        let mut processes = BTreeMap::new();
        for name in lines {
            *processes.entry(name.to_owned()).or_default() += 1;
        }
        Traces {
            cgroups,
            namespaces,
            processes,
        }
    }

    /// Waits until there are these traces and no others: the last process of an instance is waited for by somebody else.
    #[track_caller]
    pub(crate) fn wait_for_traces(&self, expected: &Traces, when: &str) {
        let mut seen = None;
        let found = try_poll_for(TIME, || {
            let now = self.traces();
            let found = now == *expected;
            seen = Some(now);
            found.then_some(())
        });
        assert!(found.is_some(), "{when}: {seen:?} instead of {expected:?}");
    }

    /// Waits until the Service Manager runs and is not `old`.
    pub(crate) fn wait_for_another_manager(&self, old: i32) {
        poll_until(TIME, "another service manager", || {
            self.manager().is_some_and(|new| new != old)
        });
    }

    /// The Service Manager's process, as the host counts.
    pub(crate) fn manager(&self) -> Option<i32> {
        let processes = self.machine.processes().expect("a list");
        let manager = processes
            .iter()
            .find(|it| it.name == "muster-sm" && !it.zombie);
        manager.map(|it| it.host_pid)
    }
}
