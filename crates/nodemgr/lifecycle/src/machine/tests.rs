use proptest::prelude::*;

use super::*;

const T0: Moment = Moment::from_millis(1_000);

fn at(state: State) -> Lifecycle {
    Lifecycle::new(state, T0)
}

fn begin(machine: &mut Lifecycle, verb: Verb) -> Result<Step, RefusedVerb> {
    machine.begin(verb, VerbSet::ALL, Reason::Asked, T0)
}

#[test]
fn a_stop_is_done_when_it_is_stopped() {
    let mut machine = at(State::Running);
    assert_eq!(begin(&mut machine, Verb::Stop), Ok(Step::Act(Verb::Stop)));
    // Asked again before the provider shows anything.
    assert_eq!(begin(&mut machine, Verb::Stop), Ok(Step::Already));
    let later = Moment::from_millis(2_000);
    let seen = machine.observe(State::Stopping(Halt::Off), later).unwrap();
    assert_eq!(
        seen,
        Seen::Moved {
            from: State::Running,
            ended: None
        }
    );
    let seen = machine.observe(State::Stopped(Halt::Off), later).unwrap();
    let ended = Some(Ended::Reached(Verb::Stop));
    assert_eq!(
        seen,
        Seen::Moved {
            from: State::Stopping(Halt::Off),
            ended
        }
    );
    assert_eq!((machine.task(), machine.since()), (None, later));
}

#[test]
fn a_start_that_leaves_a_machine_stopped_is_given_up() {
    let settle = Duration::from_secs(30);
    let patience = |machine: &Lifecycle, now| {
        machine.patience(Duration::from_secs(5), settle, VerbSet::ALL, now)
    };
    for (verb, halt) in [(Verb::Start, Halt::Off), (Verb::Resume, Halt::Hibernated)] {
        let mut machine = at(State::Stopped(halt));
        begin(&mut machine, verb).unwrap();
        // The provider may not show yet that it starts.
        assert_eq!(
            patience(&machine, T0),
            Some(Patience::Until(T0.after(settle)))
        );
        let up = T0.after(Duration::from_secs(10));
        machine.observe(State::Pending, up).unwrap();
        assert_eq!(
            patience(&machine, up.after(settle)),
            None,
            "it may boot long"
        );
        let down = T0.after(Duration::from_secs(20));
        machine.observe(State::Stopped(Halt::Off), down).unwrap();
        let until = down.after(settle);
        assert_eq!(patience(&machine, down), Some(Patience::Until(until)));
        assert_eq!(patience(&machine, until), Some(Patience::GiveUp));
    }
}

#[test]
fn a_graceful_stop_becomes_a_forced_one_after_its_grace_and_nothing_else_does() {
    let grace = Duration::from_secs(5);
    let mut machine = at(State::Running);
    begin(&mut machine, Verb::Stop).unwrap();
    let patience = |machine: &Lifecycle, set, now| {
        let task = machine.task().expect("a task");
        task.patience(grace, set, now)
    };
    assert_eq!(
        patience(&machine, VerbSet::ALL, T0),
        Some(Patience::Until(T0.after(grace)))
    );
    let late = T0.after(grace);
    assert_eq!(
        patience(&machine, VerbSet::ALL, late),
        Some(Patience::Force)
    );
    let gentle = VerbSet::ALL.without(Verb::ForceStop);
    assert_eq!(patience(&machine, gentle, late), None);
    assert_eq!(
        begin(&mut machine, Verb::ForceStop),
        Ok(Step::Act(Verb::ForceStop))
    );
    assert_eq!(patience(&machine, VerbSet::ALL, late), None);
    let mut machine = at(State::Running);
    begin(&mut machine, Verb::Hibernate).unwrap();
    assert_eq!(patience(&machine, VerbSet::ALL, late), None);
}

#[test]
fn a_reboot_ends_with_the_answer_and_stays_inside_running() {
    let mut machine = at(State::Running);
    begin(&mut machine, Verb::Reboot).unwrap();
    assert_eq!(machine.observe(State::Running, T0), Ok(Seen::Same));
    assert!(begin(&mut machine, Verb::Stop).is_err());
    assert_eq!(
        machine.acknowledge(Verb::Reboot),
        Some(Ended::Reached(Verb::Reboot))
    );
    assert_eq!((machine.state(), machine.task()), (State::Running, None));
}

#[test]
fn a_hibernation_that_ends_switched_off_says_so() {
    let mut machine = at(State::Running);
    begin(&mut machine, Verb::Hibernate).unwrap();
    let seen = machine.observe(State::Stopped(Halt::Off), T0).unwrap();
    let ended = Some(Ended::Otherwise(Verb::Hibernate));
    assert_eq!(
        seen,
        Seen::Moved {
            from: State::Running,
            ended
        }
    );
}

#[test]
fn terminated_is_final() {
    let mut machine = at(State::Terminated);
    let seen = machine.observe(State::Running, T0);
    assert_eq!(
        seen,
        Err(ImpossibleMove {
            from: State::Terminated,
            to: State::Running
        })
    );
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Ask(Verb),
    See(State),
    Acknowledge(Verb),
    GiveUp(Verb),
}

fn event() -> impl Strategy<Value = Event> {
    let verb = || prop::sample::select(&Verb::ALL[..]);
    prop_oneof![
        3 => verb().prop_map(Event::Ask),
        3 => prop::sample::select(&State::ALL[..]).prop_map(Event::See),
        1 => verb().prop_map(Event::Acknowledge),
        1 => verb().prop_map(Event::GiveUp),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_rules_hold(
        bits in prop::collection::vec(prop::sample::select(&Verb::ALL[..]), 0..7),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let supported = VerbSet::of(&bits);
        let mut machine = at(State::Pending);
        for (index, event) in events.into_iter().enumerate() {
            let before = machine;
            let now = T0.after(Duration::from_secs(index as u64));
            match event {
                Event::Ask(verb) => match machine.begin(verb, supported, Reason::Asked, now) {
                    Ok(Step::Act(act)) => {
                        prop_assert!(supported.has(act));
                        prop_assert!(!before.state.is_ending());
                        prop_assert_eq!(machine.task.map(|task| task.verb), Some(act));
                    }
                    // Neither a refusal nor an empty wish changes anything.
                    Ok(Step::Already) | Err(_) => prop_assert_eq!(machine, before),
                },
                Event::See(state) => match machine.observe(state, now) {
                    Ok(Seen::Same) => prop_assert_eq!(machine, before),
                    Ok(Seen::Moved { from, ended }) => {
                        prop_assert_eq!(from, before.state);
                        prop_assert_eq!(machine.state, state);
                        prop_assert_eq!(ended.is_some(), before.task.is_some() && machine.task.is_none());
                    }
                    Err(_) => prop_assert_eq!(machine, before),
                },
                Event::Acknowledge(verb) => {
                    machine.acknowledge(verb);
                    prop_assert_eq!(machine.state, before.state);
                }
                Event::GiveUp(verb) => machine.give_up(verb),
            }
            prop_assert!(before.state.may_become(machine.state));
            // What is gone has nothing left to do.
            if machine.state == State::Terminated {
                prop_assert!(machine.task.is_none());
            }
            if let Some(task) = machine.task {
                prop_assert!(supported.has(task.verb));
            }
        }
    }
}
