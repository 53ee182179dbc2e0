use proptest::prelude::*;

use super::*;
use crate::state::Halt;

fn second(count: u64) -> Moment {
    Moment::from_millis(count * 1000)
}

const MINUTE: Duration = Duration::from_secs(60);

fn facts(state: State) -> Facts {
    Facts {
        state,
        since: second(100),
        made: second(100),
        work: Work::default(),
        reachable: true,
        kept_warm: false,
        is_node: false,
        supported: VerbSet::ALL,
    }
}

fn idle_timer() -> Timers {
    Timers {
        idle: Some(MINUTE),
        ..Timers::default()
    }
}

#[test]
fn without_timers_a_machine_lives_for_ever() {
    for state in State::ALL {
        let due = due(
            &Timers::default(),
            &facts(state),
            Moment::from_millis(u64::MAX),
        );
        assert_eq!(due, Due::Never);
    }
}

#[test]
fn an_idle_machine_is_stopped_a_minute_after_its_last_work() {
    let mut facts = facts(State::Running);
    facts.work.last = second(130);
    assert_eq!(
        due(&idle_timer(), &facts, second(189)),
        Due::At(second(190))
    );
    let now = Due::Now(Verb::Stop, Reason::Idle);
    assert_eq!(due(&idle_timer(), &facts, second(190)), now);
}

#[test]
fn a_heartbeat_counts_as_work_until_it_runs_out() {
    let mut facts = facts(State::Running);
    facts.work.heartbeat_until = Some(second(500));
    assert_eq!(
        due(&idle_timer(), &facts, second(400)),
        Due::At(second(560))
    );
    assert_eq!(
        due(&idle_timer(), &facts, second(559)),
        Due::At(second(560))
    );
    let now = Due::Now(Verb::Stop, Reason::Idle);
    assert_eq!(due(&idle_timer(), &facts, second(560)), now);
}

#[test]
fn hibernation_falls_back_to_a_stop_where_it_is_not_offered() {
    let mut timers = idle_timer();
    timers.when_idle = WhenIdle::Hibernate;
    let mut facts = facts(State::Running);
    let now = Due::Now(Verb::Hibernate, Reason::Idle);
    assert_eq!(due(&timers, &facts, second(500)), now);
    facts.supported = VerbSet::ALL.without(Verb::Hibernate);
    let now = Due::Now(Verb::Stop, Reason::Idle);
    assert_eq!(due(&timers, &facts, second(500)), now);
    facts.supported = VerbSet::NONE;
    assert_eq!(due(&timers, &facts, second(500)), Due::Never);
}

#[test]
fn an_idle_machine_that_cannot_be_put_away_stays_and_is_known_to() {
    let mut facts = facts(State::Running);
    facts.supported = VerbSet::ALL.without(Verb::Stop).without(Verb::Hibernate);
    for when_idle in [WhenIdle::Stop, WhenIdle::Hibernate] {
        let timers = Timers {
            when_idle,
            ..idle_timer()
        };
        assert_eq!(due(&timers, &facts, second(120)), Due::At(second(160)));
        assert!(!stays(&timers, &facts, second(159)));
        assert_eq!(due(&timers, &facts, second(160)), Due::Never);
        assert!(stays(&timers, &facts, second(160)));
        let mut busy = facts;
        busy.work.sessions = 1;
        assert_eq!(due(&timers, &busy, second(160)), Due::Held);
        assert!(!stays(&timers, &busy, second(160)));
        let lifetime = Timers {
            lifetime: Some(10 * MINUTE),
            ..timers
        };
        assert_eq!(due(&lifetime, &facts, second(160)), Due::At(second(700)));
    }
    // Whoever says so wants it gone.
    let timers = Timers {
        when_idle: WhenIdle::Terminate,
        ..idle_timer()
    };
    assert!(!stays(&timers, &facts, second(160)));
    let now = Due::Now(Verb::Terminate, Reason::Idle);
    assert_eq!(due(&timers, &facts, second(160)), now);
}

#[test]
fn an_unreachable_machine_is_not_stopped_for_being_idle_but_its_lifetime_ends() {
    let mut facts = facts(State::Running);
    facts.reachable = false;
    assert_eq!(due(&idle_timer(), &facts, second(9999)), Due::Never);
    let timers = Timers {
        lifetime: Some(MINUTE),
        ..idle_timer()
    };
    let now = Due::Now(Verb::Terminate, Reason::Lifetime);
    assert_eq!(due(&timers, &facts, second(9999)), now);
}

