//! Runs whose manager dies, and what is said beside a workflow.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{Site, until};

fn tell(program: &Child, signal: Signal) {
    let pid = i32::try_from(program.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("sent");
}

fn spawn(site: &Site, words: &[&str]) -> Child {
    let mut command = site.command(words);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

/// A step that writes, and waits for a file the first time; it may be done again.
fn waiting(site: &Site) -> String {
    let go = site.path("go").display().to_string();
    let script = format!(
        "if [ -e '{go}' ]; then echo second; else echo first; while [ ! -e '{go}' ]; do sleep 0.05; done; fi"
    );
    json!({
        "name": "w",
        "machines": { "m": { "template": "plain", "provider": "local" } },
        "steps": [{
            "name": "s",
            "repeatable": true,
            "actions": [{ "script": { "text": script } }],
        }],
    })
    .to_string()
}

#[test]
fn a_run_is_followed_over_a_death_of_the_manager() {
    let mut site = Site::new();
    site.write("w.json", &waiting(&site));
    let mut run = spawn(&site, &["run", "--workflow", "w.json"]);
    let mut run_out = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    run_out.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    let id = site.json(&["runs", "list"])[0]["id"].clone();
    let mut logs = spawn(&site, &["runs", "logs", "-f", id.as_str().unwrap()]);
    let mut logs_out = BufReader::new(logs.stdout.take().unwrap());
    until("the log has the first line", || {
        line.clear();
        logs_out.read_line(&mut line).unwrap();
        line == "first\n"
    });
    site.kill();
    site.write("go", "");
    site.start();
    let mut rest = String::new();
    run_out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second\n");
    assert!(run.wait().unwrap().success());
    let mut rest = String::new();
    logs_out.read_to_string(&mut rest).unwrap();
    assert!(logs.wait().unwrap().success());
    assert_eq!(rest.matches("second\n").count(), 1, "{rest}");
    assert!(!rest.contains("first\n"), "{rest}");
}

#[test]
fn a_run_that_wants_more_than_a_template_leaves_nothing_after_a_kill_and_an_interrupt() {
    let mut site = Site::new();
    let words = [
        "run",
        "-p",
        "sim",
        "--image",
        "debian",
        "--no-sync",
        "--",
        "true",
    ];
    let mut run = None;
    // The machine is ordered, and the manager has not written down for which run.
    site.dies_at("orchestrate.ordered", |site| {
        run = Some(spawn(site, &words))
    });
    let run = run.expect("it was started");
    until("the run goes on with its machine", || {
        let machines = site.json(&["list"]);
        machines.as_array().map(Vec::len) == Some(1) && machines[0]["state"] == "running"
    });
    let runs = site.json(&["runs", "list"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
    tell(&run, Signal::INT);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(site.json(&["list"]), json!([]), "its machine is gone");
    assert_eq!(site.json(&["runs", "list"])[0]["state"], "cancelled");
}

#[test]
fn a_run_that_is_left_to_itself_exits_as_the_first_signal_says() {
    let mut site = Site::new();
    site.write("w.json", &waiting(&site));
    for (first, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut run = spawn(&site, &["run", "--workflow", "w.json"]);
        let mut line = String::new();
        let mut out = BufReader::new(run.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "first\n");
        // Nobody is there who could cancel it.
        site.kill();
        tell(&run, first);
        let mut said = BufReader::new(run.stderr.take().unwrap());
        while !line.contains("cancelling") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
        }
        tell(&run, Signal::INT);
        assert_eq!(run.wait().unwrap().code(), Some(code));
        site.start();
        site.write("go", "");
        until("it goes on by itself", || {
            let runs = site.json(&["runs", "list"]);
            runs.as_array()
                .unwrap()
                .iter()
                .all(|it| it["state"] != "running")
        });
        fs::remove_file(site.path("go")).unwrap();
    }
}

#[test]
fn a_step_that_is_done_again_never_runs_beside_itself() {
    let mut site = Site::new();
    let mark = site.path("first").display().to_string();
    // The second attempt looks whether the first is still at work.
    let script = format!(
        "if [ -s '{mark}' ]; then grep -q sleep \"/proc/$(cat '{mark}')/cmdline\" 2>/dev/null && echo beside || echo alone\n\
         else echo $$ >'{mark}'; exec sleep 600; fi"
    );
    let workflow = json!({
        "name": "w",
        "machines": { "m": { "template": "plain", "provider": "local" } },
        "steps": [{
            "name": "s",
            "attempts": 2,
            "delay": "1ms",
            "actions": [{ "script": { "text": script } }],
        }],
    });
    site.write("w.json", &workflow.to_string());
    let run = spawn(&site, &["run", "--workflow", "w.json"]);
    until("the first attempt is at work", || {
        let pid = fs::read_to_string(&mark).unwrap_or_default();
        let program = fs::read(format!("/proc/{}/cmdline", pid.trim()));
        program.is_ok_and(|it| it.starts_with(b"sleep"))
    });
    site.kill();
    site.start();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!((said.as_str(), output.status.code()), ("alone\n", Some(0)));
}

#[test]
fn what_a_run_writes_comes_byte_by_byte_and_what_is_lost_is_told() {
    let site = Site::new();
    let begin = ["run", "-p", "local", "--no-sync", "--", "sh", "-c"];
    let script = r"printf 'a\377\000\303\251'";
    let output = site.command(&[&begin[..], &[script]].concat()).output();
    let written = b"a\xff\0\xc3\xa9";
    assert_eq!(output.unwrap().stdout, written);
    let id = site.json(&["runs", "list"])[0]["id"].clone();
    let logs = site
        .command(&["runs", "logs", id.as_str().unwrap()])
        .output();
    assert_eq!(
        logs.unwrap().stdout,
        written,
        "and nothing of the manager's own words"
    );

    // More than is kept.
    let script = "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end";
    let started = site.json(&[&["run", "-d"], &begin[1..], &[script]].concat());
    let id = started["id"].as_str().unwrap();
    until("it is over", || {
        site.json(&["runs", "show", id])["state"] == "succeeded"
    });
    let logs = site.command(&["runs", "logs", id]).output().unwrap();
    assert!(logs.stdout.ends_with(b"x\nend\n"));
    assert!(logs.stdout.len() < 40_000_000, "{}", logs.stdout.len());
    let said = String::from_utf8(logs.stderr).unwrap();
    assert_eq!(
        said.matches("bytes of this run's log are gone here")
            .count(),
        1,
        "{said}"
    );
}

#[test]
fn what_a_workflow_says_itself_is_refused_beside_it() {
    let site = Site::new();
    site.write("w.json", &waiting(&site));
    for more in [
        &["--env", "A=b"][..],
        &["--timeout", "1s"],
        &["--finally", "keep"],
        &["--on-failure", "keep"],
        &["--set", "cpus=2"],
        &["--spot", "never"],
        &["--no-sync"],
        &["--dry-run"],
    ] {
        let words = [&["run", "--workflow", "w.json"], more].concat();
        site.run(&words).refused(2, &["--workflow", more[0]]);
    }
    assert_eq!(site.json(&["runs", "list"]), json!([]), "nothing was begun");
}
