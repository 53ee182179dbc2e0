//! Answers beside what `systemctl` 252 printed for the same units.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use muster_control::manager::{
    CommandRun, HealthView, Job, ListenView, MachineStatus, Moment, PathView, ProcessView,
    TimerView, UnitRow, UnitStatus,
};
use proptest::prelude::*;

use super::*;
use crate::cli::Format;

/// Sun 2026-11-15 11:26:55 UTC
const BASE: u64 = 1_794_742_015_000_000;

fn now(after: u64) -> Now {
    Now {
        real: BASE + after,
        zone: TimeZone::UTC,
    }
}

fn at(monotonic: u64) -> Moment {
    Moment {
        real: BASE,
        monotonic,
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn row(name: &str, description: &str, active: &str, sub: &str) -> UnitRow {
    UnitRow {
        name: name.to_owned(),
        description: description.to_owned(),
        load: "loaded".to_owned(),
        active: active.to_owned(),
        sub: sub.to_owned(),
        ..UnitRow::default()
    }
}

fn shown(status: &UnitStatus, after: u64) -> String {
    let related = BTreeMap::from([
        ("one.service".to_owned(), "active".to_owned()),
        ("one.timer".to_owned(), "active".to_owned()),
        ("s.service".to_owned(), "inactive".to_owned()),
    ]);
    let view = UnitView {
        status,
        related: &related,
        log: &[],
    };
    unit(view, &now(after), Style::default())
}

#[test]
fn a_running_service_looks_as_systemctl_shows_it() {
    let status = UnitStatus {
        row: UnitRow {
            active_enter: at(1),
            ..row("good.service", "A good service", "active", "running")
        },
        fragment: "/etc/systemd/system/good.service".to_owned(),
        file_state: "disabled".to_owned(),
        preset: "enabled".to_owned(),
        drop_ins: texts(&[
            "/etc/systemd/system/good.service.d/10-nice.conf",
            "/run/systemd/system.control/good.service.d/50-CPUWeight.conf",
        ]),
        documentation: texts(&["man:true(1)", "https://example.com/x"]),
        freezer: "frozen".to_owned(),
        outcome: "success".to_owned(),
        commands: vec![
            CommandRun {
                phase: "ExecStartPre".to_owned(),
                command: "/bin/true".to_owned(),
                pid: 146,
                code: "exited".to_owned(),
                ..CommandRun::default()
            },
            CommandRun {
                phase: "ExecStart".to_owned(),
                command: "/bin/sleep 1000".to_owned(),
                pid: 147,
                ..CommandRun::default()
            },
        ],
        main_pid: 147,
        cpu: Some(4000),
        cgroup: "/system.slice/good.service".to_owned(),
        processes: vec![ProcessView {
            pid: 147,
            cgroup: String::new(),
            command: "/bin/sleep 1000".to_owned(),
        }],
        ..UnitStatus::default()
    };
    assert_eq!(
        shown(&status, 3_000_000),
        "\
● good.service - A good service
     Loaded: loaded (/etc/systemd/system/good.service; disabled; preset: enabled)
    Drop-In: /etc/systemd/system/good.service.d
             └─10-nice.conf
             /run/systemd/system.control/good.service.d
             └─50-CPUWeight.conf
     Active: active (running) (frozen) since Sun 2026-11-15 11:26:55 UTC; 3s ago
       Docs: man:true(1)
             https://example.com/x
    Process: 146 ExecStartPre=/bin/true (code=exited, status=0/SUCCESS)
   Main PID: 147 (sleep)
        CPU: 4ms
     CGroup: /system.slice/good.service
             └─147 /bin/sleep 1000
"
    );
}

#[test]
fn a_failed_service_looks_as_systemctl_shows_it() {
    let status = UnitStatus {
        row: UnitRow {
            inactive_enter: at(2),
            active_enter: at(1_000_000),
            active_exit: at(1_018_000),
            ..row("bad.service", "A bad service", "failed", "failed")
        },
        fragment: "/etc/systemd/system/bad.service".to_owned(),
        file_state: "static".to_owned(),
        outcome: "exit-code".to_owned(),
        commands: vec![CommandRun {
            phase: "ExecStart".to_owned(),
            command: "/bin/sh -c echo hello; exit 3".to_owned(),
            pid: 92,
            code: "exited".to_owned(),
            status: 3,
            ..CommandRun::default()
        }],
        cpu: Some(5000),
        ..UnitStatus::default()
    };
    assert_eq!(
        shown(&status, 767_000),
        "\
× bad.service - A bad service
     Loaded: loaded (/etc/systemd/system/bad.service; static)
     Active: failed (Result: exit-code) since Sun 2026-11-15 11:26:55 UTC; 767ms ago
   Duration: 18ms
    Process: 92 ExecStart=/bin/sh -c echo hello; exit 3 (code=exited, status=3)
   Main PID: 92 (code=exited, status=3)
        CPU: 5ms
"
    );
}

#[test]
fn timers_and_sockets_look_as_systemctl_shows_them() {
    let timer = UnitStatus {
        row: UnitRow {
            active_enter: at(1),
            triggers: texts(&["one.service"]),
            timer: Some(TimerView {
                next: Moment {
                    real: 1_794_787_200_000_000,
                    monotonic: 9,
                },
                last: Moment::default(),
            }),
            ..row("one.timer", "T", "active", "waiting")
        },
        fragment: "/etc/systemd/system/one.timer".to_owned(),
        file_state: "static".to_owned(),
        ..UnitStatus::default()
    };
    assert_eq!(
        shown(&timer, 693_000),
        "\
● one.timer - T
     Loaded: loaded (/etc/systemd/system/one.timer; static)
     Active: active (waiting) since Sun 2026-11-15 11:26:55 UTC; 693ms ago
    Trigger: Mon 2026-11-16 00:00:00 UTC; 12h left
   Triggers: ● one.service
"
    );
    let listen = |kind: &str, address: &str| ListenView {
        kind: kind.to_owned(),
        address: address.to_owned(),
    };
    let socket = UnitStatus {
        row: UnitRow {
            active_enter: at(1),
            triggers: texts(&["s.service"]),
            listens: vec![
                listen("Stream", "/run/s.sock"),
                listen("Datagram", "/run/d.sock"),
            ],
            ..row("s.socket", "s.socket", "active", "listening")
        },
        fragment: "/etc/systemd/system/s.socket".to_owned(),
        file_state: "static".to_owned(),
        cgroup: "/system.slice/s.socket".to_owned(),
        ..UnitStatus::default()
    };
    assert_eq!(
        shown(&socket, 700_000),
        "\
● s.socket
     Loaded: loaded (/etc/systemd/system/s.socket; static)
     Active: active (listening) since Sun 2026-11-15 11:26:55 UTC; 700ms ago
   Triggers: ○ s.service
     Listen: /run/s.sock (Stream)
             /run/d.sock (Datagram)
     CGroup: /system.slice/s.socket
"
    );
}

#[test]
fn what_systemd_does_not_have_has_its_own_lines() {
    let status = UnitStatus {
        row: UnitRow {
            active_enter: at(1),
            job: Some(7),
            job_kind: "restart".to_owned(),
            ..row("h.service", "H", "active", "running")
        },
        health: Some(HealthView {
            state: "unhealthy".to_owned(),
            failures: 2,
            retries: 3,
            checked: at(1),
        }),
        restarts: 4,
        status_text: "Working".to_owned(),
        status_errno: 2,
        memory: Some(5_452_595),
        memory_peak: Some(6 << 20),
        memory_max: Some(16 << 20),
        disk_read: Some(2048),
        disk_written: Some(0),
        network_in: Some(10),
        network_out: Some(1024),
        limits_reached: texts(&["TasksMax=100 (7 times)"]),
        tasks: Some(3),
        tasks_max: Some(100),
        stored_descriptors: 2,
        stored_descriptors_max: 8,
        dropped: texts(&["PrivateUsers: no rights", "Personality: not here"]),
        setup_failure: "namespace: /x: No such file".to_owned(),
        not_applied: texts(&["PrivateTmp", "ProtectHome"]),
        failed_check: Some("ConditionPathExists=/nope".to_owned()),
        checked: at(1),
        ..UnitStatus::default()
    };
    let text = shown(&status, 5_000_000);
    for line in [
        "        Job: 7 (restart)\n",
        "     Health: unhealthy (2 of 3 failures); checked 5s ago\n",
        "   Restarts: 4\n",
        "     Status: \"Working\"\n",
        "      Error: 2 (No such file or directory (os error 2))\n",
        "     Memory: 5.1M (max: 16.0M peak: 6.0M)\n",
        "         IO: 2.0K read, 0B written\n",
        "         IP: 10B in, 1.0K out\n",
        "    Reached: TasksMax=100 (7 times)\n",
        "      Tasks: 3 (limit: 100)\n",
        "   FD Store: 2 (limit: 8)\n",
        "      Setup: failed at namespace: /x: No such file\n",
        "    Dropped: PrivateUsers: no rights\n             Personality: not here\n",
        "Not applied: PrivateTmp, ProtectHome\n",
        "  Condition: start condition failed at Sun 2026-11-15 11:26:55 UTC; 5s ago\n",
        "             └─ ConditionPathExists=/nope was not met\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

fn list_style() -> ListStyle {
    ListStyle {
        format: Format::Short,
        legend: true,
        all: false,
        plain: false,
        types: true,
        style: Style::default(),
    }
}

#[test]
fn lists_of_units_have_the_columns_of_systemctl() {
    let mut rows = vec![
        row("bad.service", "A bad service", "failed", "failed"),
        row("good.service", "A good service", "active", "running"),
    ];
    let text = units(&rows, list_style());
    assert!(text.starts_with(
        "  UNIT         LOAD   ACTIVE SUB     DESCRIPTION
● bad.service  loaded failed failed  A bad service
  good.service loaded active running A good service
"
    ));
    assert!(
        text.contains("2 loaded units listed. Pass --all to see loaded but inactive units, too.\n")
    );
    rows[1].job = Some(3);
    rows[1].job_kind = "stop".to_owned();
    let bare = ListStyle {
        legend: false,
        plain: true,
        ..list_style()
    };
    assert_eq!(
        units(&rows, bare),
        "\
bad.service  loaded failed failed       A bad service
good.service loaded active running stop A good service
"
    );
    let for_programs = ListStyle {
        format: Format::Json,
        ..list_style()
    };
    assert_eq!(
        units(&rows[..1], for_programs),
        "[{\"unit\":\"bad.service\",\"load\":\"loaded\",\"active\":\"failed\",\"sub\":\"failed\",\"description\":\"A bad service\"}]\n"
    );
}

#[test]
fn other_lists_have_the_columns_of_systemctl() {
    let listen = |kind: &str, address: &str| ListenView {
        kind: kind.to_owned(),
        address: address.to_owned(),
    };
    let socket = UnitRow {
        triggers: texts(&["s.service"]),
        listens: vec![
            listen("Stream", "/run/s.sock"),
            listen("Datagram", "/run/d.sock"),
        ],
        ..row("s.socket", "", "active", "listening")
    };
    assert_eq!(
        sockets(std::slice::from_ref(&socket), list_style()),
        "\
LISTEN      TYPE     UNIT     ACTIVATES
/run/d.sock Datagram s.socket s.service
/run/s.sock Stream   s.socket s.service

2 sockets listed.
Pass --all to see loaded but inactive sockets, too.
"
    );
    let timer = |name: &str, next: u64| UnitRow {
        triggers: texts(&["one.service"]),
        timer: Some(TimerView {
            next: Moment {
                real: next,
                monotonic: 0,
            },
            last: Moment::default(),
        }),
        ..row(name, "", "active", "waiting")
    };
    let rows = [
        timer("never.timer", 0),
        timer("one.timer", 1_794_787_200_000_000),
    ];
    let all = ListStyle {
        all: true,
        ..list_style()
    };
    assert_eq!(
        timers(&rows, &now(0), all),
        "\
NEXT                        LEFT     LAST PASSED UNIT        ACTIVATES
Mon 2026-11-16 00:00:00 UTC 12h left -    -      one.timer   one.service
-                           -        -    -      never.timer one.service

2 timers listed.
"
    );
    let path = UnitRow {
        triggers: texts(&["p.service"]),
        paths: vec![PathView {
            kind: "PathExists".to_owned(),
            path: "/run/x".to_owned(),
        }],
        ..row("p.path", "", "active", "waiting")
    };
    assert!(
        paths(&[path], all).starts_with(
            "PATH   CONDITION  UNIT   ACTIVATES\n/run/x PathExists p.path p.service\n"
        )
    );
}

#[test]
fn jobs_tell_what_they_wait_for() {
    let job = |id: u32, unit: &str, state: &str, after: &[u32], before: &[u32]| Job {
        id,
        unit: unit.to_owned(),
        kind: "start".to_owned(),
        state: state.to_owned(),
        queued: 0,
        after: after.to_vec(),
        before: before.to_vec(),
    };
    let all = [
        job(360, "slow.service", "running", &[], &[408]),
        job(408, "after.service", "waiting", &[360], &[]),
    ];
    let list: Vec<&Job> = all.iter().collect();
    let both = Neighbours {
        after: true,
        before: true,
    };
    assert_eq!(
        jobs(&all, &list, both, list_style()),
        "\
JOB UNIT                                         TYPE  STATE
360 slow.service                                 start running
└─      blocking job 408 (after.service/start)   -     -
408 after.service                                start waiting
└─      waiting for job 360 (slow.service/start) -     -

2 jobs listed.
"
    );
    let none = Neighbours::default();
    assert_eq!(jobs(&[], &[], none, list_style()), "No jobs running.\n");
}

#[test]
fn the_machine_is_shown_with_its_tree() {
    let machine = MachineStatus {
        state: "degraded".to_owned(),
        version: "1.2.3".to_owned(),
        units: 164,
        jobs: 2,
        failed: 1,
        cgroup_root: "/".to_owned(),
        userspace: at(1),
        recoveries: 2,
        last_recovery: "killed by SIGKILL".to_owned(),
        ..MachineStatus::default()
    };
    let mut root = Branch::default();
    root.add("/init.scope", 1, "/usr/lib/muster/muster-init");
    root.add("/system.slice/a.service", 12, "/bin/a");
    root.add("/system.slice/a.service/sub", 113, "/bin/b");
    root.add("/system.slice/z.service", 7, "/bin/z");
    assert_eq!(
        overview("vm", &machine, &root, &now(27_000_000), Style::default()),
        "\
● vm
    State: degraded
    Units: 164 loaded
     Jobs: 2 queued
   Failed: 1 units
    Since: Sun 2026-11-15 11:26:55 UTC; 27s ago
   Muster: 1.2.3
 Restarts: 2 of the manager (last: killed by SIGKILL)
   CGroup: /
           ├─init.scope
           │ └─1 /usr/lib/muster/muster-init
           └─system.slice
             ├─a.service
             │ ├─12 /bin/a
             │ └─sub
             │   └─113 /bin/b
             └─z.service
               └─7 /bin/z
"
    );
}

#[test]
fn narrow_terminals_cut_descriptions_and_commands() {
    let rows = [row("a.service", &"x".repeat(200), "active", "running")];
    let narrow = ListStyle {
        style: Style {
            colour: false,
            width: Some(60),
        },
        ..list_style()
    };
    let text = units(&rows, narrow);
    let line = text.lines().nth(1).expect("a row");
    assert_eq!(line.chars().count(), 60);
    assert!(line.ends_with('\u{2026}'));
}

#[test]
fn colours_are_only_there_where_they_are_wanted() {
    let rows = [row("a.service", "A", "failed", "failed")];
    assert!(!units(&rows, list_style()).contains('\u{1b}'));
    let coloured = ListStyle {
        style: Style {
            colour: true,
            width: None,
        },
        ..list_style()
    };
    assert!(units(&rows, coloured).contains("\u{1b}[1;31m"));
}

fn any_text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 ./\u{e9}\n\"-]{0,20}"
}

proptest! {
    /// Whatever a manager says, also a newer one with words that nobody knows here, it can be shown.
    #[test]
    fn anything_can_be_shown(
        words in prop::collection::vec(any_text(), 12),
        numbers in prop::collection::vec(any::<u64>(), 6),
        colour in any::<bool>(),
        width in prop::option::of(0_usize..200),
    ) {
        let moment = Moment { real: numbers[0], monotonic: numbers[1] };
        let mut full = row(&words[0], &words[1], &words[2], &words[3]);
        full.load = words[4].clone();
        full.active_enter = moment;
        full.active_exit = Moment { real: numbers[2], monotonic: numbers[3] };
        full.timer = Some(TimerView { next: moment, last: full.active_exit });
        full.triggers = words[5..7].to_vec();
        full.listens = vec![ListenView { kind: words[7].clone(), address: words[8].clone() }];
        let status = UnitStatus {
            row: full.clone(),
            drop_ins: words[6..9].to_vec(),
            outcome: words[9].clone(),
            cgroup: words[10].clone(),
            processes: vec![ProcessView { pid: 1, cgroup: words[10].clone(), command: words[11].clone() }],
            memory: Some(numbers[4]),
            cpu: Some(numbers[5]),
            main_pid: 1,
            ..UnitStatus::default()
        };
        let related = BTreeMap::new();
        let style = Style { colour, width };
        let view = UnitView { status: &status, related: &related, log: &words };
        let text = unit(view, &now(0), style);
        prop_assert!(text.ends_with('\n'));
        let how = ListStyle { style, ..list_style() };
        let rows = [full];
        units(&rows, how);
        timers(&rows, &now(0), how);
        sockets(&rows, how);
        let mut root = Branch::default();
        root.add(&status.cgroup, 1, &words[11]);
        let machine = MachineStatus { userspace: moment, ..MachineStatus::default() };
        overview(&words[0], &machine, &root, &now(0), style);
    }
}
