//! What outlives a manager, who is refused, and how one is started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use muster_lab::program::Program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{Site, TIME, run, until};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_killed_manager_goes_on_where_it_was() {
    let mut site = Site::with(json!({
        "providers": { "docker": { "enabled": false }, "sim": { "boot": "300ms" }, "local": {} },
    }));
    let ordered = site.provision(&["--key", "a", "--no-wait"]);
    site.kill();
    site.run(&["list"]).refused(5, &["no node manager answers"]);
    site.start();
    until("it runs", || site.state(&ordered) == "running");
    assert_eq!(site.provision(&["--key", "a"]), ordered);
    let before = site.json(&["events"]);
    site.kill();
    site.start();
    assert_eq!(
        site.json(&["events"]),
        before,
        "nothing happened, and nothing is forgotten"
    );

    // A run that only copies and waits goes on; its command is not begun twice unasked.
    let mark = site.path("mark");
    let script = format!("echo x >>{}; sleep 600", mark.display());
    let run = site.json(&[
        "run",
        "-d",
        "-p",
        "local",
        "--no-sync",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let id = run["id"].as_str().unwrap().to_owned();
    until("the command runs", || mark.exists());
    assert!(is_at_work(&id));
    site.kill();
    site.start();
    until("it is over", || {
        site.json(&["runs", "show", &id])["state"] == "failed"
    });
    let shown = site.json(&["runs", "show", &id]);
    assert!(
        shown["failure"]
            .as_str()
            .unwrap()
            .contains("not said to be repeatable"),
        "{shown}"
    );
    assert_eq!(fs::read_to_string(&mark).unwrap(), "x\n");
    until("nothing of the command goes on", || !is_at_work(&id));
    assert_eq!(
        site.json(&["list"]).as_array().unwrap().len(),
        1,
        "only the first machine is left"
    );
}

/// Whether a process was told that it is part of this run.
fn is_at_work(run: &str) -> bool {
    let told = format!("MUSTER_RUN={run}");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut environs = processes.filter_map(|it| fs::read(it.path().join("environ")).ok());
    environs.any(|environ| {
        let mut variables = environ.split(|&byte| byte == 0);
        variables.any(|it| it == told.as_bytes())
    })
}

#[test]
fn a_machine_that_is_said_to_be_busy_is_not_put_away() {
    let mut site = Site::new();
    let idle = ["--idle", "3s"];
    let busy = site.provision(&idle);
    let said = site.json(&["busy", &busy, "--for", "1h"]);
    assert!(said[0]["busyUntil"].is_string(), "{said}");
    // It holds for the next manager, too.
    site.kill();
    site.start();
    let shown = site.json(&["show", &busy]);
    assert_eq!(shown["busyUntil"], said[0]["busyUntil"]);
    // One that was made later, and of which nobody says anything, is stopped first.
    let other = site.provision(&idle);
    until("it is stopped", || site.state(&other) == "stopped");
    assert_eq!(site.state(&busy), "running");
    site.run(&["busy", &busy, "--for", "31d"])
        .refused(2, &["at most 30 days"]);
}

#[test]
fn a_second_manager_of_the_same_state_is_refused() {
    let site = Site::new();
    let mut second = site.daemon().start().expect("started");
    let status = second.wait(TIME).expect("it ends");
    assert_eq!(status.code(), Some(1));
    second
        .wait_for_line("another muster-nodemgr keeps its machines in", TIME)
        .expect("it says why");
    site.run(&["manager"]).ok();
}

#[test]
fn a_bad_configuration_is_told_with_its_line() {
    let site = Site::new();
    site.write("bad.yaml", "policy:\n  prefr: [cost]\n");
    let daemon = muster_fault::test_program("nodemgr_daemon");
    let mut daemon = Command::new(daemon);
    let daemon = daemon.arg("--config").arg(site.path("bad.yaml"));
    run(daemon).refused(78, &["bad.yaml:2", "policy.prefr", "did you mean `prefer`"]);
    site.write("good.yaml", "policy: { prefer: [cost] }\n");
    let daemon = muster_fault::test_program("nodemgr_daemon");
    let mut daemon = Command::new(daemon);
    let daemon = daemon
        .arg("--check-config")
        .arg("--config")
        .arg(site.path("good.yaml"));
    run(daemon).ok();
}

#[test]
fn secrets_and_sockets_are_their_owners() {
    let site = Site::new();
    for name in [
        "nodemgr.sock",
        "state/secret",
        "state/manager-id",
        "state/nodemgr.db",
    ] {
        let mode = fs::metadata(site.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let id = fs::read_to_string(site.path("state/manager-id")).unwrap();
    assert_eq!(site.json(&["manager"])["id"], id.trim());
}

#[test]
fn another_user_is_refused() {
    if !is_root() {
        println!("another_user_is_refused: needs root, to become another user");
        return;
    }
    let site = Site::new();
    let open = |name: &str, mode| {
        let path = site.path(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // Even where the file system would let them through.
    open("", 0o755);
    open("nodemgr.sock", 0o666);
    let program = site.path("muster");
    fs::copy(env!("CARGO_BIN_EXE_muster"), &program).unwrap();
    open("muster", 0o755);
    let mut other = Program::new(&program)
        .args(["machine", "list", "--manager"])
        .arg(site.path("nodemgr.sock"))
        .user(65534, 65534)
        .cwd("/")
        .start()
        .expect("started");
    other
        .wait_for_line("user 65534 may not use it", TIME)
        .expect("it is refused");
    assert_eq!(other.wait(TIME).unwrap().code(), Some(3));
    open("nodemgr.sock", 0o600);
    let mut other = Program::new(&program)
        .args(["machine", "list", "--manager"])
        .arg(site.path("nodemgr.sock"))
        .user(65534, 65534)
        .cwd("/")
        .start()
        .expect("started");
    other
        .wait_for_line("you may not use", TIME)
        .expect("it is refused");
}

/// `/run` and `/var/lib` are empty and its own, so that the system's places can be used.
const ALONE: &str = "\
set -e
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; mount -t tmpfs tmpfs /etc/muster 2>/dev/null || true
\"$1\" machine --no-start list && exit 9
\"$1\" machine providers
\"$1\" machine run -p local --no-sync -- echo it works
\"$1\" machine manager -o json | sed -n 's/.*\"pid\": \\([0-9]*\\),/pid \\1/p'
";

#[test]
fn a_manager_is_started_where_none_answers() {
    if !is_root() {
        println!("a_manager_is_started_where_none_answers: needs root, for mounts of its own");
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    let daemon = muster_fault::test_program("nodemgr_daemon");
    std::os::unix::fs::symlink(daemon, programs.path().join("muster-nodemgr")).unwrap();
    let mut all = Program::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            ALONE,
            "sh",
            env!("CARGO_BIN_EXE_muster"),
        ])
        .env("MUSTER_PROGRAMS", programs.path())
        .env("DOCKER_HOST", "")
        .start()
        .expect("started");
    all.wait_for_line("started a node manager (process ", TIME)
        .expect("it says so");
    all.wait_for_line("it works", TIME)
        .expect("the command runs");
    let line = all.wait_for_line("pid ", TIME).expect("it has a process");
    assert_eq!(all.wait(TIME).unwrap().code(), Some(0));
    let pid = line.text.rsplit(' ').next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}
