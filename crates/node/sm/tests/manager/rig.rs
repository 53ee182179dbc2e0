//! A machine with core, the Service Manager as one of its units, images, and a controller.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, ItemType};
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::machine::{Binaries, Build, Machine};
use muster_lab::program::{Process, Program, Stream};
use muster_lab::{muster, poll_until};
use serde_json::json;
use tempfile::TempDir;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(120);
const PYTHON: &str = "/usr/bin/python3";
const SM_UNIT: &str = "[Unit]\nDescription=Service Manager\nStartLimitIntervalSec=0\n[Service]\nType=notify\nEnvironment=MUSTER_FAULT_FILE=/run/fault\nExecStart=/usr/lib/muster/muster-sm --config /etc/muster/sm.json\nRestart=always\nRestartSec=0\n[Install]\nWantedBy=multi-user.target\n";
/// What a running node consists of.
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-sctl", "sctl"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
];

/// Prints the number and the unit of every process of an instance, also of those in namespaces of their own.
const LIST: &str = r#"for comm in $(grep -lx sleep /proc/[0-9]*/comm 2>/dev/null); do
    folder=${comm%/comm}
    echo "${folder#/proc/} $(grep -o 'muster-container-[^/]*service' "$folder/cgroup" | head -n 1)"
done"#;

/// Unit of an instance and its process.
pub(crate) type Pids = BTreeMap<String, i32>;

pub(crate) struct Rig {
    machine: Machine,
    // Ends before the machine that it is in.
    controller: Process,
    /// Digests of the versions of the one image.
    pub(crate) versions: Vec<String>,
    sets: u32,
    // The machine sees both until it ends.
    _files: TempDir,
    _programs: Binaries,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

/// Images of busybox that sleep, one for each version, with a layer of its own; their manifests' digests.
fn images(folder: &Path, versions: usize) -> Vec<String> {
    let content = folder.join("content");
    fs::create_dir_all(content.join("bin")).expect("a folder");
    fs::copy("/bin/busybox", content.join("bin/busybox")).expect("busybox");
    symlink("busybox", content.join("bin/sleep")).expect("a link");
    let item = json!({"runtimes": [{"codename": "runc"}], "quotas": {"pidsLimit": 16}});
    (0..versions)
        .map(|version| {
            fs::write(content.join("version"), version.to_string()).expect("a file");
            let order = BuildOrder {
                content: Content::Folder(content.clone()),
                run: RunSettings {
                    entrypoint: vec!["/bin/sleep".into(), "1000000".into()],
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

fn generate(folder: &Path) {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../proto");
    fs::create_dir(folder).expect("a folder");
    let mut compile = Program::new(PYTHON)
        .args(["-m", "grpc_tools.protoc"])
        .arg(format!("-I{}", protos.display()))
        .arg(format!("--python_out={}", folder.display()))
        .arg(format!("--grpc_python_out={}", folder.display()))
        .args([
            "common/v2/common.proto",
            "servicemanager/v5/servicemanager.proto",
        ])
        .start()
        .expect("python");
    let status = compile.wait(TIME).expect("it ends");
    assert!(status.success(), "{}", compile.text(Stream::Stderr));
}

impl Rig {
    pub(crate) fn boot(versions: usize) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let versions = images(files.path(), versions);
        generate(&files.path().join("generated"));
        fs::create_dir(files.path().join("sets")).expect("a folder");
        let programs = Binaries::build(
            Build::Test,
            PROGRAMS,
            &["muster-core/fault-points", "muster-sm/fault-points"],
        )
        .expect("programs");
        let config = json!({
            "cmServerUrl": "127.0.0.1:8093",
            "insecure": "the controller of this test has no certificate",
            "maxDmips": 10000,
            "runtimes": [{"type": "runc"}, {"type": "native"}],
            // As the first process of its namespace, the program does not hear the request to end.
            "launcher": {"stopTimeout": "100ms"},
        });
        let builder = muster::machine(&programs)
            .hybrid_cgroups()
            .bind(files.path(), "/test")
            .bind(
                Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manager/cm.py"),
                "/usr/local/lib/cm.py",
            )
            .file("/etc/muster/sm.json", config.to_string(), 0o644)
            .unit("muster-sm.service", SM_UNIT);
        let machine = muster::boot(&builder, TIME).expect("it boots");
        let up = machine.run(["ip", "link", "set", "lo", "up"]);
        assert!(up.expect("a command").status.success());
        let mut controller = machine
            .program([
                PYTHON,
                "/usr/local/lib/cm.py",
                "/test/generated",
                "/test/sets",
                "/test/images",
            ])
            .start()
            .expect("the controller starts");
        let started = machine.run(["sctl", "start", "muster-sm.service"]);
        let started = started.expect("a command");
        assert!(started.status.success(), "{}", started.stderr);
        controller
            .wait_for_line("node", TIME)
            .expect("the node registers");
        Self {
            machine,
            controller,
            versions,
            sets: 0,
            _files: files,
            _programs: programs,
        }
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
        let path = format!("/test/sets/{}.json", self.sets);
        let text = serde_json::to_string(&digests).expect("a set");
        self.machine
            .write(&path, text.as_bytes())
            .expect("it is written");
    }

    #[track_caller]
    pub(crate) fn wait_for_set(&self) {
        let path = format!("/test/sets/{}.done", self.sets);
        if let Err(error) = self.machine.wait_for_path(&path, TIME) {
            panic!("{error}: {}", self.controller.text(Stream::Stdout));
        }
    }

    /// The processes of all instances.
    pub(crate) fn pids(&self) -> Pids {
        let listed = self.machine.run(["sh", "-c", LIST]).expect("a list").stdout;
        let line = |line: &str| {
            let (pid, unit) = line.split_once(' ')?;
            Some((unit.to_owned(), pid.parse().expect("a number")))
        };
        listed.lines().filter_map(line).collect()
    }

    /// Kills the Service Manager when it next reaches a point.
    pub(crate) fn arm(&self, point: &str) {
        let _ = fs::remove_file(self.machine.path("/run/fault.reached"));
        self.machine
            .write("/run/fault", point.as_bytes())
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
