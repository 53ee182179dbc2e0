//! Wishes, as they are asked for.

use muster_machine_api::time::NegativeDuration;
use muster_machine_api::{time, v1};
use muster_provider::{Capabilities, UnknownCapability};
use muster_schedule::{Criterion, Policy, Spot, Taint};
use muster_template::{ProviderId, UnknownProvider};
use sha2::{Digest as _, Sha256};

use crate::catalog::{BadField, PLAIN, fields};
use crate::choice::Wish;
use crate::config::criterion;
use crate::wire::UnknownWord;

/// The word for using what there is.
const REUSE: &str = "reuse";

/// A wish that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadWish {
    #[error(transparent)]
    Provider(UnknownProvider),
    #[error(transparent)]
    Field(BadField),
    #[error(transparent)]
    Access(UnknownCapability),
    #[error("what counts first")]
    Prefer(#[source] UnknownWord),
    #[error("how long it must live")]
    RunsFor(#[source] NegativeDuration),
}

pub(super) fn provider(name: &str) -> Result<Option<ProviderId>, BadWish> {
    match name {
        "" => Ok(None),
        name => name.parse().map(Some).map_err(BadWish::Provider),
    }
}

fn read_policy(wish: &v1::Wish, usual: &Policy) -> Result<Policy, BadWish> {
    let read = |word: &String| {
        criterion(word).ok_or_else(|| {
            BadWish::Prefer(UnknownWord {
                word: word.clone(),
                known: "reuse, cost, speed, locality, spread",
            })
        })
    };
    let first: Vec<Criterion> = wish.prefer.iter().map(read).collect::<Result<_, _>>()?;
    let mut policy = match first.is_empty() {
        true => usual.clone(),
        false => {
            let mut policy = Policy::by(&first);
            policy.near.clone_from(&usual.near);
            policy.spot = usual.spot.clone();
            policy
        }
    };
    let types = wish.spot_types.clone();
    match wish.spot() {
        v1::Spot::Unspecified => {}
        v1::Spot::Never => policy.spot = Spot::Never,
        v1::Spot::Prefer => policy.spot = Spot::Prefer { types },
        v1::Spot::Only => policy.spot = Spot::Only { types },
        v1::Spot::Either => policy.spot = Spot::Either,
    }
    Ok(policy)
}

fn taint((key, value): (&String, &String)) -> Taint {
    Taint {
        key: key.clone(),
        value: value.clone(),
    }
}

/// What is configured for wishes that do not say otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usual<'a> {
    pub(crate) policy: &'a Policy,
    /// Whether a machine that is free will do.
    pub(crate) reuse: bool,
    /// Whether one will do that is no barrier.
    pub(crate) insecure: bool,
}

/// A wish over what is configured.
pub(crate) fn read(wish: &v1::Wish, usual: Usual<'_>) -> Result<Wish, BadWish> {
    // Whoever says what counts first says also whether reusing does.
    let reuse = match wish.prefer.as_slice() {
        [] => usual.reuse,
        first => first.iter().any(|it| it == REUSE),
    };
    let access = wish.access.iter().map(|text| text.parse());
    let access: Capabilities = access.collect::<Result<_, _>>().map_err(BadWish::Access)?;
    let runs_for = wish.runs_for.as_ref().map(time::length).transpose();
    Ok(Wish {
        template: match wish.template.as_str() {
            "" => PLAIN.to_owned(),
            name => name.to_owned(),
        },
        provider: provider(&wish.provider)?,
        given: fields(&wish.given).map_err(BadWish::Field)?,
        policy: read_policy(wish, usual.policy)?,
        reuse: wish.reuse || reuse,
        insecure: usual.insecure,
        access,
        runs_for: runs_for.map_err(BadWish::RunsFor)?,
        max_price: wish.max_price,
        tolerates: wish.tolerates.iter().map(taint).collect(),
        lives_for: None,
    })
}

