//! The real manager, as process 1 of a machine made of namespaces.

use std::sync::OnceLock;
use std::time::Duration;

use muster_lab::machine::{Binaries, Build, CommandOutput, Ended, Machine, MachineBuilder};
use muster_lab::muster;
use muster_lab::poll_until;
use serde_json::Value;

/// Machines boot in a fraction of a second, on hosts that may be busy.
const TIME: Duration = Duration::from_secs(40);

fn programs() -> &'static Binaries {
    static PROGRAMS: OnceLock<Binaries> = OnceLock::new();
    PROGRAMS.get_or_init(|| muster::programs(Build::Test, &[]).unwrap())
}

fn booted(with: impl FnOnce(MachineBuilder) -> MachineBuilder) -> Machine {
    let builder = with(muster::machine(programs()))
        .unit(
            "good.service",
            "[Unit]\nDescription=A good one\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
        )
        .unit(
            "bad.service",
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo something went wrong; exit 3'\n",
        )
        .unit(
            "slow.service",
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'until [ -e /run/go ]; do sleep 0.02; done'\n",
        )
        .unit(
            "waits.service",
            "[Unit]\nAfter=slow.service\n[Service]\nExecStart=/bin/sleep infinity\n",
        );
    muster::boot(&builder, TIME).unwrap()
}

fn sctl(machine: &Machine, words: &[&str]) -> CommandOutput {
    let words = std::iter::once("sctl").chain(words.iter().copied());
    machine.run_within(TIME, words).unwrap()
}

#[track_caller]
fn code(machine: &Machine, words: &[&str], expected: i32) -> CommandOutput {
    let output = sctl(machine, words);
    assert_eq!(
        output.status.code(),
        Some(expected),
        "{words:?}: {output:?}"
    );
    output
}

fn property(machine: &Machine, unit: &str, name: &str) -> String {
    let output = code(machine, &["show", "-P", name, unit], 0);
    output.stdout.trim().to_owned()
}

#[test]
fn units_are_started_shown_and_stopped() {
    muster_lab::require!(Root);
    let machine = booted(|builder| builder);
    code(&machine, &["start", "good"], 0);
    code(&machine, &["is-active", "good"], 0);
    let status = code(&machine, &["status", "good"], 0).stdout;
    let pid = property(&machine, "good", "MainPID");
    assert!(
        status.starts_with("\u{25cf} good.service - A good one\n"),
        "{status}"
    );
    assert!(
        status.contains("Active: active (running) since "),
        "{status}"
    );
    assert!(
        status.contains(&format!("Main PID: {pid} (sleep)")),
        "{status}"
    );
    assert!(
        status.contains("CGroup: /system.slice/good.service\n"),
        "{status}"
    );
    let overview = code(&machine, &["status"], 0).stdout;
    assert!(
        overview.contains(&format!("{pid} /bin/sleep infinity")),
        "{overview}"
    );
    let by_pid = code(&machine, &["status", &pid], 0).stdout;
    assert!(by_pid.contains("good.service"), "{by_pid}");
    code(&machine, &["restart", "good"], 0);
    assert_ne!(property(&machine, "good", "MainPID"), pid);
    code(&machine, &["freeze", "good"], 0);
    let frozen = code(&machine, &["status", "good"], 0).stdout;
    assert!(frozen.contains("(frozen)"), "{frozen}");
    code(&machine, &["thaw", "good"], 0);
    let rows = code(&machine, &["list-units", "-o", "json", "good*"], 0).stdout;
    let rows: Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[0]["sub"], "running");
    code(&machine, &["stop", "good"], 0);
    code(&machine, &["status", "good"], 3);
    code(&machine, &["status", "nope"], 4);
    code(&machine, &["start", "nope"], 5);
    code(&machine, &["isolate", "good.service"], 4);
    code(&machine, &["daemon-reload"], 0);
}

#[test]
fn a_failed_start_says_why_with_the_last_lines_of_the_log() {
    muster_lab::require!(Root);
    let machine = booted(|builder| builder);
    let output = code(&machine, &["start", "bad"], 1);
    assert!(output.stderr.contains("exited with status 3"), "{output:?}");
    // The line was written before the process ended; the log daemon may still be about to store it.
    let said = |words: &[&str]| {
        sctl(&machine, words)
            .stdout
            .contains("something went wrong")
    };
    poll_until(TIME, "the line is in the log", || {
        said(&["logs", "-u", "bad", "-o", "cat"])
    });
    assert!(said(&["status", "bad"]));
    let journal = "/run/log/journal";
    let theirs = machine
        .run(["journalctl", "-D", journal, "-u", "bad", "-o", "cat", "-q"])
        .unwrap();
    assert!(theirs.stdout.contains("something went wrong"), "{theirs:?}");
    let why = code(&machine, &["why", "bad"], 0).stdout;
    assert!(why.starts_with("bad.service is failed"), "{why}");
    assert!(why.contains("status 3"), "{why}");
    code(&machine, &["is-failed", "bad"], 0);
    code(&machine, &["is-system-running"], 1);
    code(&machine, &["reset-failed", "bad"], 0);
    code(&machine, &["is-failed", "bad"], 1);
    let again = code(&machine, &["start", "bad"], 1);
    assert!(again.stderr.contains("something went wrong"), "{again:?}");
}

