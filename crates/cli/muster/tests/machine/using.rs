//! Commands, files and runs on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{Run, Site, until};

pub(crate) fn here(site: &Site) {
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
}

#[test]
fn a_command_runs_there_as_it_would_here() {
    let site = Site::new();
    here(&site);
    let script = "echo out; echo err >&2; printf %s \"$A\"; pwd; exit 42";
    let words = [
        "exec", "-e", "A=a b", "-C", "/usr", "here", "--", "sh", "-c", script,
    ];
    let run = site.run(&words).code(42);
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str()),
        ("out\na b/usr\n", "err\n")
    );
    site.run(&["exec", "here", "--", "sh", "-c", "kill -KILL $$"])
        .code(137);
    site.run(&["exec", "here", "--", "/no/such/program"])
        .refused(127, &["/no/such/program"]);
    site.run(&["exec", "here", "--", "/etc/passwd"])
        .refused(126, &["/etc/passwd"]);
    let late = ["exec", "--timeout", "100ms", "here", "--", "sleep", "60"];
    site.run(&late).refused(124, &["sleep"]);

    let mut cat = site.command(&["exec", "-i", "here", "--", "cat"]);
    let mut cat = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    cat.stdin.take().unwrap().write_all(b"through").unwrap();
    let output = cat.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through");
    // Without a terminal `ssh` is a shell that reads its input.
    let mut shell = site.command(&["ssh", "here"]);
    let mut shell = shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(b"echo there; exit 3\n")
        .unwrap();
    let output = shell.wait_with_output().unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status.code()),
        (&b"there\n"[..], Some(3))
    );
}

#[test]
fn a_machine_is_busy_while_somebody_uses_it() {
    let site = Site::new();
    here(&site);
    let mut held = site.command(&["exec", "-i", "here", "--", "cat"]);
    let mut held = held
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    until("it has work", || {
        site.json(&["show", "here"])["commands"] == 1
    });
    drop(held.stdin.take());
    assert!(held.wait().unwrap().success());
    until("it has none", || {
        site.json(&["show", "here"])["commands"] == 0
    });
}

#[test]
fn a_run_is_its_command_and_is_remembered() {
    let site = Site::new();
    fs::create_dir(site.path("work")).unwrap();
    let words = [
        "run", "-p", "local", "-f", "work", "-e", "B=1", "--", "sh", "-c",
    ];
    let script = "echo out; echo err >&2; echo made >made; test $B = 1 && exit 7";
    let run = site.run(&[&words[..], &[script]].concat()).code(7);
    assert_eq!(run.stdout, "out\n");
    assert!(run.stderr.contains("err\n"), "{}", run.stderr);
    assert!(run.stderr.contains("code 7"), "{}", run.stderr);
    assert_eq!(
        fs::read_to_string(site.path("work/made")).unwrap(),
        "made\n"
    );
    assert_eq!(site.json(&["list"]), json!([]), "its machine is gone");

    let runs = site.json(&["runs", "list"]);
    assert_eq!(runs[0]["state"], "failed");
    assert_eq!(runs[0]["exitCode"], 7);
    let id = runs[0]["id"].as_str().unwrap();
    let log = site.run(&["runs", "logs", id]).ok().stdout;
    assert!(log.contains("out\n") && log.contains("err\n"), "{log}");
    let shown = site.json(&["runs", "show", &id[..6]]);
    assert!(shown["steps"].as_array().unwrap().len() >= 4, "{shown}");
    let events = site.json(&["runs", "events", id]);
    assert_eq!(events.as_array().unwrap().last().unwrap()["kind"], "over");
    site.run(&["runs", "remove", id]).ok();
    site.run(&["runs", "show", id])
        .refused(4, &["there is no run"]);

    site.run(&["run", "-p", "local", "--no-sync", "--", "true"])
        .ok();
    let plan = site.json(&["run", "-p", "local", "--dry-run"]);
    assert_eq!(plan[0]["provider"], "local");
    // Nothing is copied there, so that it can neither go elsewhere nor be left behind.
    for words in [&["--no-back"][..], &["--to", "/elsewhere"]] {
        let run = [
            &["run", "-p", "local", "-f", "work"],
            words,
            &["--", "true"],
        ]
        .concat();
        site.run(&run).refused(2, &[words[0]]);
    }
    site.run(&["run", "-t", "nothing", "--", "true"])
        .refused(4, &["no template `nothing`"]);
}

