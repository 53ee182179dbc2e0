//! A unit that fails in each possible step: what `start`, `status` and `why` say about it.

use muster_lab::machine::MachineBuilder;
use muster_lab::try_poll_for;

use crate::rig::{Rig, TIME};

/// One way to fail.
struct Failure {
    name: &'static str,
    /// `[Unit]` and `[Service]`, as in a file.
    text: &'static str,
    /// What is done to it.
    ask: Ask,
    /// The property `Result` afterwards.
    result: &'static str,
    /// What `status` must say.
    status: &'static str,
    /// What `why` must say.
    why: &'static str,
}

/// What is done to the unit, and how that command ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// `start` fails.
    StartFails,
    /// `start` succeeds, and the unit fails by itself later.
    StartThenFails,
    /// `start` succeeds, and the unit was skipped.
    Skipped,
    /// `start` succeeds, and `stop` leaves it failed.
    StopFails,
}

use Ask::{Skipped, StartFails, StartThenFails, StopFails};

const FAILURES: &[Failure] = &[
    Failure {
        name: "no-program",
        text: "[Service]\nExecStart=/no/such/program\nType=exec\n",
        ask: StartFails,
        result: "exit-code",
        status: "203/EXEC",
        why: "the step 'exec' failed (status 203): ",
    },
    Failure {
        name: "no-user",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nUser=nobody-here\n",
        ask: StartFails,
        result: "exit-code",
        status: "217/USER",
        why: "the step 'user' failed (status 217)",
    },
    Failure {
        name: "no-group",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nGroup=no-group-here\n",
        ask: StartFails,
        result: "exit-code",
        status: "216/GROUP",
        why: "the step 'group' failed (status 216)",
    },
    Failure {
        name: "no-folder",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nWorkingDirectory=/no/such/folder\n",
        ask: StartFails,
        result: "exit-code",
        status: "200/CHDIR",
        why: "the step 'chdir' failed (status 200): cannot enter the working directory /no/such/folder: No such file",
    },
    Failure {
        name: "no-output",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nStandardOutput=file:/no/such/file\n",
        ask: StartFails,
        result: "exit-code",
        status: "209/STDOUT",
        why: "the step 'stdout' failed (status 209)",
    },
    Failure {
        name: "no-source",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nBindPaths=/no/such/folder:/mnt\n",
        ask: StartFails,
        result: "exit-code",
        status: "226/NAMESPACE",
        why: "the step 'namespace' failed (status 226): BindPaths: /no/such/folder does not exist",
    },
    Failure {
        name: "forbidden-call",
        text: "[Service]\nExecStart=/bin/sh -c 'kill -TERM $$$$'\nType=oneshot\nSystemCallFilter=~kill\nLimitCORE=0\n",
        ask: StartFails,
        result: "signal",
        status: "signal=SYS",
        why: "SystemCallErrorNumber=EPERM",
    },
    Failure {
        name: "no-environment",
        text: "[Service]\nExecStart=/bin/true\nType=oneshot\nEnvironmentFile=/no/such/file\n",
        ask: StartFails,
        result: "resources",
        status: "/no/such/file",
        why: "cannot read the environment file /no/such/file",
    },
    Failure {
        name: "pre-fails",
        text: "[Service]\nExecStartPre=/bin/false\nExecStart=/bin/true\nType=oneshot\n",
        ask: StartFails,
        result: "exit-code",
        status: "ExecStartPre=/bin/false (code=exited, status=1/FAILURE)",
        why: "ExecStartPre=/bin/false",
    },
    Failure {
        name: "start-fails",
        text: "[Service]\nExecStart=/bin/sh -c 'exit 7'\nType=oneshot\n",
        ask: StartFails,
        result: "exit-code",
        status: "status=7",
        why: "exited with status 7",
    },
    Failure {
        name: "start-killed",
        text: "[Service]\nExecStart=/bin/sh -c 'kill -KILL $$$$'\nType=oneshot\n",
        ask: StartFails,
        result: "signal",
        status: "code=killed, signal=KILL",
        why: "KILL",
    },
    Failure {
        name: "post-fails",
        text: "[Service]\nExecStart=/bin/sleep infinity\nExecStartPost=/bin/false\n",
        ask: StartFails,
        result: "exit-code",
        status: "ExecStartPost=/bin/false (code=exited, status=1/FAILURE)",
        why: "ExecStartPost=/bin/false",
    },
    Failure {
        name: "never-ready",
        text: "[Service]\nExecStart=/bin/sleep infinity\nType=notify\nTimeoutStartSec=1\n",
        ask: StartFails,
        result: "timeout",
        status: "timeout",
        why: "timeout",
    },
    Failure {
        name: "not-even-ready",
        text: "[Service]\nExecStart=/bin/true\nType=notify\n",
        ask: StartFails,
        result: "protocol",
        status: "protocol",
        why: "protocol",
    },
    Failure {
        name: "no-pid-file",
        text: "[Service]\nExecStart=/bin/true\nType=forking\nPIDFile=/run/no.pid\nTimeoutStartSec=2\n",
        ask: StartFails,
        result: "protocol",
        status: "protocol",
        why: "protocol",
    },
    Failure {
        name: "asserted",
        text: "[Unit]\nAssertPathExists=/no/such/file\n[Service]\nExecStart=/bin/true\nType=oneshot\n",
        ask: StartFails,
        result: "success",
        status: "AssertPathExists=/no/such/file",
        why: "AssertPathExists=/no/such/file",
    },
    Failure {
        name: "depends",
        text: "[Unit]\nRequires=start-fails.service\nAfter=start-fails.service\n[Service]\nExecStart=/bin/true\nType=oneshot\n",
        ask: StartFails,
        result: "success",
        status: "Dependency failed",
        why: "start-fails.service",
    },
    Failure {
        name: "condition",
        text: "[Unit]\nConditionPathExists=/no/such/file\n[Service]\nExecStart=/bin/true\nType=oneshot\n",
        ask: Skipped,
        result: "success",
        status: "ConditionPathExists=/no/such/file",
        why: "ConditionPathExists=/no/such/file",
    },
    Failure {
        name: "exec-condition",
        text: "[Service]\nExecCondition=/bin/false\nExecStart=/bin/true\nType=oneshot\n",
        ask: Skipped,
        result: "exec-condition",
        status: "exec-condition",
        why: "exec-condition",
    },
    Failure {
        name: "dies-later",
        text: "[Service]\nExecStart=/bin/sh -c 'sleep 0.2; exit 3'\n",
        ask: StartThenFails,
        result: "exit-code",
        status: "status=3",
        why: "exited with status 3",
    },
    Failure {
        name: "forks-and-dies",
        text: "[Service]\nExecStart=/bin/sh -c '(exit 3) & echo $$! >/run/dead.pid'\nType=forking\nPIDFile=/run/dead.pid\n",
        ask: StartThenFails,
        result: "exit-code",
        status: "status=3",
        why: "exited with status 3",
    },
    Failure {
        name: "silent",
        text: "[Service]\nExecStart=/bin/sh -c 'systemd-notify --ready; exec sleep infinity'\nType=notify\nNotifyAccess=all\nWatchdogSec=1\nWatchdogSignal=SIGKILL\n",
        ask: StartThenFails,
        result: "watchdog",
        status: "watchdog",
        why: "watchdog",
    },
    Failure {
        name: "too-long",
        text: "[Service]\nExecStart=/bin/sleep infinity\nRuntimeMaxSec=1\n",
        ask: StartThenFails,
        result: "timeout",
        status: "timeout",
        why: "timeout",
    },
    Failure {
        name: "unhealthy",
        text: "[Service]\nExecStart=/bin/sleep infinity\nHealthCheckExec=/bin/false\nHealthCheckInterval=200ms\nHealthCheckRetries=2\n",
        ask: StartThenFails,
        result: "health-check",
        status: "health-check",
        why: "health-check",
    },
    Failure {
        name: "too-often",
        text: "[Unit]\nStartLimitBurst=2\nStartLimitIntervalSec=1h\n[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=0\n",
        ask: StartThenFails,
        result: "start-limit-hit",
        status: "start-limit-hit",
        why: "start-limit-hit",
    },
    Failure {
        name: "stop-fails",
        text: "[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sh -c 'exit 4'\n",
        ask: StopFails,
        result: "exit-code",
        status: "status=4",
        why: "exited with status 4",
    },
    Failure {
        name: "will-not-stop",
        text: "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\nTimeoutStopSec=1\n",
        ask: StopFails,
        result: "timeout",
        status: "timeout",
        why: "timeout",
    },
];

