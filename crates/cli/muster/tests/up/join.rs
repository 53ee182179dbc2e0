//! A machine that is made on demand becomes a node of a Unit, runs what the Unit places on it, and leaves nothing when it is
//! destroyed.

mod container;
mod guest;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_lab::machine::CommandOutput;
use muster_lab::program::Process;
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Programs, Site, TIME};

/// Programs are brought, and every daemon starts, perhaps where no hardware helps a virtual processor.
const JOIN_TIME: Duration = Duration::from_secs(400);
/// The same, and a whole distribution boots before.
const BOOT_TIME: Duration = Duration::from_secs(800);
const UNIT: &str = "/var/lib/muster/demo";
/// Where the machine finds what a test prepared for it.
const BROUGHT: &str = "/joined";
const PROGRAMS: &str = "/joined/programs";
const SOCKET: &str = "/tmp/nodemgr.sock";

/// One of these on every node.
const WISH: &str = "\
items:
- id: worker
  version: 1.0.0
  image: {layout: images/worker-1.0.0.tar}
instances:
- {item: worker, subject: demo, count: 3, distribution: spread}
env:
- item: worker
  variables: {WEB: '127.0.0.1:9'}
";

/// What the machine needs of the host: Muster's programs without what debuggers need, the manager's configuration, templates.
fn brought(programs: &Programs, providers: &str, templates: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("programs");
    fs::create_dir(&bin).expect("a folder");
    programs.copy_to(&bin);
    strip(&bin);
    let manager = format!(
        r#"{{"stateDir": "/tmp/nodemgr", "socket": "{SOCKET}", "templates": ["{BROUGHT}/templates.yaml"],
            "providers": {{"local": {{"enabled": false}}, {providers}}}}}"#
    );
    fs::write(folder.path().join("nodemgr.json"), manager).expect("written");
    fs::write(folder.path().join("templates.yaml"), templates).expect("written");
    fs::write(folder.path().join("wish.yaml"), WISH).expect("written");
    folder
}

fn strip(folder: &Path) {
    let entries = fs::read_dir(folder).expect("a list");
    let all: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    let stripped = Command::new("strip").args(&all).status();
    assert!(stripped.expect("strip is installed").success());
}

/// A node manager beside the Unit.
struct Manager<'s> {
    site: &'s Site,
    _process: Process,
}

impl<'s> Manager<'s> {
    fn start(site: &'s Site) -> Self {
        let program = format!("{PROGRAMS}/muster-nodemgr");
        let config = format!("{BROUGHT}/nodemgr.json");
        let manager = Self {
            site,
            _process: site.begin_in_group(&[&program, "--config", &config]),
        };
        site.wait_until("the node manager answers", TIME, |_| {
            manager.machine(&["list"]).status.success()
        });
        manager
    }

    /// `muster machine` with these words.
    fn machine(&self, words: &[&str]) -> CommandOutput {
        let way = ["muster", "machine", "--manager", SOCKET];
        self.site.command_within(BOOT_TIME, &[&way, words].concat())
    }

    #[track_caller]
    fn machine_ok(&self, words: &[&str]) -> String {
        let done = self.machine(words);
        assert!(
            done.status.success(),
            "{words:?}: {}{}",
            done.stdout,
            done.stderr
        );
        done.stdout
    }

    /// The id of a machine that is made.
    #[track_caller]
    fn provision(&self, words: &[&str]) -> String {
        let made = self.machine_ok(&[&["provision", "-o", "json"], words].concat());
        let made: Value = serde_json::from_str(&made).expect("JSON");
        made["id"].as_str().expect("an id").to_owned()
    }

    /// What the daemons of a node in a machine said, for a test that has failed.
    fn why(&self, machine: &str) -> String {
        let journal = format!("/tmp/journal-of-{machine}");
        let from = format!("{machine}:/var/lib/muster/node/journal");
        let copied = self.machine(&["cp", &from, &journal]);
        format!("{}{}", copied.stderr, self.site.journal(&journal))
    }

