//! A machine with an image, and a small Service Manager in it.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use muster_lab::machine::{Build, CommandOutput, Machine, MachineBuilder};
use muster_lab::program::{Process, Program, Stream};
use muster_lab::{muster, peer, try_poll_for};
use tempfile::TempDir;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
const DRIVER: &str = "/usr/local/lib/container-driver";
const UNIT_PROGRAM: &str = "/usr/local/lib/muster-container";
const SHELL_TOOLS: [&str; 17] = [
    "sh", "cat", "sleep", "echo", "id", "mount", "unshare", "head", "dd", "kill", "touch", "ls",
    "true", "grep", "hostname", "wc", "df",
];

pub(crate) struct Rig {
    machine: Machine,
    oci_runtime: &'static str,
    // Seen by the machine until it ends.
    _image: TempDir,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

/// A folder as an unpacked layer: busybox and its names.
pub(crate) fn image() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    fs::copy("/bin/busybox", bin.join("busybox")).expect("busybox");
    for tool in SHELL_TOOLS {
        symlink("busybox", bin.join(tool)).expect("a link");
    }
    folder
}

fn with_containers(builder: MachineBuilder, image: &Path) -> MachineBuilder {
    builder
        .bind(muster_fault::test_program("container-driver"), DRIVER)
        .bind(env!("CARGO_BIN_EXE_muster-container"), UNIT_PROGRAM)
        .bind(image, "/image")
}

impl Rig {
    /// A machine with core, and controllers of version 1.
    pub(crate) fn boot() -> Self {
        let image = image();
        let programs =
            muster::programs(Build::Test, &["muster-core/fault-points"]).expect("programs");
        let builder = muster::machine(&programs).hybrid_cgroups();
        let builder = with_containers(builder, image.path());
        let machine = muster::boot(&builder, TIME).expect("it boots");
        Self {
            machine,
            // crun refuses hybrid trees, and raises a limit on v2 that only some machines let it raise.
            oci_runtime: "runc",
            _image: image,
        }
    }

    /// A machine with systemd, a bus, and version 2 alone. (systemd would mount the host's own trees of version 1.)
    pub(crate) fn boot_systemd() -> Self {
        let image = image();
        let wants = "[Unit]\nRequires=multi-user.target dbus.service\nAfter=multi-user.target dbus.service\n";
        let builder = peer::systemd()
            .vendor_unit("dbus.service")
            .vendor_unit("dbus.socket")
            .unit("default.target", wants);
        let machine =
            peer::boot_systemd(&with_containers(builder, image.path()), TIME).expect("it boots");
        Self {
            machine,
            // crun refuses hybrid trees, and raises a limit on v2 that only some machines let it raise.
            oci_runtime: "runc",
            _image: image,
        }
    }

    fn program(&self, words: &[&str]) -> Program {
        let words = [DRIVER].iter().chain(words);
        self.machine
            .program(words)
            .env("DRIVER_OCI_RUNTIME", self.oci_runtime)
    }

    /// Runs the driver, however it ends.
    pub(crate) fn driver(&self, words: &[&str]) -> CommandOutput {
        let mut process = self.program(words).start().expect("the driver starts");
        let status = process.wait(TIME).expect("the driver ends");
        CommandOutput {
            status,
            stdout: process.text(Stream::Stdout),
            stderr: process.text(Stream::Stderr),
        }
    }

    /// Runs the driver, which must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.driver(words);
        assert!(
            output.status.success(),
            "{words:?}: {}{}",
            output.stdout,
            output.stderr
        );
        output.stdout
    }

    /// Runs the driver of a runtime with another folder, which must succeed.
    #[track_caller]
    pub(crate) fn ok_in(&self, folder: &str, words: &[&str]) -> String {
        let program = self.program(words).env("DRIVER_FOLDER", folder);
        let mut process = program.start().expect("the driver starts");
        let status = process.wait(TIME).expect("the driver ends");
        assert!(status.success(), "{}", process.text(Stream::Stderr));
        process.text(Stream::Stdout)
    }

    /// Starts the driver with one fault armed; it reports into a file of the machine.
    pub(crate) fn armed(&self, fault: &str, words: &[&str]) -> bool {
        let report = "/run/fault-report";
        let program = self
            .program(words)
            .env("MUSTER_FAULT", fault)
            .env("MUSTER_FAULT_REPORT", report);
        let mut process = program.start().expect("it starts");
        let status = process.wait(TIME).expect("it ends");
        assert!(!status.success(), "{fault}: it went on");
        let reached = self.machine.read(report).unwrap_or_default();
        let _ = self.machine.write(report, "");
        reached.contains(fault)
    }

    /// The driver, telling what happens.
    pub(crate) fn watch(&self, names: &[&str]) -> Process {
        let words: Vec<&str> = ["watch"].iter().chain(names).copied().collect();
        let mut process = self.program(&words).start().expect("it starts");
        process.wait_for_line("watching", TIME).expect("it watches");
        process
    }

    /// Waits for a file of the machine with a whole line in it.
    #[track_caller]
    pub(crate) fn line(&self, path: &str) -> String {
        let found = try_poll_for(TIME, || {
            self.machine
                .read(path)
                .ok()
                .filter(|text| text.ends_with('\n'))
        });
        found
            .unwrap_or_else(|| panic!("{path} was never written: {:?}", self.machine.read(path)))
            .trim()
            .to_owned()
    }

    /// Units of instances, with the numbers of their first processes.
    pub(crate) fn first_processes(&self) -> Vec<(String, String)> {
        let words = [
            "sctl",
            "list-units",
            "--no-legend",
            "--plain",
            "muster-container-*",
        ];
        let units = self.machine.run(words).expect("a list").stdout;
        let unit = |line: &str| {
            let unit = line.split_whitespace().next()?.to_owned();
            let words = ["sctl", "show", "--value", "--property=MainPID", &unit];
            let pid = self.machine.run(words).expect("a property").stdout;
            Some((unit, pid.trim().to_owned()))
        };
        units.lines().filter_map(unit).collect()
    }

    /// What instances other than these left behind.
    pub(crate) fn leftovers(&self, running: &[&str]) -> String {
        let words: Vec<&str> = ["leftovers"].iter().chain(running).copied().collect();
        self.ok(&words)
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let mut left = String::new();
        let gone = try_poll_for(TIME, || {
            left = self.leftovers(&[]);
            left.is_empty().then_some(())
        });
        assert!(gone.is_some(), "left behind:\n{left}");
    }

    /// A folder of the machine that instances may write to.
    pub(crate) fn storage(&self) -> &'static str {
        let made = self.machine.run([
            "sh",
            "-c",
            "mkdir -p /run/storage && chmod 777 /run/storage",
        ]);
        assert!(made.expect("a folder").status.success());
        r#"{"storage": "/run/storage"}"#
    }
}
