//! `--watch` and `--dry-run` of what is not copied.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::rig::Site;
use crate::using::here;

/// A command that goes on telling; it ends with this.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn begin(site: &Site, words: &[&str]) -> Self {
        let mut command = site.command(&[words, &["--watch", "-o", "json"]].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("it goes on").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Until it says something like this.
    fn until(&mut self, is_so: impl Fn(&Value) -> bool) {
        while !is_so(&self.next()) {}
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pools_and_runs_are_followed_as_machines_are() {
    let site = Site::new();
    let mut pools = Watch::begin(&site, &["pool", "list"]);
    let mut runs = Watch::begin(&site, &["runs", "list"]);
    assert_eq!(pools.next()["event"], "synced");
    assert_eq!(runs.next()["event"], "synced");
    let set = ["pool", "set", "builders", "-t", "small", "-p", "sim"];
    site.run(&set).ok();
    pools.until(|it| it["key"] == "builders" && it["object"]["ready"] == 1);
    site.run(&["pool", "remove", "builders", "--dry-run"]).ok();
    assert_eq!(site.json(&["pool", "list"])[0]["name"], "builders");
    site.run(&["pool", "remove", "builders"]).ok();
    pools.until(|it| it["event"] == "gone" && it["key"] == "builders");
    site.run(&["pool", "remove", "builders", "--dry-run"])
        .refused(4, &["builders"]);

    site.run(&["run", "-p", "local", "--no-sync", "--", "true"])
        .ok();
    runs.until(|it| it["object"]["state"] == "succeeded");
}

#[test]
fn one_machine_and_one_run_are_followed_to_their_end() {
    let site = Site::new();
    let id = site.provision(&[]);
    let mut machine = Watch::begin(&site, &["show", &id]);
    assert_eq!(machine.next()["state"], "running");
    site.run(&["destroy", &id]).ok();
    machine.until(|it| it["state"] == "terminated");
    assert!(machine.lines.next().is_none(), "nothing more becomes of it");
    assert!(machine.child.wait().unwrap().success());

    let go = site.path("go").display().to_string();
    let script = format!("while [ ! -e '{go}' ]; do sleep 0.05; done");
    let words = ["run", "-d", "-p", "local", "--no-sync", "--", "sh", "-c"];
    let started = site.json(&[&words[..], &[&script]].concat());
    let mut run = Watch::begin(&site, &["runs", "show", started["id"].as_str().unwrap()]);
    assert_eq!(run.next()["state"], "running");
    site.write("go", "");
    run.until(|it| it["state"] == "succeeded");
    assert!(run.lines.next().is_none());
}

#[test]
fn what_would_be_removed_or_joined_is_said_and_not_done() {
    let site = Site::new();
    here(&site);
    site.write("mine.yaml", "name: mine\n");
    site.run(&["templates", "add", "mine.yaml"]).ok();
    let remove = ["templates", "remove", "mine"];
    let said = site.run(&[&remove[..], &["--dry-run"]].concat()).ok();
    assert!(
        said.stderr.contains("mine: it could be removed"),
        "{said:?}"
    );
    site.run(&remove).ok();
    site.run(&[&remove[..], &["--dry-run"]].concat())
        .refused(4, &["mine"]);
    let said = site.run(&["leave", "here", "--dry-run"]).ok();
    assert!(said.stderr.contains("it is no node"), "{said:?}");

    site.run(&["join", "here", "nowhere", "--dry-run"])
        .refused(2, &["nowhere"]);
    assert_eq!(site.json(&["show", "here"])["unit"], json!(null));
}
