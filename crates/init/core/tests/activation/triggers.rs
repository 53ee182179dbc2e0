//! Sockets, paths, timers, conditions.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use muster_lab::poll_until;

use crate::rig::{Rig, TIME};

#[test]
fn a_pipe_starts_its_service_which_gets_it_with_its_name() {
    muster_lab::require!(Root);
    let socket = "[Socket]\nListenFIFO=/run/in\nFileDescriptorName=mail\nSocketMode=0600\nRemoveOnStop=yes\n";
    let service = "[Service]\nType=oneshot\n\
                   ExecStart=/bin/sh -c 'read line <&3; echo $$LISTEN_FDS $$LISTEN_FDNAMES $$line >>/run/got'\n";
    let rig = Rig::boot(|b| b.unit("in.socket", socket).unit("in.service", service));
    rig.ok(&["start", "in.socket"]);
    let pipe = rig.path("/run/in");
    let send = |text: &str| {
        let mut end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        end.write_all(text.as_bytes()).unwrap();
    };
    send("one\n");
    poll_until(TIME, "the first line", || {
        rig.lines("/run/got") == ["1 mail one"]
    });
    rig.wait_for_property("in.socket", "SubState", "listening");
    // Nobody opens the pipe while the manager is away, and yet what is written then is not lost.
    send("two\n");
    rig.kill_core();
    poll_until(TIME, "the second line", || rig.lines("/run/got").len() == 2);
    rig.wait_for_property("in.socket", "SubState", "listening");
    rig.ok(&["stop", "in.socket"]);
    assert!(!pipe.exists());
}

#[test]
fn every_connection_has_an_instance_and_survives_the_manager() {
    muster_lab::require!(Root);
    let socket = "[Socket]\nListenStream=/run/echo\nAccept=yes\nMaxConnections=2\n";
    let service = "[Service]\nExecStart=/bin/cat\nStandardInput=socket\n";
    let rig = Rig::boot(|b| b.unit("echo.socket", socket).unit("echo@.service", service));
    rig.ok(&["start", "echo.socket"]);
    let path = rig.path("/run/echo");
    let echo = |stream: &mut UnixStream, text: &str| {
        stream.write_all(text.as_bytes()).unwrap();
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    };
    let mut one = UnixStream::connect(&path).unwrap();
    echo(&mut one, "before");
    assert_eq!(rig.property("echo.socket", "NConnections"), "1");
    rig.kill_core();
    echo(&mut one, "after");
    let mut two = UnixStream::connect(&path).unwrap();
    echo(&mut two, "second");
    rig.wait_for_property("echo.socket", "NConnections", "2");
    // One too many is closed at once.
    let mut three = UnixStream::connect(&path).unwrap();
    assert_eq!(three.read(&mut [0]).unwrap_or(0), 0);
    drop(one);
    rig.wait_for_property("echo.socket", "NConnections", "1");
    let mut four = UnixStream::connect(&path).unwrap();
    echo(&mut four, "again");
    drop((two, four));
    rig.wait_for_property("echo.socket", "NConnections", "0");
    poll_until(TIME, "nothing to be left of the connections", || {
        let listed = rig.ok(&["list-units", "--all", "echo@*"]);
        !listed.contains("echo@")
    });
}

#[test]
fn a_socket_that_cannot_be_opened_says_which_line() {
    muster_lab::require!(Root);
    let socket = "[Socket]\nListenStream=/run/ok\nListenSpecial=/run/missing\nService=x.service\n";
    let service = "[Service]\nExecStart=/bin/true\n";
    let rig = Rig::boot(|b| b.unit("bad.socket", socket).unit("x.service", service));
    assert!(!rig.sctl(&["start", "bad.socket"]).status.success());
    assert_eq!(rig.property("bad.socket", "Result"), "resources");
    rig.wait_for_message("ListenSpecial=/run/missing: cannot open it: No such file");
}

