//! What could not be done is not asked again and again.

use muster_lifecycle::Halt;
use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::timers::{Timers, WhenIdle};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A machine that runs, with these timers.
fn running(rig: &mut Rig, timers: Timers) -> MachineId {
    let order = MachineOrder { timers, ..order() };
    let now = rig.now();
    let id = rig.book.order(order, None, now).unwrap();
    rig.carry_out();
    rig.answer_all();
    assert_eq!(rig.book.record(&id).unwrap().state(), State::Running);
    id
}

fn refusal(class: FailureClass) -> CallFailure {
    CallFailure {
        operation: "stop".to_owned(),
        class,
        text: "not with this one".to_owned(),
        elsewhere: false,
    }
}

/// Lets time pass as the driver does, where every such verb fails. Tells how often something was asked.
fn pass(rig: &mut Rig, time: Duration, class: FailureClass, fails: &[Verb]) -> usize {
    let end = rig.now().after(time);
    let mut asked = 0;
    // Whoever goes on for ever without time passing is found out.
    for _ in 0..100_000 {
        let now = rig.now();
        rig.book.tick(now);
        let turn = rig.book.take_turn(now);
        let asks = turn.events.iter();
        asked += asks
            .filter(|event| matches!(event.what, Happened::Asked { .. }))
            .count();
        let calls = std::mem::take(&mut rig.pending);
        for call in calls
            .into_iter()
            .chain(turn.calls.into_iter().map(|(_, call)| call))
        {
            let answered = match &call {
                Call::Act(id, _, verb) if fails.contains(verb) => {
                    Answered::Acted(id.clone(), *verb, Err(refusal(class)))
                }
                call => rig.execute(call, Outcome::Done),
            };
            answered.apply(&mut rig.book, now);
        }
        let next = rig
            .book
            .deadline()
            .unwrap_or(end)
            .max(now.after(Duration::from_millis(1)));
        if next > end {
            return asked;
        }
        rig.clock.advance(next.since(now));
    }
    panic!("it never came to rest: {asked} times asked");
}

fn idle(when_idle: WhenIdle) -> Timers {
    Timers {
        idle: Some(Duration::from_secs(50)),
        when_idle,
        ..Timers::default()
    }
}

#[test]
fn what_a_timer_cannot_do_is_asked_later_and_later() {
    for class in [FailureClass::Refused, FailureClass::Retryable] {
        let mut rig = Rig::new();
        let id = running(&mut rig, idle(WhenIdle::Stop));
        let asked = pass(&mut rig, HOUR, class, &[Verb::Stop]);
        // 10 s after the first time, doubled with each.
        assert!((2..=10).contains(&asked), "{class:?}: {asked} times");
        let more = pass(&mut rig, 10 * HOUR, class, &[Verb::Stop]);
        assert!((9..=12).contains(&more), "once an hour at most: {more}");
        let record = rig.book.record(&id).unwrap();
        assert_eq!(record.failure(), Some("not with this one"));
        // Somebody has mended it.
        pass(&mut rig, 2 * HOUR, class, &[]);
        assert_eq!(
            rig.book.record(&id).unwrap().state(),
            State::Stopped(Halt::Off)
        );
    }
}

#[test]
fn a_machine_that_its_provider_will_not_hibernate_is_stopped() {
    let attempts = settings().attempts as usize;
    let once = (FailureClass::Unsupported, 1);
    for (class, times) in [once, (FailureClass::Refused, attempts)] {
        let mut rig = Rig::new();
        let id = running(&mut rig, idle(WhenIdle::Hibernate));
        let asked = pass(&mut rig, HOUR, class, &[Verb::Hibernate]);
        assert_eq!(asked, times + 1, "{class:?}: then it is stopped");
        let state = rig.book.record(&id).unwrap().state();
        assert_eq!(state, State::Stopped(Halt::Off));
    }
}

#[test]
fn a_refusal_that_passes_keeps_no_machine_from_hibernating() {
    let mut rig = Rig::new();
    let id = running(&mut rig, idle(WhenIdle::Hibernate));
    let soon = Duration::from_secs(65);
    let asked = pass(&mut rig, soon, FailureClass::Refused, &[Verb::Hibernate]);
    assert!(
        (1..settings().attempts as usize).contains(&asked),
        "{asked}"
    );
    pass(&mut rig, HOUR, FailureClass::Refused, &[]);
    let record = rig.book.record(&id).unwrap();
    assert_eq!(record.state(), State::Stopped(Halt::Hibernated));
}

fn pool(min_idle: u32) -> Pool {
    let timers = Timers::default();
    Pool {
        size: PoolSize {
            min_idle,
            max: None,
        },
        order: MachineOrder { timers, ..order() },
        others: Vec::new(),
        configured: false,
    }
}

#[test]
fn a_member_that_does_not_start_is_replaced_and_rests() {
    let mut rig = Rig::new();
    let refused = FailureClass::Refused;
    rig.book.set_pool("ci".to_owned(), pool(1));
    pass(&mut rig, Duration::from_secs(1), refused, &[]);
    let now = rig.now();
    let first = rig.book.ids().next().unwrap().clone();
    let stopped = rig.book.ask(&first, Verb::Stop, Reason::Asked, now);
    stopped.unwrap();
    // Another takes its place at once.
    pass(&mut rig, Duration::from_secs(1), refused, &[]);
    rig.book.set_pool("ci".to_owned(), pool(2));
    let asked = pass(&mut rig, 5 * HOUR, refused, &[Verb::Start]);
    assert_eq!(asked, 1, "one start");
    let states = rig.book.entries.values().map(|it| it.record.state());
    let states: Vec<State> = states.collect();
    let running = states.iter().filter(|&&state| state == State::Running);
    assert_eq!((states.len(), running.count()), (3, 2), "{states:?}");
}