#[test]
fn a_start_that_waits_survives_the_death_of_core() {
    muster_lab::require!(Root);
    let machine = booted(|builder| builder);
    let waiting = machine.program(["sctl", "start", "slow", "waits"]);
    let mut waiting = waiting.start().unwrap();
    let jobs = || sctl(&machine, &["list-jobs", "--no-legend"]).stdout;
    poll_until(TIME, "both jobs are queued", || jobs().lines().count() == 2);
    let listed = code(&machine, &["list-jobs", "--before"], 0).stdout;
    assert!(listed.contains("waiting for job"), "{listed}");
    let why = code(&machine, &["why", "waits"], 0).stdout;
    assert!(why.contains("slow.service"), "{why}");
    let core = |machine: &Machine| -> u32 {
        let status = code(machine, &["status", "-o", "json"], 0).stdout;
        let status: Value = serde_json::from_str(&status).unwrap();
        u32::try_from(status["core_pid"].as_u64().unwrap()).unwrap()
    };
    let before = core(&machine);
    let kill = machine.run(["kill", "-9", &before.to_string()]).unwrap();
    assert!(kill.status.success(), "{kill:?}");
    poll_until(TIME, "another core answers", || core(&machine) != before);
    code(&machine, &["daemon-reexec"], 0);
    // Both jobs are those that it waits for: they are queued as before.
    assert_eq!(jobs().lines().count(), 2, "{}", jobs());
    machine.run(["touch", "/run/go"]).unwrap();
    let status = waiting.wait(TIME).unwrap();
    assert!(status.success(), "{status:?}");
    code(&machine, &["is-active", "slow"], 0);
    code(&machine, &["is-active", "waits"], 0);
}

#[test]
fn commands_run_as_transient_units() {
    muster_lab::require!(Root);
    let machine = booted(|builder| builder);
    let output = code(&machine, &["run", "--wait", "sh", "-c", "exit 7"], 7);
    assert!(output.stderr.contains("code=exited/status=7"), "{output:?}");
    let output = code(
        &machine,
        &["run", "--pipe", "-q", "echo", "$HOME", "100%", "a b"],
        0,
    );
    assert_eq!(output.stdout, "$HOME 100% a b\n");
    // A command of the rig is in no cgroup of the machine's, so it is run from a service.
    let scope = "sctl run --scope -q --unit=sc cat /proc/self/cgroup";
    let output = code(&machine, &["run", "--pipe", "-q", "sh", "-c", scope], 0);
    assert!(
        output.stdout.contains("/system.slice/sc.scope"),
        "{output:?}"
    );
    code(
        &machine,
        &["run", "--unit=long", "-p", "Nice=3", "sleep", "infinity"],
        0,
    );
    assert_eq!(property(&machine, "long", "Nice"), "3");
    code(&machine, &["run", "--unit=long", "true"], 4);
    code(
        &machine,
        &["set-property", "--runtime", "long", "TasksMax=50"],
        0,
    );
    let status = code(&machine, &["status", "long"], 0).stdout;
    assert!(status.contains("50-TasksMax.conf"), "{status}");
    code(&machine, &["kill", "-s", "KILL", "long"], 0);
    poll_until(TIME, "the killed unit is down", || {
        sctl(&machine, &["is-active", "-q", "long"]).status.code() == Some(3)
    });
    code(
        &machine,
        &[
            "run",
            "--on-active=1h",
            "--unit=later",
            "touch",
            "/run/late",
        ],
        0,
    );
    let timers = code(&machine, &["list-timers"], 0).stdout;
    assert!(timers.contains("later.timer later.service"), "{timers}");
    assert!(timers.contains("left"), "{timers}");
    code(
        &machine,
        &[
            "run",
            "--on-active=50ms",
            "--timer-property=AccuracySec=1ms",
            "touch",
            "/run/soon",
        ],
        0,
    );
    machine.wait_for_path("/run/soon", TIME).unwrap();
    code(
        &machine,
        &[
            "run",
            "--path-property=PathExists=/run/wanted",
            "touch",
            "/run/by-path",
        ],
        0,
    );
    machine.run(["touch", "/run/wanted"]).unwrap();
    machine.wait_for_path("/run/by-path", TIME).unwrap();
}

