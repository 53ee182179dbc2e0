//! The unit types at work in the engine: jobs that wait for hardware, triggers that start units and learn what became of it.

use muster_engine::dep::DepKind;
use muster_engine::event::{Do, LoadState, LoadedUnit, Request, What};
use muster_engine::ids::{Clock, InvocationId, RequestId, Time};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{ExecKind, ExitStatus, Input, Output, Process, Role};
use muster_engine::spec::*;
use muster_engine::{EngineState, Event};

/// A unit by name, with its settings and edges.
type Unit<'a> = (&'a str, KindSpec, &'a [(DepKind, &'a str)]);

struct Bed {
    state: EngineState,
    now: u64,
}

impl Bed {
    fn new(units: &[Unit<'_>]) -> Self {
        let mut bed = Self {
            state: EngineState::new(),
            now: 1_000_000,
        };
        let load = |(name, kind, deps): &Unit<'_>| LoadedUnit {
            name: (*name).into(),
            aliases: Vec::new(),
            load: LoadState::Loaded,
            spec: Some(Box::new(UnitSpec {
                kind: kind.clone(),
                deps: deps
                    .iter()
                    .map(|(kind, to)| (*kind, (*to).into()))
                    .collect(),
                ..UnitSpec::default()
            })),
        };
        bed.happens(What::Loaded(units.iter().map(load).collect()));
        bed
    }

    fn happens(&mut self, what: What) -> Vec<Do> {
        self.now += 10;
        let clock = Clock {
            monotonic: Time(self.now),
            real: 0,
        };
        let entropy = InvocationId(u128::from(self.now));
        let actions = self.state.apply(&Event {
            clock,
            entropy,
            what,
        });
        actions.into_iter().map(|action| action.what).collect()
    }

    fn request(&mut self, unit: &str, verb: JobVerb) -> Vec<Do> {
        self.happens(What::Request(Request {
            id: RequestId(1),
            unit: unit.into(),
            verb,
            mode: JobMode::Replace,
            manual: false,
        }))
    }

    fn tell(&mut self, unit: &str, input: Input) -> Vec<Do> {
        let unit = self.state.find(unit).expect("the unit is loaded");
        self.happens(What::Unit { unit, input })
    }

    fn spawned(&mut self, unit: &str, role: Role, pid: u32) -> Vec<Do> {
        let invocation = self
            .state
            .unit(self.state.find(unit).expect("the unit is loaded"))
            .invocation;
        let process = Process {
            pid,
            pidfd_inode: 1,
            cgroup: "/u".into(),
            invocation,
        };
        self.tell(unit, Input::Spawned { role, process })
    }

    fn sub(&self, unit: &str) -> &'static str {
        let id = self.state.find(unit).expect("the unit is loaded");
        self.state.unit(id).machine.sub_state()
    }
}

fn asks(actions: &[Do], wanted: &Output) -> bool {
    let is = |action: &Do| matches!(action, Do::Unit { output, .. } if output == wanted);
    actions.iter().any(is)
}

fn service() -> KindSpec {
    KindSpec::Service(Box::new(ServiceSpec {
        commands: [CommandSpec {
            kind: ExecKind::Start,
            ignore_failure: false,
        }]
        .into(),
        ..ServiceSpec::default()
    }))
}

#[test]
fn a_start_waits_for_its_device() {
    let mut bed = Bed::new(&[
        ("disk.device", KindSpec::Device(DeviceSpec {}), &[]),
        (
            "app.service",
            service(),
            &[
                (DepKind::BindsTo, "disk.device"),
                (DepKind::After, "disk.device"),
            ],
        ),
    ]);
    bed.request("app.service", JobVerb::Start);
    assert_eq!(
        (bed.sub("disk.device"), bed.sub("app.service")),
        ("dead", "dead")
    );
    assert_eq!(bed.state.jobs().count(), 2, "both wait");
    bed.tell("disk.device", Input::Plugged { present: true });
    assert_eq!(
        (bed.sub("disk.device"), bed.sub("app.service")),
        ("plugged", "start")
    );
    bed.spawned("app.service", Role::Main, 7);
    assert_eq!(bed.state.jobs().count(), 0);
    // Pulled out: what is bound to it goes.
    bed.tell("disk.device", Input::Plugged { present: false });
    assert_eq!(bed.sub("app.service"), "stop-sigterm");
}

#[test]
fn traffic_starts_the_service_and_its_end_gives_the_socket_back() {
    let socket = KindSpec::Socket(Box::default());
    let mut bed = Bed::new(&[
        ("app.socket", socket, &[(DepKind::Triggers, "app.service")]),
        ("app.service", service(), &[]),
    ]);
    bed.request("app.socket", JobVerb::Start);
    bed.tell("app.socket", Input::SocketsOpened { error: None });
    bed.tell("app.socket", Input::Incoming);
    assert_eq!(
        (bed.sub("app.socket"), bed.sub("app.service")),
        ("running", "start")
    );
    bed.spawned("app.service", Role::Main, 7);
    // A restart of the service leaves the socket to it.
    bed.request("app.service", JobVerb::Restart);
    let status = ExitStatus::Code(0);
    bed.tell("app.service", Input::Exited { pid: 7, status });
    bed.tell("app.service", Input::CgroupEmpty);
    assert_eq!(
        (bed.sub("app.socket"), bed.sub("app.service")),
        ("running", "start")
    );
    bed.spawned("app.service", Role::Main, 8);
    bed.tell("app.service", Input::Exited { pid: 8, status });
    let actions = bed.tell("app.service", Input::CgroupEmpty);
    assert!(asks(&actions, &Output::WatchSockets(true)));
    assert_eq!(
        (bed.sub("app.socket"), bed.sub("app.service")),
        ("listening", "dead")
    );
}

