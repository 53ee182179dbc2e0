//! What the engine gets.

use std::collections::BTreeSet;

use muster_engine::EngineState;
use muster_engine::dep::DepKind;
use muster_engine::event::{Answer, Do, Event, LoadState, LoadedUnit, Request, What};
use muster_engine::ids::{Clock, InvocationId, RequestId, Span, Time};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::ExecKind;
use muster_engine::spec::{
    EmergencyAction, HealthAction, KillMode, KindSpec, NotifyAccess, OomPolicy, PathCheck, Restart,
    ServiceSpec, ServiceType, TimeoutFailureMode, TimerBase,
};
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_units::Graph;
use muster_units::closure::Closure;
use muster_units::convert::{Moments, loaded_units};

use crate::machine::{host, names, with_closure};

const MOMENTS: Moments = Moments {
    startup: Time(77),
    seed: 1,
    machine_seed: 2,
};

fn graph() -> Graph {
    with_closure(|closure| Graph::new(closure.of(names()), &host()))
}

fn converted(moments: Moments) -> Vec<LoadedUnit> {
    loaded_units(&graph(), moments)
}

fn unit(name: &str) -> LoadedUnit {
    let units = converted(MOMENTS);
    let unit = units.into_iter().find(|unit| *unit.name == *name);
    unit.expect("it is among the fixtures")
}

fn kind(name: &str) -> KindSpec {
    unit(name).spec.expect("it was loaded").kind
}

fn service(name: &str) -> ServiceSpec {
    match kind(name) {
        KindSpec::Service(service) => *service,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn settings_of_units_arrive() {
    let spec = unit("jailed.service").spec.expect("it was loaded");
    assert_eq!(spec.unit.job_timeout, Span::secs(300));
    assert_eq!(spec.unit.job_running_timeout, Span::secs(30));
    assert_eq!(spec.unit.job_timeout_action, EmergencyAction::Reboot);
    assert_eq!(spec.unit.failure_action, EmergencyAction::Poweroff);
    assert_eq!(spec.unit.start_limit.interval, Span::secs(3600));
    assert_eq!(spec.unit.start_limit.burst, 2);
    assert_eq!(spec.unit.on_success_mode, JobMode::Replace);
    assert!(spec.unit.collect_failed && spec.unit.ignore_on_isolate);
    let target = unit("many.target").spec.expect("it was loaded");
    assert!(target.unit.allow_isolate && target.unit.stop_when_unneeded);
    assert!(target.unit.refuse_manual_start && !target.unit.perpetual);
    assert!(
        unit("-.slice")
            .spec
            .expect("it is always there")
            .unit
            .perpetual
    );
}

#[test]
fn settings_of_services_arrive() {
    let jailed = service("jailed.service");
    assert_eq!(jailed.service_type, ServiceType::Oneshot);
    let kinds: Vec<ExecKind> = jailed.commands.iter().map(|c| c.kind).collect();
    let starts = kinds.iter().filter(|kind| **kind == ExecKind::Start);
    assert_eq!(starts.count(), 4);
    assert!(jailed.commands[1].ignore_failure && !jailed.commands[2].ignore_failure);
    assert_eq!(jailed.timeout_start, Span::secs(20));
    assert_eq!(jailed.timeout_stop, Span::secs(200));
    assert_eq!(jailed.timeout_abort, Some(Span(1_500_000)));
    assert_eq!(jailed.stop_failure_mode, TimeoutFailureMode::Kill);
    assert!(jailed.runtime_max >= Span::secs(26 * 3600));
    assert!(jailed.runtime_max <= Span::secs(26 * 3600 + 10));
    assert!(jailed.success_status.has_code(7) && jailed.success_status.has_code(75));
    assert!(jailed.success_status.has_signal(10) && jailed.restart_prevent.has_signal(9));
    assert_eq!(jailed.notify_access, NotifyAccess::Exec);
    assert_eq!(jailed.oom_policy, OomPolicy::Kill);
    assert_eq!(jailed.fd_store_max, 5);
    assert_eq!(jailed.kill.mode, KillMode::Mixed);
    assert_eq!((jailed.kill.signal, jailed.kill.restart_signal), (2, 1));
    assert_eq!(jailed.kill.final_signal, 3);
    assert!(jailed.kill.send_sighup && !jailed.kill.send_sigkill);
    let talker = service("talker.service");
    assert_eq!(talker.restart, Restart::Always);
    assert_eq!(talker.restart_sec, Span(65_250_000));
    assert_eq!(talker.watchdog, Span::secs(30));
    assert_eq!(talker.timeout_start, Span::INFINITY);
    assert_eq!(talker.notify_access, NotifyAccess::Main);
    assert_eq!(talker.oom_policy, OomPolicy::Continue);
}

/// The fixtures hold what systemd 252 knows; these came later, or are Muster's own.
#[test]
fn settings_that_systemd_252_lacks_arrive() {
    let mut fs = MemoryFs::new();
    fs.write(
        "/u/late.service",
        "[Service]\nType=notify-reload\nExecStart=/bin/late\nReloadSignal=SIGUSR1\n\
         RestartSteps=4\nRestartMaxDelaySec=10\n\
         HealthCheckExec=/bin/check\nHealthCheckAction=restart\nHealthCheckReadiness=yes\n",
    );
    let host = host();
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), host.specifiers.clone());
    let name = UnitName::new("late.service").expect("a unit's name");
    let graph = Graph::new(Closure::new(&mut loader, &host).of([name]), &host);
    let mut units = loaded_units(&graph, MOMENTS).into_iter();
    let late = units.find(|unit| &*unit.name == "late.service");
    let kind = late.and_then(|unit| unit.spec).map(|spec| spec.kind);
    let Some(KindSpec::Service(late)) = kind else {
        panic!("{kind:?}")
    };
    assert_eq!(late.service_type, ServiceType::NotifyReload);
    assert_eq!(late.notify_access, NotifyAccess::Main);
    assert_eq!(late.reload_signal, 10);
    assert_eq!(late.restart_steps, 4);
    assert_eq!(late.restart_max_delay, Span::secs(10));
    let health = late.health.expect("there is a check");
    assert_eq!(health.action, HealthAction::Restart);
    assert!(health.gates_readiness);
}