#[test]
fn paths_start_units_also_by_what_happens_while_the_manager_is_away() {
    muster_lab::require!(Root);
    // A write is several changes, and may start the service more than once.
    let changes = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\n\
        ExecStart=/bin/sh -c 'echo $$(cat /run/d/file) >>/run/changes'\n";
    let exists =
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'rm /run/flag; echo x >>/run/seen'\n";
    let rig = Rig::boot(|b| {
        b.unit("flag.path", "[Path]\nPathExists=/run/flag\n")
            .unit("flag.service", exists)
            .unit(
                "change.path",
                "[Path]\nPathModified=/run/d/file\nMakeDirectory=no\n",
            )
            .unit("change.service", changes)
    });
    rig.ok(&["start", "flag.path", "change.path"]);
    rig.write("/run/flag", "").unwrap();
    poll_until(TIME, "the flag to be seen", || {
        rig.lines("/run/seen").len() == 1
    });
    rig.wait_for_property("flag.path", "SubState", "waiting");
    let change_to = |text: &str| rig.write("/run/d/file", text).unwrap();
    let seen = |text: &str| {
        poll_until(TIME, &format!("{text} to be seen"), || {
            rig.lines("/run/changes").iter().any(|line| line == text)
        });
        rig.wait_for_property("change.path", "SubState", "waiting");
    };
    fs::create_dir(rig.path("/run/d")).unwrap();
    change_to("1");
    seen("1");
    let core = rig.core().expect("a manager");
    let pid = rustix::process::Pid::from_raw(core.host_pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    change_to("2");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    seen("2");
    change_to("3");
    seen("3");
    rig.ok(&["stop", "flag.path", "change.path"]);
}

#[test]
fn calendar_timers_fire_and_remember_it() {
    muster_lab::require!(Root);
    let timer = "[Timer]\nOnCalendar=*:*:*\nAccuracySec=1ms\nPersistent=yes\n";
    let service = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo x >>/run/ticks'\n";
    let rig = Rig::boot(|b| b.unit("tick.timer", timer).unit("tick.service", service));
    rig.ok(&["start", "tick.timer"]);
    let more_than = |count: usize| {
        poll_until(TIME, "the timer to fire", || {
            rig.lines("/run/ticks").len() > count
        });
    };
    more_than(1);
    rig.kill_core();
    more_than(rig.lines("/run/ticks").len());
    let stamp = rig.path("/var/lib/muster/timers/stamp-tick.timer");
    let age = stamp.metadata().unwrap().modified().unwrap().elapsed();
    assert!(age.unwrap_or_default() < TIME);
}

#[test]
fn conditions_keep_units_from_starting() {
    muster_lab::require!(Root);
    let unit = |lines: &str| {
        format!(
            "[Unit]\n{lines}\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
        )
    };
    let rig = Rig::boot(|b| {
        b.unit(
            "yes.service",
            unit("ConditionPathExists=/etc\nConditionUser=root"),
        )
        .unit("no.service", unit("ConditionPathExists=/none"))
        .unit(
            "either.service",
            unit("ConditionPathExists=|/none\nConditionPathExists=|/etc"),
        )
        .unit("assert.service", unit("AssertPathExists=/none"))
    });
    rig.ok(&["start", "yes.service", "no.service", "either.service"]);
    let states =
        ["yes", "no", "either"].map(|name| rig.property(&format!("{name}.service"), "ActiveState"));
    assert_eq!(states, ["active", "inactive", "active"]);
    assert_eq!(rig.property("no.service", "ConditionResult"), "no");
    assert!(!rig.sctl(&["start", "assert.service"]).status.success());
    assert_eq!(rig.property("assert.service", "AssertResult"), "no");
}

#[test]
fn whoever_is_triggered_is_told_by_whom() {
    muster_lab::require!(Root);
    let service = |name: &str| {
        let says = "env | grep ^TRIGGER_ | sort | tr \"\\n\" \" \"";
        format!(
            "[Service]\nType=oneshot\nRemainAfterExit=yes\n\
             ExecStart=/bin/sh -c '{says} >/run/{name}.start'\nExecStop=/bin/sh -c '{says} >/run/{name}.stop'\n"
        )
    };
    let rig = Rig::boot(|b| {
        b.unit("soon.timer", "[Timer]\nOnActiveSec=0\nAccuracySec=1us\n")
            .unit("soon.service", service("soon"))
            .unit(
                "there.path",
                "[Path]\nPathExists=/run/no/such\nPathExists=/run/there\n",
            )
            .unit("there.service", service("there"))
    });
    rig.ok(&["start", "soon.timer", "there.path"]);
    poll_until(TIME, "the timer fires", || {
        !rig.lines("/run/soon.start").is_empty()
    });
    let said = rig.lines("/run/soon.start").concat();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [monotonic, real, unit] = words[..] else {
        panic!("{said}");
    };
    assert_eq!(unit, "TRIGGER_UNIT=soon.timer");
    for (word, name) in [
        (monotonic, "TRIGGER_TIMER_MONOTONIC_USEC="),
        (real, "TRIGGER_TIMER_REALTIME_USEC="),
    ] {
        let number = word.strip_prefix(name).unwrap();
        assert!(number.parse::<u64>().unwrap() > 0, "{word}");
    }
    fs::write(rig.path("/run/there"), "").unwrap();
    poll_until(TIME, "the path is there", || {
        rig.property("there.service", "ActiveState") == "active"
    });
    let path = "TRIGGER_PATH=/run/there TRIGGER_UNIT=there.path ";
    fs::remove_file(rig.path("/run/there")).unwrap();
    rig.ok(&["stop", "there.path", "there.service"]);
    assert_eq!(
        rig.lines("/run/there.stop"),
        [path],
        "the whole run is told"
    );
    // Who is started by hand is not told about the time before.
    rig.ok(&["start", "there.service"]);
    rig.ok(&["stop", "there.service"]);
    assert_eq!(rig.lines("/run/there.stop"), [""; 0]);
}
