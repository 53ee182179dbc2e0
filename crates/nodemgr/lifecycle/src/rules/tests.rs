use super::*;

/// One letter for each verb in the order of [`Verb::ALL`]: start, stop, force-stop, reboot, hibernate, resume, terminate.
/// `=` already, `!` done as asked, `r` done as a resume, `x` refused.
const TABLE: [(State, &str); 8] = [
    (State::Pending, "=xxxx=!"),
    (State::Running, "=!!!!=!"),
    (State::Stopping(Halt::Off), "x=!xxx!"),
    (State::Stopping(Halt::Hibernated), "x=!x=x!"),
    (State::Stopped(Halt::Off), "!==xxx!"),
    (State::Stopped(Halt::Hibernated), "r==x=!!"),
    (State::ShuttingDown, "xxxxxx="),
    (State::Terminated, "xxxxxx="),
];

fn expected(letter: char, verb: Verb) -> Option<Step> {
    match letter {
        '=' => Some(Step::Already),
        '!' => Some(Step::Act(verb)),
        'r' => Some(Step::Act(Verb::Resume)),
        'x' => None,
        other => panic!("no such letter: {other}"),
    }
}

#[test]
fn every_verb_in_every_state_is_as_the_table_says() {
    assert_eq!(TABLE.map(|(state, _)| state), State::ALL);
    for (state, letters) in TABLE {
        assert_eq!(letters.len(), Verb::ALL.len());
        for (letter, verb) in letters.chars().zip(Verb::ALL) {
            let found = decide(state, verb, VerbSet::ALL);
            match expected(letter, verb) {
                Some(step) => assert_eq!(found, Ok(step), "{verb} in {state}"),
                None => assert!(
                    matches!(found, Err(RefusedVerb::Illegal { .. })),
                    "{verb} in {state}: {found:?}"
                ),
            }
        }
    }
}

#[test]
fn what_a_provider_cannot_do_is_refused_where_it_would_be_done_and_only_there() {
    for state in State::ALL {
        for verb in Verb::ALL {
            let Ok(Step::Act(act)) = decide(state, verb, VerbSet::ALL) else {
                assert_eq!(
                    decide(state, verb, VerbSet::NONE),
                    decide(state, verb, VerbSet::ALL)
                );
                continue;
            };
            let found = decide(state, verb, VerbSet::ALL.without(act));
            assert_eq!(found, Err(RefusedVerb::Unsupported { verb: act }));
            let only = VerbSet::of(&[act]);
            assert_eq!(decide(state, verb, only), Ok(Step::Act(act)));
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let refused = decide(State::Stopped(Halt::Off), Verb::Reboot, VerbSet::ALL).unwrap_err();
    let text = refused.to_string();
    assert_eq!(
        text,
        "cannot reboot a machine that is stopped: start it first"
    );
    let refused = decide(State::Running, Verb::Hibernate, VerbSet::NONE).unwrap_err();
    let text = refused.to_string();
    assert_eq!(
        text,
        "the provider of this machine cannot hibernate machines"
    );
}
