//! What may be asked of an instance, by EC2's rules, before it is asked. Pure.

use muster_lifecycle::{RefusedVerb, Step, Verb, VerbSet, decide};
use muster_provider::FailureClass;

use crate::ec2::Instance;

/// Why a verb is refused before EC2 is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerbProblem {
    /// By the rules of every machine.
    #[error(transparent)]
    Rules(#[from] RefusedVerb),
    /// EC2 stops no spot machine that was asked for once.
    #[error(
        "cannot {0} a spot machine: EC2 only lets it run or takes it away; terminate it instead"
    )]
    Spot(Verb),
    /// It was not made so that it can be hibernated.
    #[error(
        "the machine was not made so that it can be hibernated: that is said at its order, by hibernation: true"
    )]
    NotMadeForIt,
}

impl VerbProblem {
    /// What it means for whoever asked.
    pub(crate) const fn class(self) -> FailureClass {
        match self {
            Self::Rules(RefusedVerb::Unsupported { .. }) => FailureClass::Unsupported,
            Self::Rules(RefusedVerb::Illegal { .. } | RefusedVerb::NotThisOne { .. })
            | Self::Spot(_)
            | Self::NotMadeForIt => FailureClass::Refused,
        }
    }
}

/// What can be asked of an instance, of what is offered at all.
pub(crate) fn offered(instance: &Instance, of_all: VerbSet) -> VerbSet {
    let without = |set: VerbSet, verbs: &[Verb]| verbs.iter().fold(set, |set, &it| set.without(it));
    match instance {
        Instance { spot: true, .. } => without(
            of_all,
            &[
                Verb::Start,
                Verb::Stop,
                Verb::ForceStop,
                Verb::Hibernate,
                Verb::Resume,
            ],
        ),
        Instance {
            can_hibernate: false,
            ..
        } => without(of_all, &[Verb::Hibernate, Verb::Resume]),
        _ => of_all,
    }
}

/// What to do about a verb.
pub(crate) fn plan(instance: &Instance, verb: Verb, of_all: VerbSet) -> Result<Step, VerbProblem> {
    let step = decide(instance.state, verb, of_all)?;
    match step {
        Step::Act(act) if !offered(instance, of_all).has(act) => match instance.spot {
            true => Err(VerbProblem::Spot(verb)),
            false => Err(VerbProblem::NotMadeForIt),
        },
        step => Ok(step),
    }
}

#[cfg(test)]
mod tests {
    use muster_lifecycle::{Halt, State};

    use super::*;

    fn instance(state: State, spot: bool, can_hibernate: bool) -> Instance {
        Instance {
            id: "i-1".to_owned(),
            state,
            state_reason: None,
            kind: None,
            image: None,
            zone: None,
            spot,
            can_hibernate,
            public_address: None,
            private_address: None,
            tags: Default::default(),
        }
    }

    /// Every verb, in every state, of every sort of machine: what EC2 would refuse is never asked.
    #[test]
    fn what_ec2_would_refuse_is_refused_before() {
        let sorts = [(false, false), (false, true), (true, false), (true, true)];
        for (state, verb) in State::ALL
            .into_iter()
            .flat_map(|state| Verb::ALL.map(|verb| (state, verb)))
        {
            for (spot, can_hibernate) in sorts {
                let machine = instance(state, spot, can_hibernate);
                let step = plan(&machine, verb, VerbSet::ALL);
                let claimed = offered(&machine, VerbSet::ALL);
                let Ok(Step::Act(act)) = step else {
                    continue;
                };
                assert!(claimed.has(act), "what is done is claimed: {state} {verb}");
                let stops = matches!(act, Verb::Stop | Verb::ForceStop | Verb::Hibernate);
                assert!(!(spot && stops), "{state} {verb}");
                assert!(act != Verb::Hibernate || can_hibernate, "{state} {verb}");
                assert!(!state.is_ending(), "{state} {verb}");
            }
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let spot = instance(State::Running, true, false);
        let error = plan(&spot, Verb::Stop, VerbSet::ALL).unwrap_err();
        assert_eq!(error.class(), FailureClass::Refused);
        assert!(error.to_string().contains("spot machine"), "{error}");
        let plain = instance(State::Running, false, false);
        let error = plan(&plain, Verb::Hibernate, VerbSet::ALL).unwrap_err();
        assert!(error.to_string().contains("hibernation: true"), "{error}");
        let without = VerbSet::ALL.without(Verb::Hibernate);
        let error = plan(&plain, Verb::Hibernate, without).unwrap_err();
        assert_eq!(error.class(), FailureClass::Unsupported);
        let stopped = instance(State::Stopped(Halt::Off), true, false);
        assert_eq!(plan(&stopped, Verb::Stop, VerbSet::ALL), Ok(Step::Already));
    }
}