#[test]
fn the_machine_is_looked_at_and_ended() {
    muster_lab::require!(Root);
    let mut machine = booted(|builder| {
        builder
            .unit(
                "s.socket",
                "[Socket]\nListenStream=/run/s.sock\nListenDatagram=/run/d.sock\n",
            )
            .unit("s.service", "[Service]\nExecStart=/bin/sleep infinity\n")
            .unit(
                "boot.service",
                "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 0.2\n",
            )
            .unit(
                "default.target.d/boot.conf",
                "[Unit]\nWants=boot.service\nAfter=boot.service\n",
            )
    });
    let time = code(&machine, &["analyze"], 0).stdout;
    assert!(time.starts_with("Startup finished in "), "{time}");
    let blame = code(&machine, &["analyze", "blame"], 0).stdout;
    assert!(blame.contains("ms boot.service"), "{blame}");
    let chain = code(&machine, &["analyze", "critical-chain"], 0).stdout;
    assert!(chain.contains("boot.service @"), "{chain}");
    let plot = code(&machine, &["analyze", "plot"], 0).stdout;
    assert!(plot.contains("boot.service (2"), "{plot}");
    let graph = code(&machine, &["analyze", "dot", "boot.service"], 0).stdout;
    assert!(
        graph.contains("\"default.target\"->\"boot.service\""),
        "{graph}"
    );
    code(&machine, &["start", "s.socket"], 0);
    let sockets = code(&machine, &["list-sockets", "--show-types"], 0).stdout;
    assert!(sockets.contains("/run/d.sock"), "{sockets}");
    let socket = code(&machine, &["status", "s.socket"], 0).stdout;
    assert!(socket.contains("Listen: /run/s.sock (Stream)"), "{socket}");
    code(&machine, &["set-environment", "COLOUR=dark green"], 0);
    let environment = code(&machine, &["show-environment"], 0).stdout;
    assert!(
        environment.contains("COLOUR=$'dark green'\n"),
        "{environment}"
    );
    // The command is one of the processes that end with the machine, so its own end says nothing.
    sctl(&machine, &["poweroff"]);
    assert_eq!(machine.wait_ended(TIME).unwrap(), Ended::PowerOff);
}

#[test]
fn files_are_changed_for_the_running_manager() {
    muster_lab::require!(Root);
    let editor = "#!/bin/sh\nexec sed -i '/^### Write/a [Service]\\nNice=7' \"$1\"\n";
    let machine = booted(|builder| builder.file("/usr/local/bin/my-editor", editor, 0o755));
    let edit = |text: &str, words: &str| {
        let line = format!("printf '%b' '{text}' | sctl edit --stdin {words}");
        machine.run_within(TIME, ["sh", "-c", &line]).unwrap()
    };
    let refused = edit("[Service]\\nNonsense=1\\n", "good");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("Nonsense"), "{refused:?}");
    assert!(!machine.path("/etc/systemd/system/good.service.d").exists());
    let saved = edit("[Service]\\nNice=5\\n", "good");
    assert_eq!(saved.status.code(), Some(0), "{saved:?}");
    assert_eq!(property(&machine, "good", "Nice"), "5");
    let saved = edit(
        "[Service]\\nExecStart=/bin/sleep 100\\n",
        "--force --full fresh",
    );
    assert_eq!(saved.status.code(), Some(0), "{saved:?}");
    code(&machine, &["start", "fresh"], 0);
    let with_editor = [
        "env",
        "EDITOR=my-editor",
        "sctl",
        "edit",
        "--drop-in=zz.conf",
        "good",
    ];
    let edited = machine.run_within(TIME, with_editor).unwrap();
    assert_eq!(edited.status.code(), Some(0), "{edited:?}");
    let text = machine
        .read("/etc/systemd/system/good.service.d/zz.conf")
        .unwrap();
    assert_eq!(text, "[Service]\nNice=7\n");
    assert_eq!(property(&machine, "good", "Nice"), "7");
    let enabled = code(&machine, &["enable", "--now", "good"], 0);
    assert!(enabled.stderr.contains("Created symlink"), "{enabled:?}");
    code(&machine, &["is-active", "good"], 0);
    code(&machine, &["disable", "--now", "good"], 0);
    code(&machine, &["is-active", "good"], 3);
    let cat = code(&machine, &["cat", "good"], 0).stdout;
    assert!(cat.contains("Nice=5"), "{cat}");
}