#[test]
fn work_holds_the_end_of_a_lifetime() {
    let timers = Timers {
        lifetime: Some(MINUTE),
        ..Timers::default()
    };
    let mut facts = facts(State::Running);
    facts.work.sessions = 1;
    assert_eq!(due(&timers, &facts, second(159)), Due::At(second(160)));
    assert_eq!(due(&timers, &facts, second(160)), Due::Held);
    facts.work.sessions = 0;
    let now = Due::Now(Verb::Terminate, Reason::Lifetime);
    assert_eq!(due(&timers, &facts, second(160)), now);
}

#[test]
fn stop_soon_and_destroy_later() {
    let timers = Timers {
        stopped: Some(10 * MINUTE),
        ..idle_timer()
    };
    for halt in [Halt::Off, Halt::Hibernated] {
        let facts = facts(State::Stopped(halt));
        assert_eq!(due(&timers, &facts, second(101)), Due::At(second(700)));
        let now = Due::Now(Verb::Terminate, Reason::StoppedLong);
        assert_eq!(due(&timers, &facts, second(700)), now);
    }
}

#[test]
fn a_machine_kept_warm_does_not_go_idle() {
    let mut facts = facts(State::Running);
    facts.kept_warm = true;
    assert_eq!(due(&idle_timer(), &facts, second(9999)), Due::Never);
}

#[test]
fn a_node_of_a_unit_is_ended_by_its_lifetime_alone() {
    let timers = Timers {
        stopped: Some(Duration::from_secs(600)),
        ..idle_timer()
    };
    for state in [State::Running, State::Stopped(Halt::Off)] {
        let mut facts = facts(state);
        facts.is_node = true;
        assert_eq!(due(&timers, &facts, second(9999)), Due::Never, "{state}");
        let timers = Timers {
            lifetime: Some(Duration::from_secs(600)),
            ..timers
        };
        let now = Due::Now(Verb::Terminate, Reason::Lifetime);
        assert_eq!(due(&timers, &facts, second(9999)), now, "{state}");
    }
}

prop_compose! {
    fn any_timers()(
        idle in prop::option::of(0u64..100),
        stopped in prop::option::of(0u64..100),
        lifetime in prop::option::of(0u64..100),
        when_idle in prop::sample::select(&[WhenIdle::Stop, WhenIdle::Hibernate, WhenIdle::Terminate][..]),
    ) -> Timers {
        let seconds = |count: Option<u64>| count.map(Duration::from_secs);
        Timers { idle: seconds(idle), when_idle, stopped: seconds(stopped), lifetime: seconds(lifetime) }
    }
}

prop_compose! {
    fn any_facts()(
        state in prop::sample::select(&State::ALL[..]),
        since in 0u64..200,
        made in 0u64..200,
        sessions in 0u32..2,
        commands in 0u32..2,
        heartbeat in prop::option::of(0u64..300),
        last in 0u64..200,
        reachable: bool,
        kept_warm: bool,
        is_node: bool,
        verbs in prop::collection::vec(prop::sample::select(&Verb::ALL[..]), 0..7),
    ) -> Facts {
        let work = Work { sessions, commands, heartbeat_until: heartbeat.map(second), last: second(last) };
        Facts {
            state, since: second(since), made: second(made), work, reachable, kept_warm, is_node,
            supported: VerbSet::of(&verbs),
        }
    }
}

proptest! {
    #[test]
    fn the_busy_are_spared_and_the_rest_is_allowed(
        timers in any_timers(), facts in any_facts(), now in 0u64..300,
    ) {
        let now = second(now);
        match due(&timers, &facts, now) {
            Due::Now(verb, reason) => {
                prop_assert!(!facts.work.is_busy(now));
                prop_assert!(facts.supported.has(verb));
                let step = crate::decide(facts.state, verb, facts.supported);
                prop_assert_eq!(step, Ok(crate::Step::Act(verb)));
                if reason == Reason::Idle {
                    prop_assert!(facts.reachable && !facts.kept_warm);
                }
                prop_assert!(!facts.is_node || reason == Reason::Lifetime);
            }
            Due::Held => prop_assert!(facts.work.is_busy(now)),
            Due::At(at) => {
                prop_assert!(at > now);
                // Nothing happens before, if nothing changes.
                let before = Moment::from_millis(at.as_millis() - 1);
                prop_assert!(!matches!(due(&timers, &facts, before), Due::Now(..)));
                let can = facts.supported.has(Verb::Terminate);
                prop_assert!(due(&timers, &facts, at) != Due::Never || stays(&timers, &facts, at) || !can);
            }
            Due::Never => {}
        }
        if stays(&timers, &facts, now) {
            prop_assert!(!matches!(due(&timers, &facts, now), Due::Now(_, Reason::Idle)));
        }
    }
}