#[test]
fn settings_of_other_types_arrive() {
    let KindSpec::Socket(busy) = kind("busy.socket") else {
        panic!("not a socket")
    };
    assert_eq!((busy.listeners, busy.max_connections), (10, 9));
    assert_eq!(busy.trigger_limit.burst, 4);
    assert_eq!(busy.commands.len(), 2);
    let KindSpec::Timer(often) = kind("often.timer") else {
        panic!("not a timer")
    };
    assert_eq!((often.monotonic.len(), often.calendars), (5, 2));
    assert_eq!(
        often.monotonic[3],
        (TimerBase::UnitActive, Span::secs(604_800))
    );
    assert_eq!((often.accuracy, often.startup), (Span(1), Time(77)));
    assert!(often.random_delay <= Span::secs(5400));
    let KindSpec::Path(watch) = kind("watch.path") else {
        panic!("not a path unit")
    };
    assert_eq!(watch.checks[4], PathCheck::NotEmpty);
    let KindSpec::Mount(remote) = kind("srv-remote.mount") else {
        panic!("not a mount")
    };
    assert!(remote.configured && remote.lazy_unmount && remote.force_unmount);
    let KindSpec::Automount(automount) = kind("srv-remote.automount") else {
        panic!("not an automount")
    };
    assert_eq!(automount.idle_timeout, Span::secs(300));
}

#[test]
fn what_is_unusable_has_no_settings() {
    let refused = unit("forced.service");
    assert_eq!(refused.load, LoadState::BadSetting);
    assert_eq!(refused.spec, None);
    assert_eq!(unit("alarm.service").load, LoadState::NotFound);
}

#[test]
fn chance_is_a_function_of_the_seed() {
    let delay = |moments| match kind_of(converted(moments), "often.timer") {
        KindSpec::Timer(timer) => timer.random_delay,
        other => panic!("{other:?}"),
    };
    // A fixed delay does not follow the seed of the moment.
    let later = Moments { seed: 9, ..MOMENTS };
    assert_eq!(delay(MOMENTS), delay(later));
    let elsewhere = Moments {
        machine_seed: 9,
        ..MOMENTS
    };
    assert_ne!(delay(MOMENTS), delay(elsewhere));
}

fn kind_of(units: Vec<LoadedUnit>, name: &str) -> KindSpec {
    let mut units = units.into_iter();
    let unit = units.find(|unit| *unit.name == *name).expect("it is there");
    unit.spec.expect("it was loaded").kind
}

fn event(what: What) -> Event {
    Event {
        clock: Clock::default(),
        entropy: InvocationId(1),
        what,
    }
}

#[test]
fn the_engine_knows_every_edge_of_the_graph() {
    let graph = graph();
    let mut engine = EngineState::new();
    engine.apply(&event(What::Loaded(loaded_units(&graph, MOMENTS))));
    let mut compared = 0;
    let is_loaded = |name: &&UnitName| {
        let config = graph.unit(name).and_then(|unit| unit.config());
        config.is_some_and(|config| {
            config.load_state != muster_unit_file::config::LoadState::BadSetting
        })
    };
    // What a refused unit says is shown, but the engine does not act on it.
    for unit in graph.units().filter(|unit| is_loaded(&unit.name())) {
        let id = engine.find(unit.name().as_str()).expect("it was loaded");
        for kind in DepKind::ALL {
            let wanted: BTreeSet<&str> = unit
                .dependencies(*kind)
                .filter(is_loaded)
                .map(UnitName::as_str)
                .collect();
            let known: BTreeSet<&str> = engine
                .unit(id)
                .deps(*kind)
                .map(|other| &*engine.unit(other).name)
                .collect();
            assert_eq!(known, wanted, "{} {kind:?}", unit.name());
            compared += wanted.len();
        }
    }
    assert!(compared > 500, "only {compared} edges");
}

#[test]
fn the_engine_takes_jobs_for_the_units() {
    let mut engine = EngineState::new();
    engine.apply(&event(What::Loaded(converted(MOMENTS))));
    for (number, name) in ["bare.service", "busy.socket", "plain.target"]
        .iter()
        .enumerate()
    {
        let request = Request {
            id: RequestId(u64::try_from(number).expect("three")),
            unit: (*name).into(),
            verb: JobVerb::Start,
            mode: JobMode::IgnoreRequirements,
            manual: true,
        };
        let actions = engine.apply(&event(What::Request(request)));
        let taken = actions.iter().any(|action| {
            matches!(
                action.what,
                Do::Answer {
                    answer: Answer::Job(_),
                    ..
                }
            )
        });
        assert!(taken, "{name}: {actions:?}");
    }
}
