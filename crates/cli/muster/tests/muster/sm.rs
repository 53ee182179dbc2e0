//! `muster sm run`: in a machine with another init and nothing of Muster but its programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use muster_lab::machine::{Binaries, Build, CommandOutput, Machine};
use muster_lab::poll_until;
use muster_lab::program::{Process, Stream};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::rig::Site;

/// For everything that takes a moment, on a machine that may be busy.
const TIME: Duration = Duration::from_secs(120);
const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
];

struct Rig {
    machine: Machine,
    // The machine sees both until it ends.
    files: TempDir,
    _programs: Binaries,
}

/// An image of busybox that sleeps, as an archive.
fn image(folder: &Path) {
    let bin = folder.join("rootfs/bin");
    fs::create_dir_all(&bin).expect("a folder");
    fs::copy("/bin/busybox", bin.join("busybox")).expect("busybox");
    symlink("busybox", bin.join("sleep")).expect("a link");
    let item =
        r#"{"runtimes": [{"codename": "runc"}], "runParameters": {"stopTimeout": "PT0.1S"}}"#;
    fs::write(folder.join("item.json"), item).expect("written");
    let path = |name: &str| folder.join(name).display().to_string();
    let words = [
        "image",
        "build",
        "--folder",
        &path("rootfs"),
        "--item-config",
        &path("item.json"),
        "--entrypoint",
        "/bin/sleep",
        "--cmd",
        "1000000",
        &path("web.tar"),
    ];
    Site::empty().run(&words).ok();
}

impl Rig {
    fn boot() -> Self {
        let files = tempfile::tempdir().expect("a folder");
        image(files.path());
        let programs = Binaries::build(Build::Test, PROGRAMS, &["muster-core/fault-points"]);
        let programs = programs.expect("programs");
        let machine = Machine::builder()
            .init(["/bin/sleep", "infinity"])
            .hybrid_cgroups()
            .binaries(&programs)
            .bind(env!("CARGO_BIN_EXE_muster"), "/usr/bin/muster")
            .bind(files.path(), "/test")
            .boot()
            .expect("it boots");
        Self {
            machine,
            files,
            _programs: programs,
        }
    }

    fn desire(&self, text: &str) {
        fs::write(self.files.path().join("set.yaml"), text).expect("written");
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        let command = ["muster", "sm", "run", "/test/set.yaml"];
        let output = self.machine.run_within(TIME, command.iter().chain(words));
        output.expect("it ends")
    }

    /// A run in the foreground.
    fn start(&self) -> Process {
        let command = ["muster", "sm", "run", "/test/set.yaml"];
        self.machine.program(command).start().expect("it starts")
    }

    /// The processes of instances, as the machine's host counts.
    fn pids(&self) -> Vec<i32> {
        let processes = self.machine.processes().expect("a list");
        let of_instance = |group: &str| group.contains("muster-container-");
        let mut pids: Vec<i32> = processes
            .iter()
            .filter(|it| it.name == "sleep" && of_instance(&it.cgroup) && !it.zombie)
            .map(|it| it.host_pid)
            .collect();
        pids.sort_unstable();
        pids
    }

    /// Nothing runs, nothing is mounted, and no init is left.
    #[track_caller]
    fn assert_nothing_left(&self) {
        assert!(self.pids().is_empty(), "{:?}", self.pids());
        let processes = self.machine.processes().expect("a list");
        let ours = |name: &str| name.starts_with("muster");
        assert!(!processes.iter().any(|it| ours(&it.name)), "{processes:?}");
        let mounts = self.machine.run(["cat", "/proc/self/mounts"]);
        let mounts = mounts.expect("a list").stdout;
        assert!(!mounts.contains("/run/muster/"), "{mounts}");
    }
}

const TWO: &str =
    "items:\n- id: web\n  version: 1.0.0\n  image: {layout: web.tar}\n  instances: 2\n";

#[test]
fn a_file_runs_until_it_is_interrupted_and_nothing_is_left() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.desire(TWO);
    let mut run = rig.start();
    for instance in ["web:local:0", "web:local:1"] {
        let active = |line: &str| line.starts_with(instance) && line.contains(" active");
        poll_until(TIME, "it is told", || {
            run.lines().iter().any(|line| active(&line.text))
        });
    }
    assert_eq!(rig.pids().len(), 2);
    // Another run with the same folders is kept out.
    let other = rig.run(&["--once"]);
    assert_eq!(other.status.code(), Some(3), "{}", other.stderr);
    assert!(other.stderr.contains("in use by another process"));

    run.signal(Signal::INT).expect("it is interrupted");
    let status = run.wait(TIME).expect("it ends");
    assert!(status.success(), "{}", run.text(Stream::Stderr));
    rig.assert_nothing_left();
}

