use muster_engine::event::{Event, LoadedUnit, Request, What};
use muster_engine::ids::{InvocationId, RequestId, Span, Time};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::spec::{CommandSpec, KindSpec, ServiceSpec, UnitSpec};
use std::collections::BTreeSet;

use super::*;

fn apply(engine: &mut EngineState, what: What) {
    let event = Event {
        clock: Clock {
            monotonic: Time(1_000_000),
            real: 5_000_000,
        },
        entropy: InvocationId(7),
        what,
    };
    engine.apply(&event);
}

fn service(name: &str, after: &[&str]) -> LoadedUnit {
    let deps: BTreeSet<(DepKind, Box<str>)> = after
        .iter()
        .flat_map(|other| {
            [
                (DepKind::After, (*other).into()),
                (DepKind::Requires, (*other).into()),
            ]
        })
        .collect();
    let spec = UnitSpec {
        description: format!("The {name}").into(),
        deps,
        kind: KindSpec::Service(Box::new(ServiceSpec {
            commands: vec![CommandSpec {
                kind: muster_engine::protocol::ExecKind::Start,
                ignore_failure: false,
            }]
            .into(),
            timeout_start: Span::secs(90),
            ..ServiceSpec::default()
        })),
        ..UnitSpec::default()
    };
    LoadedUnit {
        name: name.into(),
        aliases: Vec::new(),
        load: muster_engine::event::LoadState::Loaded,
        spec: Some(Box::new(spec)),
    }
}

/// a.service is being started, b.service waits for it, c.service is down.
fn engine() -> EngineState {
    let mut engine = EngineState::new();
    let units = vec![
        service("a.service", &[]),
        service("b.service", &["a.service"]),
        service("c.service", &[]),
    ];
    apply(&mut engine, What::Loaded(units));
    let request = Request {
        id: RequestId(1),
        unit: "b.service".into(),
        verb: JobVerb::Start,
        mode: JobMode::Replace,
        manual: true,
    };
    apply(&mut engine, What::Request(request));
    engine
}

fn listed(wanted: &ListUnitsCall) -> Vec<String> {
    let engine = engine();
    let units = engine
        .units()
        .filter(|(_, record)| is_listed(record, wanted));
    units.map(|(_, record)| record.name.to_string()).collect()
}

#[test]
fn a_list_shows_what_is_up_or_has_a_job() {
    assert_eq!(
        listed(&ListUnitsCall::default()),
        ["a.service", "b.service"]
    );
    let all = ListUnitsCall {
        all: true,
        ..ListUnitsCall::default()
    };
    assert_eq!(listed(&all), ["a.service", "b.service", "c.service"]);
}

#[test]
fn a_list_is_filtered_by_name_type_and_state() {
    let wanted = |patterns: &[&str], types: &[&str], states: &[&str]| {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        listed(&ListUnitsCall {
            patterns: owned(patterns),
            types: owned(types),
            states: owned(states),
            all: false,
        })
    };
    assert_eq!(wanted(&["b*", "c*"], &[], &[]), ["b.service"]);
    assert_eq!(wanted(&[], &["socket"], &[]), Vec::<String>::new());
    assert_eq!(
        wanted(&[], &["service"], &["inactive"]),
        ["b.service", "c.service"]
    );
    assert_eq!(wanted(&[], &[], &["start", "activating"]), ["a.service"]);
}

#[test]
fn jobs_say_what_they_wait_for_and_who_waits() {
    let jobs = jobs(&engine());
    let find = |unit: &str| jobs.iter().find(|job| job.unit == unit).expect("a job");
    let (first, then) = (find("a.service"), find("b.service"));
    assert_eq!(
        (first.state.as_str(), then.state.as_str()),
        ("running", "waiting")
    );
    assert_eq!(then.after, [first.id]);
    assert_eq!(first.before, [then.id]);
    assert_eq!(then.kind, "start");
}

#[test]
fn a_row_says_what_the_engine_knows() {
    let engine = engine();
    let unit = engine.find("a.service").expect("it is there");
    let row = row(&engine, unit, engine.now(), None);
    assert_eq!(row.description, "The a.service");
    assert_eq!(
        (row.active.as_str(), row.load.as_str()),
        ("activating", "loaded")
    );
    assert_eq!(row.job_kind, "start");
    assert_eq!(row.inactive_exit.real, 5_000_000);
    assert_eq!(row.active_enter, Moment::default());
}

#[test]
fn a_timer_is_shown_by_the_clock_that_comes_first() {
    let now = Clock {
        monotonic: Time(100),
        real: 1_000,
    };
    let mut timer = Timer::default();
    timer.next = Some(Time(160));
    timer.next_real = Some(1_050);
    let next = timer_view(&timer, now).next;
    assert_eq!((next.monotonic, next.real), (150, 1_050));
    timer.next_real = None;
    let next = timer_view(&timer, now).next;
    assert_eq!((next.monotonic, next.real), (160, 1_060));
    assert_eq!(timer_view(&Timer::default(), now), TimerView::default());
}