/// A hash of everything that is asked for, as it is written: what is configured may change between two orders that are the same.
pub(super) fn asked(request: &v1::ProvisionRequest) -> String {
    let v1::ProvisionRequest {
        wish,
        labels,
        timers,
        // Which order it is, and how it is waited for, is no property of the machine.
        key: _,
        wait: _,
    } = request;
    let length = |it: &Option<prost_types::Duration>| it.map(|it| (it.seconds, it.nanos));
    let wish = wish.as_ref().map(|wish| {
        let v1::Wish {
            template,
            provider,
            given,
            spot,
            spot_types,
            prefer,
            reuse,
            access,
            runs_for,
            max_price,
            tolerates,
        } = wish;
        let counts = (prefer, reuse, spot, spot_types, max_price, tolerates);
        (template, provider, given, access, length(runs_for), counts)
    });
    let timers = timers.as_ref().map(|timers| {
        let v1::Timers {
            idle,
            when_idle,
            stopped,
            lifetime,
        } = timers;
        (length(idle), when_idle, length(stopped), length(lifetime))
    });
    // Texts, numbers and sorted maps of texts: there is nothing that cannot be written, and one way to write it.
    let written = serde_json::to_vec(&(wish, labels, timers)).unwrap_or_default();
    let digits = Sha256::digest(written).into_iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(policy: &Policy, reuse: bool) -> Usual<'_> {
        Usual {
            policy,
            reuse,
            insecure: false,
        }
    }

    #[test]
    fn a_wish_lies_over_what_is_configured() {
        let policy = Policy::by(&[Criterion::Speed]);
        let usual = usual(&policy, false);
        let empty = read(&v1::Wish::default(), usual).unwrap();
        assert_eq!(empty.template, PLAIN);
        assert_eq!(empty.policy, policy);
        let mut wish = v1::Wish {
            prefer: vec!["cost".to_owned()],
            spot_types: vec!["a".to_owned()],
            ..v1::Wish::default()
        };
        wish.set_spot(v1::Spot::Only);
        let read_wish = read(&wish, usual).unwrap();
        assert_eq!(read_wish.policy.order()[0], Criterion::Cost);
        assert!(matches!(read_wish.policy.spot, Spot::Only { .. }));
    }

    #[test]
    fn whoever_prefers_to_reuse_does_and_taints_are_tolerated_by_name() {
        let policy = Policy::default();
        let never = usual(&policy, false);
        let plain = read(&v1::Wish::default(), never).unwrap();
        assert!(!plain.reuse, "nobody said so");
        // As `policy.prefer` of the configuration says, unless somebody prefers something else.
        let always = usual(&policy, true);
        assert!(read(&v1::Wish::default(), always).unwrap().reuse);
        let cost = v1::Wish {
            prefer: vec!["cost".to_owned()],
            ..v1::Wish::default()
        };
        assert!(!read(&cost, always).unwrap().reuse);
        let wish = v1::Wish {
            prefer: vec!["reuse".to_owned()],
            tolerates: [("gpu".to_owned(), "dear".to_owned())].into(),
            ..v1::Wish::default()
        };
        let wish = read(&wish, never).unwrap();
        assert!(wish.reuse);
        let gpu = Taint {
            key: "gpu".to_owned(),
            value: "dear".to_owned(),
        };
        assert_eq!(wish.tolerates, [gpu].into());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let policy = Policy::default();
        let said = |wish: v1::Wish| read(&wish, usual(&policy, false)).unwrap_err();
        let wish = v1::Wish {
            provider: "vmware".to_owned(),
            ..v1::Wish::default()
        };
        assert!(matches!(said(wish), BadWish::Provider(_)));
        let wish = v1::Wish {
            access: vec!["telnet:exec".to_owned()],
            ..v1::Wish::default()
        };
        assert!(matches!(said(wish), BadWish::Access(_)));
        let wish = v1::Wish {
            prefer: vec!["beauty".to_owned()],
            ..v1::Wish::default()
        };
        assert!(matches!(said(wish), BadWish::Prefer(_)));
    }

    #[test]
    fn orders_are_the_same_if_they_ask_for_the_same() {
        let order = |cpus: &str| v1::ProvisionRequest {
            wish: Some(v1::Wish {
                template: "small".to_owned(),
                given: [("cpus".to_owned(), cpus.to_owned())].into(),
                ..v1::Wish::default()
            }),
            key: "k".to_owned(),
            ..v1::ProvisionRequest::default()
        };
        let first = asked(&order("2"));
        let again = v1::ProvisionRequest {
            key: "other".to_owned(),
            wait: true,
            ..order("2")
        };
        assert_eq!(asked(&again), first, "who waits asks for the same");
        assert_ne!(asked(&order("4")), first);
        let labelled = v1::ProvisionRequest {
            labels: [("name".to_owned(), "a".to_owned())].into(),
            ..order("2")
        };
        assert_ne!(asked(&labelled), first);
        let timers = v1::Timers {
            when_idle: "stop".to_owned(),
            ..v1::Timers::default()
        };
        let timed = v1::ProvisionRequest {
            timers: Some(timers),
            ..order("2")
        };
        assert_ne!(asked(&timed), first);
    }
}