    fn node(&self, machine: &str) -> Option<Value> {
        let nodes = self.site.muster(&["get", "nodes", "-o", "json"]);
        let nodes: Vec<Value> = serde_json::from_str(&nodes.stdout).ok()?;
        nodes.into_iter().find(|it| it["id"] == machine)
    }

    /// It is a member, and another try to join changes nothing.
    #[track_caller]
    fn assert_joined(&self, machine: &str) {
        let node = self.node(machine).expect("the Unit knows it");
        assert_eq!(node["state"], "provisioned", "{node:#}");
        assert_eq!(node["connected"], true, "{node:#}");
        self.machine_ok(&["join", machine, UNIT, "--programs", PROGRAMS]);
    }

    /// The Unit places something on every node; what it places on the machine runs there.
    #[track_caller]
    fn assert_works(&self, machine: &str) {
        let site = self.site;
        let wish = format!("{UNIT}/wish.yaml");
        site.machine_ok(&["cp", &format!("{BROUGHT}/wish.yaml"), &wish]);
        let words = ["muster", "apply", &wish, "--wait"];
        let applied = site.command_within(JOIN_TIME, &words);
        assert!(
            applied.status.success(),
            "{}{}{}",
            applied.stdout,
            applied.stderr,
            self.why(machine)
        );
        let instances = site.instances();
        for node in ["main", "second", machine] {
            let is_there = |it: &Value| it["node"] == node && it["state"] == "active";
            assert!(
                instances.iter().any(is_there),
                "nothing runs on {node}: {instances:#?}"
            );
        }
        self.machine_ok(&["exec", machine, "--", "pidof", "muster-demo-worker"]);
    }

    /// It is connected again after it was stopped and started.
    #[track_caller]
    fn assert_comes_back(&self, machine: &str) {
        self.machine_ok(&["stop", machine]);
        self.site.wait_until("the Unit misses it", TIME, |site| {
            !site.is_connected(machine)
        });
        self.machine_ok(&["start", machine]);
        self.site
            .wait_until("it is connected again", JOIN_TIME, |site| {
                site.is_connected(machine)
            });
    }

    /// A machine that is gone is listed and told of until its node has left the Unit.
    #[track_caller]
    fn assert_is_missed_until_it_left(&self, machine: &str) {
        let listed = || {
            let all = self.machine_ok(&["list", "-o", "json"]);
            let all: Vec<Value> = serde_json::from_str(&all).expect("JSON");
            all.into_iter().find(|it| it["id"] == machine)
        };
        self.site.wait_until("its end is seen", TIME, |_| {
            listed().is_some_and(|it| it["state"] == "terminated" && it["unit"].is_string())
        });
        let advice = format!("muster machine leave {machine}");
        let doctor = self.machine(&["doctor"]);
        assert!(doctor.stdout.contains(&advice), "{}", doctor.stdout);
        let events = self.machine_ok(&["events", machine]);
        assert!(events.contains(&advice), "{events}");
        self.machine_ok(&["leave", machine]);
        assert_eq!(listed(), None);
    }

    /// It leaves the Unit before it is destroyed, and the others go on.
    #[track_caller]
    fn assert_leaves(&self, machine: &str) {
        self.machine_ok(&["destroy", machine]);
        self.site
            .wait_until("the Unit does without it", TIME, |site| {
                let is_member =
                    |node: &Value| node["state"] == "provisioned" || node["connected"] == true;
                let instances = site.instances();
                let mut there = instances.iter();
                !self.node(machine).is_some_and(|node| is_member(&node))
                    && site.is_connected("main")
                    && site.is_connected("second")
                    && !there.any(|it| it["node"] == machine && it["state"] == "active")
            });
        let left = self.machine_ok(&["list", "-o", "json"]);
        let left: Vec<Value> = serde_json::from_str(&left).expect("JSON");
        let is_there = |it: &&Value| it["id"] == machine && it["state"] != "terminated";
        assert_eq!(left.iter().find(is_there), None);
    }
}
