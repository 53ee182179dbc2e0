//! `muster machine ssh` at a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use muster_lab::docker::Docker;
use muster_lab::screen::Screen;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::rig::{Site, until};

/// The words of the command are not the words that it prints, since the terminal echoes what is typed.
const WAIT_FOR_SIZE: &[u8] =
    b"while [ \"$(stty size)\" != '40 120' ]; do sleep 0.05; done; echo now' 'resized\r";
const SLEEP: &[u8] = b"sh -c 'echo sle\"\"eps; exec sleep 1000'\r";

/// Somebody works on a machine: what is typed arrives, a window that changes its size changes it there, Ctrl-C ends what runs
/// there and nothing here, the shell's exit is the command's, and the terminal is as it was.
pub(crate) fn work_on(site: &Site, machine: &str) {
    let mut screen = Screen::start(&site.command(&["ssh", machine]), (100, 30)).expect("it starts");
    screen.press(b"echo '['$(stty size)']'\r").expect("typed");
    screen.wait_for("[30 100]");
    assert!(!screen.is_as_before(), "keys go there as they are");
    screen.press(WAIT_FOR_SIZE).expect("typed");
    screen.resize((120, 40)).expect("resized");
    screen.wait_for("now resized");
    screen.press(SLEEP).expect("typed");
    screen.wait_for("sleeps");
    screen.press(b"\x03").expect("typed");
    screen.press(b"echo code:$?\r").expect("typed");
    screen.wait_for("code:130");
    screen.press(b"exit 7\r").expect("typed");
    assert_eq!(screen.end().0.code(), Some(7));

    let command = site.command(&["ssh", machine, "--", "sh", "-c", "test -t 0 && exit 3"]);
    let screen = Screen::start(&command, (80, 24)).expect("it starts");
    assert_eq!(screen.end().0.code(), Some(3));
}

#[test]
fn somebody_works_on_this_machine_by_a_terminal() {
    let site = Site::new();
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
    work_on(&site, "here");
}

#[test]
fn somebody_works_in_a_container_by_a_terminal() {
    muster_lab::require_docker!();
    let engine = Docker::start().unwrap();
    let site = Site::with(json!({
        "providers": { "docker": { "endpoint": engine.host() } },
        "templates": ["boxes.yaml"],
    }));
    site.write("boxes.yaml", "name: box\nimage: box\n");
    site.run(&["provision", "-t", "box", "--name", "dev"]).ok();
    work_on(&site, "dev");
    site.run(&["destroy", "dev"]).ok();
}

#[test]
fn a_session_that_is_ended_from_outside_leaves_the_terminal_as_it_was_and_nothing_there() {
    let site = Site::new();
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
    let mark = site.path("started");
    let script = format!("echo $$ >{}; echo be''gun; exec sleep 1000", mark.display());
    let command = site.command(&["ssh", "here", "--", "sh", "-c", &script]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let screen = Screen::start(&command, (80, 24)).unwrap();
        screen.wait_for("begun");
        until("keys go there", || !screen.is_as_before());
        screen.signal(signal).unwrap();
        assert_eq!(screen.end().0.code(), Some(code));
        assert_gone(&mark);
    }
}

#[test]
fn a_command_that_is_interrupted_here_ends_there() {
    let site = Site::new();
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
    let mark = site.path("started");
    let script = format!("echo $$ >{}; exec sleep 1000", mark.display());
    let mut exec = site.command(&["exec", "here", "--", "sh", "-c", &script]);
    let mut exec = exec.stdout(Stdio::null()).spawn().expect("it runs");
    until("the command runs", || {
        fs::read_to_string(&mark).is_ok_and(|it| it.ends_with('\n'))
    });
    let pid = i32::try_from(exec.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::INT).expect("sent");
    assert_eq!(exec.wait().expect("it ends").code(), Some(130));
    assert_gone(&mark);
}

/// A search path whose shell does nothing for a long time, so that nothing ever begins; it says that it is there.
fn slow(site: &Site, mark: &std::path::Path) -> String {
    let folder = site.path("slow");
    fs::create_dir_all(&folder).expect("made");
    let script = format!(
        "#!/bin/sh\necho $$ >'{}'\nexec sleep 1000\n",
        mark.display()
    );
    fs::write(folder.join("sh"), script).expect("written");
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.join("sh"), everybody).expect("it can be executed");
    let others = std::env::var("PATH").unwrap_or_default();
    format!("{}:{others}", folder.display())
}

#[test]
fn a_stop_is_heard_while_something_begins() {
    let site = Site::new();
    site.run(&["provision", "-p", "local", "--name", "here"])
        .ok();
    for words in [
        &["exec", "here", "--", "true"][..],
        &["forward", "here", "0:localhost:80"],
    ] {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let mark = site.path(&format!("{}-{code}", words[0]));
            let mut command = site.command(words);
            command.env("PATH", slow(&site, &mark));
            let mut running = command.stderr(Stdio::null()).spawn().expect("it runs");
            until("it begins", || {
                fs::read_to_string(&mark).is_ok_and(|it| it.ends_with('\n'))
            });
            let pid = i32::try_from(running.id()).expect("a pid");
            kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("sent");
            let ended = running.wait().expect("it ends");
            assert_eq!(ended.code(), Some(code), "{words:?}");
            assert_gone(&mark);
        }
    }
    let mark = site.path("ssh");
    let mut command = site.command(&["ssh", "here", "--", "true"]);
    command.env("PATH", slow(&site, &mark));
    let screen = Screen::start(&command, (80, 24)).unwrap();
    until("it begins", || {
        fs::read_to_string(&mark).is_ok_and(|it| it.ends_with('\n'))
    });
    screen.signal(Signal::TERM).unwrap();
    assert_eq!(screen.end().0.code(), Some(143));
    assert_gone(&mark);
}

/// The process whose number is in a file has ended.
#[track_caller]
fn assert_gone(mark: &std::path::Path) {
    let pid = fs::read_to_string(mark).expect("a number");
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
    until("what ran there is gone", || test_kill_process(pid).is_err());
}
