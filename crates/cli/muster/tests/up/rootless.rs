//! `muster up` of somebody who may do nothing special.

use std::collections::BTreeSet;

use muster_lab::machine::CommandOutput;
use serde_json::Value;

use crate::rig::{Site, TIME};

const UID: &str = "4242";
/// In memory, and not at the root of its mount, as `/home/NAME` is on many machines.
const HOME: &str = "/tmp/somebody";
/// On the layer that is the machine's root, as in many containers.
const HOME_ON_OVERLAY: &str = "/home/somebody";
const RUNTIME_DIR: &str = "/run/user/4242";
/// Everything that runs.
const PROCESSES: [&str; 8] = [
    "muster-init",
    "muster-core",
    "muster-logd",
    "muster-iam",
    "muster-cm",
    "muster-sm",
    "muster-demo-web",
    "muster-demo-wor",
];

/// A user of the machine, at home somewhere.
struct Somebody<'a> {
    site: &'a Site,
    home: &'static str,
    has_runtime_dir: bool,
}

impl Somebody<'_> {
    fn run(&self, words: &[&str]) -> CommandOutput {
        let home = format!("HOME={}", self.home);
        let runtime_dir = format!("XDG_RUNTIME_DIR={RUNTIME_DIR}");
        let mut command = vec!["setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"];
        command.extend(["env", "-u", "XDG_RUNTIME_DIR", &home]);
        if self.has_runtime_dir {
            command.push(&runtime_dir);
        }
        self.site.command(&[&command, words].concat())
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> CommandOutput {
        let done = self.run(words);
        assert!(
            done.status.success(),
            "{words:?}: {}{}\n{}",
            done.stdout,
            done.stderr,
            self.site.journal(&format!(
                "{}/.local/state/muster/demo/main/journal",
                self.home
            ))
        );
        done
    }

    /// What runs, as the Unit tells.
    fn instances(&self) -> Vec<Value> {
        let socket = format!("MUSTER_UNIT={}/cm.sock", self.runtime());
        let told = self.run(&["env", &socket, "muster", "get", "instances", "-o", "json"]);
        serde_json::from_str(&told.stdout).unwrap_or_default()
    }

    fn runtime(&self) -> String {
        match self.has_runtime_dir {
            true => format!("{RUNTIME_DIR}/muster"),
            false => format!("{}/.local/state/muster/demo/run", self.home),
        }
    }

    fn init(&self) -> i32 {
        let noted = self.site.read(&format!("{}/main/init.pid", self.runtime()));
        noted.trim().parse().expect("a pid")
    }

    /// Every process of the Unit.
    fn pids(&self) -> BTreeSet<i32> {
        let names = PROCESSES.join("|");
        let listed = self.site.command(&["pgrep", "-u", UID, "-x", &names]);
        let pids = listed.stdout.lines().map(|it| it.parse().expect("a pid"));
        pids.collect()
    }

    #[track_caller]
    fn assert_active(&self) {
        let instances = self.instances();
        let is_active = |it: &Value| it["state"] == "active" && it["node"] == "main";
        assert!(
            instances.len() == 2 && instances.iter().all(is_active),
            "{instances:#?}"
        );
    }

    fn make_home(&self) {
        self.site
            .machine_ok(&["install", "-d", "-o", UID, "-g", UID, self.home]);
    }
}

/// What follows `word` in what was printed.
fn printed<'a>(said: &'a str, word: &str) -> &'a str {
    let mut lines = said.lines().filter_map(|it| it.trim().strip_prefix(word));
    let rest = lines
        .next()
        .unwrap_or_else(|| panic!("{word} is not in {said}"));
    rest.split_whitespace().next().unwrap_or_default()
}

