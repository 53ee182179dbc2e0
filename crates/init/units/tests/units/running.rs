//! What is shown of units that run or ran, in the format of systemd 252.

use muster_unit_file::name::UnitName;
use muster_unit_file::timespan::TimeSpan;
use muster_units::runtime::{Elapses, Moment, Processes, Run};
use muster_units::show::{Show, show};
use muster_units::{Graph, Runtime};

use crate::machine::{host, with_closure};

/// 2026-11-15 10:16:48 UTC.
const NOW: Moment = Moment {
    real: 1_794_737_808_000_000,
    monotonic: 7_612_727_606,
};

fn lines(name: &str, runtime: &Runtime) -> Vec<String> {
    with_closure(|closure| {
        let host = host();
        let name = UnitName::new(name).expect("a name");
        let graph = Graph::new(closure.of([name.clone()]), &host);
        let request = Show {
            host: &host,
            runtime,
            all: false,
        };
        let lines = show(graph.unit(&name).expect("it was loaded"), request);
        let lines = lines.into_iter();
        lines
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    })
}

fn assert_has(lines: &[String], wanted: &str) {
    let key = wanted.split('=').next().unwrap_or_default();
    let like: Vec<_> = lines.iter().filter(|line| line.starts_with(key)).collect();
    assert!(
        lines.iter().any(|line| line == wanted),
        "{wanted} is not in {like:#?}"
    );
}

#[test]
fn a_running_service_shows_its_processes() {
    let run = Run {
        start: NOW,
        pid: 1371,
        ..Run::default()
    };
    let runtime = Runtime {
        active_state: "active".into(),
        sub_state: "running".into(),
        invocation: Some(0x99),
        job: Some(12),
        condition_result: true,
        processes: Processes {
            main_pid: 1371,
            main: run,
            commands: vec![("ExecStart", 0, run)],
            watchdog_interval: Some(TimeSpan::from_secs(3600)),
            watchdog: NOW,
            status_text: "ready".into(),
            uid: Some(0),
            ..Processes::default()
        },
        ..Runtime::default()
    };
    let lines = lines("bare.service", &runtime);
    for line in [
        "MainPID=1371",
        "StatusText=ready",
        "UID=0",
        "WatchdogUSec=1h",
        "WatchdogTimestamp=Sun 2026-11-15 10:16:48 UTC",
        "ExecMainStartTimestamp=Sun 2026-11-15 10:16:48 UTC",
        "ExecMainStartTimestampMonotonic=7612727606",
        "ExecStart={ path=/bin/true ; argv[]=/bin/true ; ignore_errors=no ; start_time=[Sun 2026-11-15 10:16:48 UTC] ; stop_time=[n/a] ; pid=1371 ; code=(null) ; status=0/0 }",
        "ActiveState=active",
        "SubState=running",
        "Job=12",
        "ConditionResult=yes",
        "InvocationID=00000000000000000000000000000099",
    ] {
        assert_has(&lines, line);
    }
}

#[test]
fn what_a_unit_may_use_is_shown() {
    let mut runtime = Runtime::default();
    let unlimited = lines("bare.service", &runtime);
    assert_has(&unlimited, "MemoryAvailable=infinity");
    let is_limited = unlimited.iter().any(|line| line.starts_with("Effective"));
    assert!(!is_limited, "nothing is known and nothing said");
    runtime.usage.memory_available = Some(4096);
    runtime.usage.processors = "0-3,6".into();
    runtime.usage.memory_nodes = "0".into();
    let limited = [
        "MemoryAvailable=4096",
        "EffectiveCPUs=0-3 6",
        "EffectiveMemoryNodes=0",
    ];
    for line in limited {
        assert_has(&lines("bare.service", &runtime), line);
    }
}

#[test]
fn commands_show_how_they_ended() {
    for (code, status, shown) in [
        (1, 3, "code=exited ; status=3 }"),
        (2, 15, "code=killed ; status=15/TERM }"),
        (3, 6, "code=dumped ; status=6/ABRT }"),
    ] {
        let run = Run {
            start: NOW,
            exit: NOW,
            pid: 5,
            code,
            status,
        };
        let runtime = Runtime {
            processes: Processes {
                commands: vec![("ExecStart", 0, run)],
                ..Processes::default()
            },
            ..Runtime::default()
        };
        let lines = lines("bare.service", &runtime);
        let mut commands = lines.iter().filter(|line| line.starts_with("ExecStart"));
        assert!(commands.all(|line| line.ends_with(shown)), "{lines:#?}");
    }
}

#[test]
fn a_timer_shows_its_moments() {
    let runtime = Runtime {
        elapses: Elapses {
            next_real: NOW.real,
            next_monotonic: Some(11_212_725_442),
            last: NOW,
            lines: vec![11_212_725_442],
        },
        ..Runtime::default()
    };
    let lines = lines("bare.timer", &runtime);
    assert_has(
        &lines,
        "TimersMonotonic={ OnBootUSec=1s ; next_elapse=3h 6min 52.725442s }",
    );
    assert_has(&lines, "NextElapseUSecMonotonic=3h 6min 52.725442s");
    assert_has(&lines, "NextElapseUSecRealtime=Sun 2026-11-15 10:16:48 UTC");
    assert_has(&lines, "LastTriggerUSec=Sun 2026-11-15 10:16:48 UTC");
}