/// `run` and `exec` tell what is no command apart as a shell does. The file can be read, and not executed.
pub(crate) fn assert_no_commands(site: &Site, machine: &str, file: &str) {
    let run = ["run", "-m", machine, "--no-sync"];
    let exec = ["exec", machine];
    for verb in [&run[..], &exec] {
        let words = |program| [verb, &["--", program]].concat();
        site.run(&words("no-such-program"))
            .refused(127, &["no-such-program"]);
        site.run(&words("/no/such/program"))
            .refused(127, &["/no/such/program"]);
        site.run(&words(file)).refused(126, &[file]);
        // It is not the command that is not there.
        let nowhere = [verb, &["-C", "/no/such/folder", "--", "true"]].concat();
        site.run(&nowhere).refused(125, &["folder"]);
    }
}

#[test]
fn what_is_no_command_is_told_as_a_shell_tells_it() {
    let site = Site::new();
    here(&site);
    assert_no_commands(&site, "here", "/etc/passwd");
}

#[test]
fn a_command_runs_on_a_machine_that_there_is_and_leaves_it() {
    let site = Site::new();
    here(&site);
    let run = site
        .run(&["run", "-m", "here", "--no-sync", "--", "echo", "hello"])
        .ok();
    assert_eq!(run.stdout, "hello\n");
    assert_eq!(site.state("here"), "running");
    let plan = site.json(&["run", "-m", "here", "--dry-run"]);
    assert_eq!(plan.as_array().map(Vec::len), Some(1), "{plan}");
    assert_eq!(plan[0]["machine"], site.json(&["show", "here"])["id"]);
    assert_eq!(plan[0]["chosen"], true);
    site.run(&["run", "-m", "nobody", "--dry-run"])
        .refused(4, &["nobody"]);
}

#[test]
fn a_command_ends_with_its_reader() {
    let site = Site::new();
    here(&site);
    let mark = site.path("pid");
    let script = format!("echo $$ >'{}'; exec yes", mark.display());
    let mut exec = site.command(&["exec", "here", "--", "sh", "-c", &script]);
    let mut exec = exec.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = BufReader::new(exec.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "y\n");
    drop(out);
    let mut ended = None;
    until("it ends", || {
        ended = exec.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.and_then(|it| it.code()), Some(141));
    let pid = fs::read_to_string(&mark).unwrap();
    let program = format!("/proc/{}/cmdline", pid.trim());
    until("its command is gone", || {
        fs::read(&program).unwrap_or_default().is_empty()
    });
}

#[test]
fn a_workflow_runs_and_its_mistakes_are_shown_with_their_line() {
    let site = Site::new();
    let workflow = "name: w\nmachines:\n  m: { template: plain, provider: local }\nsteps:\n- name: s\n  actions:\n  - run: { command: [echo, from the workflow] }\n";
    site.write("w.yaml", workflow);
    let run = site.run(&["run", "--workflow", "w.yaml"]).ok();
    assert_eq!(run.stdout, "from the workflow\n");
    site.write("w.yaml", &workflow.replace("steps:", "stepps:"));
    site.run(&["run", "--workflow", "w.yaml"])
        .refused(2, &["w.yaml:4", "steps"]);
    site.run(&["run", "--workflow", "none.yaml"])
        .refused(4, &["none.yaml"]);
}

#[test]
fn an_interrupted_run_is_cancelled_and_cleaned_up() {
    let site = Site::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        interrupt_a_run(&site, signal, code);
    }
}

fn interrupt_a_run(site: &Site, signal: Signal, code: i32) {
    let mark = site.path(&format!("started-{code}"));
    let script = format!("echo $$ >{}; exec sleep 600", mark.display());
    let mut run = site.command(&["run", "-p", "local", "--no-sync", "--", "sh", "-c", &script]);
    let run = run
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    until("the command runs", || {
        fs::read_to_string(&mark).is_ok_and(|it| it.ends_with('\n'))
    });
    let pid = i32::try_from(run.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("sent");
    let output = run.wait_with_output().expect("it ends");
    let ended = Run {
        status: output.status,
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    };
    ended.refused(code, &["cancelling"]);
    assert_eq!(site.json(&["list"]), json!([]), "its machine is gone");
    let sleeper = fs::read_to_string(&mark).expect("a pid");
    let alive = Command::new("kill")
        .args(["-0", sleeper.trim()])
        .stderr(Stdio::null())
        .status();
    assert!(!alive.expect("it runs").success(), "its command is gone");
    assert_eq!(site.json(&["runs", "list"])[0]["state"], "cancelled");
}
