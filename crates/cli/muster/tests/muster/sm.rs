//! `muster sm run`: what it refuses, with which words and codes, and what it runs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Child, Stdio};
use std::time::Duration;

use muster_lab::machine::{Binaries, Build, Machine};
use muster_lab::{muster, poll_until, try_poll_for};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::rig::Site;

/// For whatever takes a moment, on a machine that may be busy.
const TIME: Duration = Duration::from_secs(60);

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
    assert!(refused.stderr.contains("set.yaml:2"), "{}", refused.stderr);
    let text = "items:\n- id: web\n  image: {layout: nowhere.tar}\n";
    fs::write(site.path("set.yaml"), text).expect("written");
    fs::create_dir(site.path("programs")).expect("made");
    fs::write(site.path("programs/muster-init"), "").expect("written");
    let programs = ["set.yaml", "--programs", "programs"];
    run(&programs).refused(4, &["item web", "nowhere.tar"]);
    let programs = ["set.yaml", "--programs", "nowhere"];
    fs::write(site.path("set.yaml"), "items: []\n").expect("written");
    run(&programs).refused(5, &["nowhere/muster-init is not there"]);
}

/// A run that waits for its init, which never answers.
struct Waiting {
    site: Site,
    run: Child,
    init: Pid,
}

impl Waiting {
    fn start(more: &[&str]) -> Self {
        let site = Site::empty();
        fs::write(site.path("set.yaml"), "items: []\n").expect("written");
        fs::create_dir(site.path("programs")).expect("made");
        let pid = site.path("init.pid");
        let script = format!(
            "#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 1000\n",
            pid.display()
        );
        let program = site.path("programs/muster-init");
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        for unused in ["muster-container", "muster-native-exec"] {
            fs::write(site.path(&format!("programs/{unused}")), "").expect("written");
        }
        let mut command = site.command(&[&Self::words("state", "run")[..], more].concat());
        command.env("PATH", "/usr/bin:/bin").stderr(Stdio::piped());
        let run = command.spawn().expect("it starts");
        let found = try_poll_for(TIME, || fs::read_to_string(&pid).ok()?.trim().parse().ok());
        let init = Pid::from_raw(found.expect("the init starts")).expect("a pid");
        Self { site, run, init }
    }

    fn words<'a>(state: &'a str, runtime: &'a str) -> [&'a str; 9] {
        let programs = "programs";
        let start = ["sm", "run", "set.yaml", "--programs", programs];
        let [a, b, c, d, e] = start;
        [a, b, c, d, e, "--state", state, "--runtime", runtime]
    }

    /// Ctrl-C. Answers what the command ends with.
    fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.run);
        kill_process(pid, Signal::INT).expect("it is there");
        let status = self.run.wait().expect("it ends");
        assert!(
            test_kill_process(self.init).is_err(),
            "the init has been left"
        );
        assert!(!self.site.path("run/init").exists());
        status.code()
    }
}

#[test]
fn who_is_interrupted_while_starting_leaves_no_init_and_does_not_say_that_all_is_up() {
    muster_lab::require!(Root);
    assert_eq!(Waiting::start(&["--once"]).interrupt(), Some(130));
    // Who waited for nothing has what was wanted.
    assert_eq!(Waiting::start(&[]).interrupt(), Some(0));
}

#[test]
fn folders_that_another_run_uses_are_refused() {
    muster_lab::require!(Root);
    let waiting = Waiting::start(&[]);
    let run = |state, runtime| waiting.site.run(&Waiting::words(state, runtime));
    run("other", "run").refused(3, &["another run uses ", "/run"]);
    run("state", "elsewhere").refused(3, &["in use"]);
    assert_eq!(waiting.interrupt(), Some(0));
}

const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
];
const UNIT: &str = "[Service]\nExecStart=/usr/local/bin/muster sm run /test/set.yaml \
                    --state /var/lib/run --runtime /run/run --programs /usr/lib/muster\n";

const KEEPING: &str = "[Service]\nKillMode=process\nExecStart=/usr/local/bin/muster sm run /test/set.yaml --once --keep \
                       --state /var/lib/run --runtime /run/run --programs /usr/lib/muster\n";

/// A machine with an init of its own, in which the command runs as an operator's would, and a folder that it sees as `/test`.
struct Node {
    machine: Machine,
    site: Site,
}

