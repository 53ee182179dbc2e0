//! `muster sm run`: what it refuses, with which words and codes, and what it runs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use muster_lab::machine::{Binaries, Build, Machine};
use muster_lab::{muster, poll_until, try_poll_for};

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
    _programs: Binaries,
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
            _programs: programs,
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
        let listed = self.machine.run(["pgrep", "-x", "sleep"]).expect("a list");
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
    node.want(2);
    node.sctl(&["start", "run.service"]);
    node.wait_for_instances(2);
    node.sctl(&["kill", "--kill-whom=main", "-s", "INT", "run.service"]);
    node.wait_for_end("run.service");
    assert_eq!(node.instances().len(), 0);
    let left = node.machine.run([
        "sh",
        "-c",
        "grep -c /run/run /proc/self/mounts; pgrep -l muster-init",
    ]);
    let left = left.expect("a command").stdout;
    assert_eq!(left.lines().next(), Some("0"), "{left}");
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

    node.want(2);
    node.sctl(&["start", "run.service"]);
    let fewer = node.wait_for_instances(2);
    assert!(fewer.is_subset(&all), "{fewer:?} of {all:?}");
    node.sctl(&["kill", "--kill-whom=main", "-s", "INT", "run.service"]);
    node.wait_for_end("run.service");
    assert_eq!(node.instances().len(), 0);
}