#[test]
fn what_is_kept_is_taken_over_changed_and_ended_by_later_runs() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.desire(TWO);
    let kept = rig.run(&["--once", "--keep", "--output", "json"]);
    assert_eq!(kept.status.code(), Some(0), "{}", kept.stderr);
    let statuses: Value = serde_json::from_str(&kept.stdout).expect("one value");
    assert_eq!(statuses[1]["state"], "active", "{statuses}");
    let before = rig.pids();
    assert_eq!(before.len(), 2);

    // The same file touches nothing; the image is no longer needed from its file.
    let digest = {
        let shown = rig
            .machine
            .run(["muster", "image", "inspect", "/test/web.tar", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown.expect("it ends").stdout).expect("a value");
        shown[0]["digest"].as_str().expect("a digest").to_owned()
    };
    rig.desire(&TWO.replace("layout: web.tar", &format!("digest: {digest}")));
    let again = rig.run(&["--once", "--keep"]);
    assert_eq!(again.status.code(), Some(0), "{}", again.stderr);
    assert_eq!(rig.pids(), before);

    // A run that is killed leaves everything, too.
    let mut run = rig.start();
    run.wait_for_line("web:local:1", TIME).expect("it is told");
    run.kill9().expect("it is killed");
    assert_eq!(rig.pids(), before);

    // One less.
    rig.desire(&TWO.replace("instances: 2", "instances: 1"));
    assert_eq!(rig.run(&["--once", "--keep"]).status.code(), Some(0));
    let after = rig.pids();
    assert!(after.len() == 1 && before.contains(&after[0]), "{after:?}");

    rig.desire("items: []\n");
    let ended = rig.run(&["--once"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    rig.assert_nothing_left();
}

#[test]
fn a_program_that_dies_is_started_again_and_one_that_cannot_be_started_is_told() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.desire(TWO);
    let mut run = rig.start();
    poll_until(TIME, "both instances", || rig.pids().len() == 2);
    let victim = rig.pids()[0];
    let pid = Pid::from_raw(victim).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    poll_until(TIME, "it runs again", || {
        let pids = rig.pids();
        pids.len() == 2 && !pids.contains(&victim)
    });
    run.signal(Signal::TERM).expect("it is asked to end");
    assert!(run.wait(TIME).expect("it ends").success());

    fs::remove_file(rig.files.path().join("rootfs/bin/sleep")).expect("removed");
    let broken = [
        "muster",
        "image",
        "build",
        "--folder",
        "/test/rootfs",
        "--entrypoint",
        "/bin/nothing",
        "/test/broken.tar",
    ];
    assert!(rig.machine.run(broken).expect("it ends").status.success());
    rig.desire("items:\n- id: web\n  image: {layout: broken.tar}\n  runtime: runc\n");
    let failed = rig.run(&["--once"]);
    assert_eq!(failed.status.code(), Some(1), "{}", failed.stderr);
    assert!(failed.stdout.contains("/bin/nothing"), "{}", failed.stdout);
    rig.assert_nothing_left();
}

#[test]
fn files_that_make_no_sense_are_refused_with_their_places() {
    muster_lab::require!(Root);
    let site = Site::empty();
    let run = |words: &[&str]| {
        let folders = ["--state", "state", "--runtime", "run", "--once"];
        site.run(&[&["sm", "run"][..], words, &folders].concat())
    };
    run(&["missing.yaml"]).refused(4, &["missing.yaml"]);
    fs::write(site.path("set.yaml"), "items:\n- id: web\n  image: {}\n").expect("written");
    let refused = run(&["set.yaml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("set.yaml:3"), "{}", refused.stderr);
    let text = "items:\n- id: web\n  image: {layout: nowhere.tar}\n";
    fs::write(site.path("set.yaml"), text).expect("written");
    run(&["set.yaml"]).refused(4, &["item web", "nowhere.tar"]);
    let programs = ["set.yaml", "--programs", "nowhere"];
    fs::write(site.path("set.yaml"), "items: []\n").expect("written");
    run(&programs).refused(5, &["nowhere/muster-init is not there"]);
}