impl Node {
    fn boot() -> Self {
        let site = Site::empty();
        fs::create_dir_all(site.path("web/bin")).expect("made");
        fs::copy("/bin/busybox", site.path("web/bin/busybox")).expect("copied");
        symlink("busybox", site.path("web/bin/sleep")).expect("linked");
        let words = [
            "image",
            "build",
            "--folder",
            "web",
            "--entrypoint",
            "/bin/sleep",
        ];
        site.run(&[&words[..], &["--cmd", "1000000", "web.tar"]].concat())
            .ok();
        let features = ["muster-core/fault-points"];
        let programs = Binaries::build(Build::Test, PROGRAMS, &features).expect("programs");
        let builder = muster::machine(&programs)
            .hybrid_cgroups()
            .bind(site.path(""), "/test")
            .bind(env!("CARGO_BIN_EXE_muster"), "/usr/local/bin/muster")
            .unit("run.service", UNIT)
            // What it leaves running is in its group.
            .unit("keep.service", KEEPING);
        Self {
            machine: muster::boot(&builder, TIME).expect("it boots"),
            site,
        }
    }

    fn want(&self, instances: usize) {
        let text = format!(
            "items:\n- id: web\n  version: 1.0.0\n  image: {{layout: web.tar}}\n  instances: {instances}\n"
        );
        fs::write(self.site.path("set.yaml"), text).expect("written");
    }

    fn sctl(&self, words: &[&str]) {
        let done = self.machine.run(["sctl"].iter().chain(words));
        let done = done.expect("a command");
        assert!(done.status.success(), "{words:?}: {}", done.stderr);
    }

    /// The processes of instances, also of those in namespaces of their own.
    fn instances(&self) -> BTreeSet<i32> {
        self.processes("sleep")
    }

    /// Inits and what does their work, the machine's own included.
    fn managers(&self) -> BTreeSet<i32> {
        self.processes("muster-init|muster-core")
    }

    fn processes(&self, names: &str) -> BTreeSet<i32> {
        let listed = self.machine.run(["pgrep", "-x", names]).expect("a list");
        let pids = listed.stdout.lines().map(|it| it.parse().expect("a pid"));
        pids.collect()
    }

    fn wait_for_instances(&self, count: usize) -> BTreeSet<i32> {
        let found = try_poll_for(TIME, || {
            Some(self.instances()).filter(|it| it.len() == count)
        });
        found.unwrap_or_else(|| {
            let said = self.machine.run(["sctl", "status", "*.service"]);
            panic!("not {count} instances: {said:#?}");
        })
    }

    /// The command has ended.
    fn wait_for_end(&self, unit: &str) {
        poll_until(TIME, "the command ends", || {
            let state = self.machine.run(["sctl", "is-active", unit]);
            state.is_ok_and(|it| it.stdout.trim() == "inactive")
        });
    }
}

#[test]
fn what_a_file_says_runs_until_the_command_is_interrupted_and_leaves_nothing() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let node = Node::boot();
    let before = node.managers();
    node.want(2);
    node.sctl(&["start", "run.service"]);
    node.wait_for_instances(2);
    assert_eq!(node.managers().len(), before.len() + 2);
    node.sctl(&["kill", "--kill-whom=main", "-s", "INT", "run.service"]);
    node.wait_for_end("run.service");
    assert_eq!(node.instances().len(), 0);
    assert_eq!(node.managers(), before, "the machine's own and no other");
    let left = node
        .machine
        .run(["sh", "-c", "grep -c /run/run /proc/self/mounts"]);
    assert_eq!(left.expect("a command").stdout.trim(), "0");
}

#[test]
fn what_was_kept_is_taken_over_and_only_what_changed_is_touched() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let node = Node::boot();
    node.want(3);
    node.sctl(&["start", "keep.service"]);
    let all = node.wait_for_instances(3);
    node.wait_for_end("keep.service");
    assert_eq!(
        node.instances(),
        all,
        "the command has ended, what it started has not"
    );

    // What it left is nobody else's.
    let words = "sm run /test/set.yaml --once --state /var/lib/other --runtime /run/run --programs /usr/lib/muster";
    let other = ["muster"].into_iter().chain(words.split(' '));
    let other = node.machine.run(other).expect("a command");
    assert_eq!(other.status.code(), Some(3), "{}", other.stderr);
    assert!(other.stderr.contains("/var/lib/run"), "{}", other.stderr);
    assert_eq!(node.instances(), all);

    node.want(2);
    node.sctl(&["start", "run.service"]);
    let fewer = node.wait_for_instances(2);
    assert!(fewer.is_subset(&all), "{fewer:?} of {all:?}");
    node.sctl(&["kill", "--kill-whom=main", "-s", "INT", "run.service"]);
    node.wait_for_end("run.service");
    assert_eq!(node.instances().len(), 0);
}