#[test]
fn a_user_gets_one_node_that_answers_and_keeps_nothing_of_it() {
    muster_lab::require!(Root, NetNs, Tool("setpriv"), Tool("curl"));
    let site = Site::boot();
    let mut somebody = Somebody {
        site: &site,
        home: HOME,
        has_runtime_dir: false,
    };
    somebody.make_home();
    let before = site.picture();
    let up = somebody.ok(&["muster", "up"]);
    let told = up.stderr.matches("without root").count();
    assert_eq!(told, 1, "once: {}", up.stderr);
    somebody.assert_active();
    // What is printed works as it is printed.
    assert_eq!(
        printed(&up.stdout, "export MUSTER_UNIT="),
        format!("{}/cm.sock", somebody.runtime())
    );
    let url = printed(&up.stdout, "curl ").to_owned();
    let answer = site.command(&["curl", "--silent", "--max-time", "5", &url]);
    assert!(answer.stdout.starts_with("Hello!"), "{url}: {answer:?}");
    let socket = format!("MUSTER_UNIT={}/cm.sock", somebody.runtime());
    site.wait_until("the worker is answered", TIME, |_| {
        let log = somebody.run(&["env", &socket, "muster", "logs", "worker"]);
        log.stdout.contains("says: Hello!")
    });

    let pids = somebody.pids();
    assert_eq!(pids.len(), PROCESSES.len());
    somebody.ok(&["muster", "up"]);
    assert_eq!(somebody.pids(), pids, "a second one touches nothing");

    // Whatever its init leaves when it dies is found, without cgroups.
    site.kill9(somebody.init());
    somebody.ok(&["muster", "down"]);
    site.assert_as(&before);

    // The same with a folder for sockets elsewhere, and the next `up` is what finds it.
    somebody.has_runtime_dir = true;
    site.machine_ok(&["mkdir", "-p", RUNTIME_DIR]);
    let owner = format!("size=64m,mode=700,uid={UID},gid={UID}");
    site.machine_ok(&["mount", "-t", "tmpfs", "-o", &owner, "user", RUNTIME_DIR]);
    let before = site.picture();
    somebody.ok(&["muster", "up"]);
    let (init, pids) = (somebody.init(), somebody.pids());
    site.kill9(init);
    somebody.ok(&["muster", "up"]);
    somebody.assert_active();
    let anew = somebody.pids();
    assert!(
        anew.is_disjoint(&pids) && anew.len() == pids.len(),
        "{anew:?} {pids:?}"
    );
    site.kill9(somebody.init());
    somebody.ok(&["muster", "down"]);
    site.assert_as(&before);
}

#[test]
fn a_folder_that_cannot_carry_instances_is_refused_before_anything_is_made() {
    muster_lab::require!(Root, NetNs, Tool("setpriv"));
    let site = Site::boot();
    let mut somebody = Somebody {
        site: &site,
        home: HOME_ON_OVERLAY,
        has_runtime_dir: false,
    };
    somebody.make_home();
    let before = site.picture();
    let refused = somebody.run(&["muster", "up"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    for word in ["overlay", "--dir", "--run", HOME_ON_OVERLAY] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    site.assert_as(&before);

    // Neither does one that is too small.
    somebody.home = HOME;
    site.machine_ok(&["mkdir", HOME]);
    let owner = format!("size=8m,mode=700,uid={UID},gid={UID}");
    site.machine_ok(&["mount", "-t", "tmpfs", "-o", &owner, "small", HOME]);
    let before = site.picture();
    let refused = somebody.run(&["muster", "up"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    for word in ["MiB left", "make room", HOME] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    site.assert_as(&before);

    // Root's Unit is not a user's, and the other way round.
    site.up(&["--dir", "/tmp/of-root"]);
    let refused = somebody.run(&["muster", "up", "--dir", "/tmp/of-root"]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("as root"), "{}", refused.stderr);
    let done = site.muster(&["down", "--dir", "/tmp/of-root"]);
    assert!(done.status.success(), "{}", done.stderr);
    site.assert_as(&before);
}