#[test]
fn whoever_looks_is_answered_when_the_mount_cannot_even_be_tried() {
    let mut bed = Bed::new(&[
        (
            "data.automount",
            KindSpec::Automount(AutomountSpec::default()),
            &[(DepKind::Triggers, "data.mount")],
        ),
        (
            "data.mount",
            KindSpec::Mount(Box::default()),
            &[
                (DepKind::Requires, "net.service"),
                (DepKind::After, "net.service"),
            ],
        ),
        ("net.service", service(), &[]),
    ]);
    bed.request("data.automount", JobVerb::Start);
    bed.tell("data.automount", Input::Waiting { pid: 9 });
    assert_eq!(
        (bed.sub("data.automount"), bed.sub("net.service")),
        ("running", "start")
    );
    bed.spawned("net.service", Role::Main, 7);
    let error = muster_engine::protocol::SpawnError {
        step: "exec".into(),
        errno: 2,
        exit_code: 203,
        early: false,
    };
    bed.tell(
        "data.mount",
        Input::SpawnFailed {
            role: Role::Control,
            error,
        },
    );
    assert_eq!(bed.sub("data.mount"), "failed");
    // The network goes, and with it the next attempt, before the mount command is ever run.
    bed.request("net.service", JobVerb::Stop);
    bed.tell(
        "net.service",
        Input::Exited {
            pid: 7,
            status: ExitStatus::Signal(15),
        },
    );
    bed.tell("net.service", Input::CgroupEmpty);
    assert_eq!(bed.sub("data.automount"), "waiting");
    bed.tell("data.automount", Input::Waiting { pid: 9 });
    assert_eq!(bed.sub("net.service"), "start");
    let error = muster_engine::protocol::SpawnError {
        step: "exec".into(),
        errno: 2,
        exit_code: 203,
        early: false,
    };
    let actions = bed.tell(
        "net.service",
        Input::SpawnFailed {
            role: Role::Main,
            error,
        },
    );
    assert!(asks(&actions, &Output::AnswerWaiting(19)), "{actions:?}");
    assert_eq!(
        (bed.sub("data.automount"), bed.sub("data.mount")),
        ("waiting", "failed")
    );
}

#[test]
fn a_timer_learns_when_its_unit_ran() {
    let timer = KindSpec::Timer(Box::new(TimerSpec {
        monotonic: [
            (TimerBase::Active, muster_engine::ids::Span::secs(1)),
            (TimerBase::UnitInactive, muster_engine::ids::Span::secs(60)),
        ]
        .into(),
        accuracy: muster_engine::ids::Span(1),
        ..TimerSpec::default()
    }));
    let mut bed = Bed::new(&[
        ("app.timer", timer, &[(DepKind::Triggers, "app.service")]),
        ("app.service", service(), &[]),
    ]);
    bed.request("app.timer", JobVerb::Start);
    bed.now += 1_000_000;
    bed.happens(What::Tick);
    assert_eq!(
        (bed.sub("app.timer"), bed.sub("app.service")),
        ("running", "start")
    );
    bed.spawned("app.service", Role::Main, 7);
    bed.now += 5_000_000;
    bed.tell(
        "app.service",
        Input::Exited {
            pid: 7,
            status: ExitStatus::Code(0),
        },
    );
    bed.tell("app.service", Input::CgroupEmpty);
    assert_eq!(bed.sub("app.timer"), "waiting");
    assert_eq!(bed.state.next_deadline(), Some(Time(bed.now + 60_000_000)));
}

#[test]
fn an_idle_service_starts_when_nothing_else_is_to_be_done() {
    let KindSpec::Service(mut spec) = service() else {
        unreachable!("it is a service")
    };
    spec.service_type = ServiceType::Idle;
    let mut bed = Bed::new(&[
        ("getty.service", KindSpec::Service(spec), &[]),
        ("slow.service", service(), &[]),
        (
            "boot.target",
            KindSpec::Target(TargetSpec {}),
            &[
                (DepKind::Wants, "getty.service"),
                (DepKind::Wants, "slow.service"),
                (DepKind::After, "slow.service"),
            ],
        ),
    ]);
    bed.request("boot.target", JobVerb::Start);
    let begun = Output::Spawn {
        role: Role::Main,
        command: muster_engine::protocol::CommandRef {
            kind: ExecKind::Start,
            index: 0,
        },
    };
    let actions = bed.spawned("slow.service", Role::Main, 7);
    assert!(
        asks(&actions, &begun),
        "the last other job has ended: {actions:?}"
    );
    bed.spawned("getty.service", Role::Main, 8);
    assert_eq!(bed.sub("getty.service"), "running");
}

#[test]
fn a_oneshot_without_commands_ends_its_job_and_counts_as_a_run() {
    let service = ServiceSpec {
        service_type: ServiceType::Oneshot,
        ..ServiceSpec::default()
    };
    let mut bed = Bed::new(&[("end.service", KindSpec::Service(service.into()), &[])]);
    let done = bed.request("end.service", JobVerb::Start);
    let ended = |what: &Do| matches!(what, Do::JobEnded { result, .. } if result.is_good());
    assert!(done.iter().any(ended), "{done:?}");
    assert_eq!(bed.state.jobs().count(), 0);
    let states = done
        .iter()
        .filter(|what| matches!(what, Do::StateChanged { .. }));
    assert_eq!(states.count(), 2, "up and down again");
}