impl Failure {
    fn unit(&self) -> String {
        format!("{}.service", self.name)
    }

    /// What is wrong with how it went, if anything.
    fn check(&self, rig: &Rig) -> Result<(), String> {
        let unit = self.unit();
        let started = rig.sctl(&["start", &unit]);
        let went_well = started.status.success();
        if went_well == (self.ask == StartFails) {
            return Err(format!("start: {}: {}", started.status, started.stderr));
        }
        if self.ask == StartFails && !started.stderr.contains(&unit) {
            return Err(format!("start does not name it: {}", started.stderr));
        }
        if self.ask == StopFails {
            rig.sctl(&["stop", &unit]);
        }
        let is_failed = || {
            rig.sctl(&["is-failed", &unit])
                .status
                .success()
                .then_some(())
        };
        if self.ask != Skipped
            && self.result != "success"
            && try_poll_for(TIME, is_failed).is_none()
        {
            return Err("it is not failed".to_owned());
        }
        let result = rig.property(&unit, "Result");
        if result != self.result {
            return Err(format!("Result={result}"));
        }
        for (verb, expected) in [("status", self.status), ("why", self.why)] {
            let said = rig.sctl(&[verb, &unit]).stdout;
            if !said.contains(expected) {
                return Err(format!("{verb} does not say {expected:?}:\n{said}"));
            }
        }
        Ok(())
    }
}

#[test]
fn every_step_that_fails_is_named_by_status_and_why() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot(|builder| {
        FAILURES
            .iter()
            .fold(builder, |builder: MachineBuilder, failure| {
                builder.unit(failure.unit(), failure.text)
            })
    });
    let wrong: Vec<String> = FAILURES
        .iter()
        .filter_map(|failure| {
            failure
                .check(&rig)
                .err()
                .map(|error| format!("{}: {error}", failure.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn units_that_cannot_be_loaded_say_what_is_wrong_with_them() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot(|builder| {
        builder
            .unit("empty.service", "[Service]\nType=simple\n")
            .unit(
                "no-bus.service",
                "[Service]\nType=dbus\nBusName=org.example.Lab\nExecStart=/bin/true\n",
            )
            .unit(
                "needs.service",
                "[Unit]\nRequires=missing.service\n[Service]\nExecStart=/bin/true\n",
            )
    });
    rig.run([
        "ln",
        "-s",
        "/dev/null",
        "/etc/systemd/system/masked.service",
    ])
    .unwrap();
    for (unit, says) in [
        ("missing.service", "missing.service not found"),
        ("needs.service", "needs.service -> missing.service"),
        ("masked.service", "masked.service is masked"),
        ("empty.service", "ExecStart"),
        ("no-bus.service", "no-bus.service -> dbus.socket"),
    ] {
        let started = rig.sctl(&["start", unit]);
        assert!(!started.status.success(), "{unit}");
        let why = rig.sctl(&["why", unit]);
        let said = format!("{}{}{}", started.stderr, why.stdout, why.stderr);
        assert!(said.contains(says), "{unit}: {said}");
    }
    // As systemctl: a unit that there is not is told apart.
    assert_eq!(
        rig.sctl(&["start", "missing.service"]).status.code(),
        Some(5)
    );
}

#[test]
fn a_cycle_is_named_link_by_link() {
    muster_lab::require!(Root, Cgroup2);
    let unit = |after: &str| {
        format!(
            "[Unit]\nRequires={after}\nAfter={after}\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
        )
    };
    let rig = Rig::boot(|builder| {
        builder
            .unit("a.service", unit("b.service"))
            .unit("b.service", unit("c.service"))
            .unit("c.service", unit("a.service"))
    });
    let started = rig.sctl(&["start", "a.service"]);
    assert!(!started.status.success());
    for name in ["a.service", "b.service", "c.service", "cycle"] {
        assert!(started.stderr.contains(name), "{}", started.stderr);
    }
    assert_eq!(rig.ok(&["list-jobs", "--no-legend"]).trim(), "");
}
