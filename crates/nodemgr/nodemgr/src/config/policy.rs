//! What counts when a machine is chosen, and when it is put away.

use muster_config::{Duration, Problems};
use muster_lifecycle::timers::{Timers, WhenIdle};
use muster_schedule::{Criterion, Policy, Spot};
use muster_template::ProviderId;
use serde::Deserialize;

/// What counts when a machine is chosen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawPolicy {
    /// What counts first: reuse, cost, speed, locality, spread. The others follow in this order. With reuse among them, whoever orders
    /// one without a name, labels or a key is given one of the template that is free, stopped or hibernated; runs and pools make
    /// their own all the same.
    pub prefer: Vec<String>,
    /// What to think of spot machines: never, prefer, only or either.
    pub spot: Option<String>,
    /// Types of spot machines that will do, the best first.
    pub spot_types: Vec<String>,
    /// Regions, the nearest first.
    pub near: Vec<String>,
    /// Whether a machine that is no barrier, such as this one, may be chosen though nobody named its provider.
    pub insecure: bool,
}

/// When machines are put away. None of these runs unless it is set; 0 takes back what was set for all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawTimers {
    /// How long a running machine may have no work.
    pub idle: Option<Duration>,
    /// What happens to it then: stop, hibernate or terminate.
    pub when_idle: Option<String>,
    /// How long a machine may be stopped before it is destroyed.
    pub stopped: Option<Duration>,
    /// How long it may live.
    pub lifetime: Option<Duration>,
}

/// The word of a criterion.
#[must_use]
pub(crate) fn criterion(word: &str) -> Option<Criterion> {
    Some(match word {
        "reuse" => Criterion::Reuse,
        "cost" => Criterion::Cost,
        "speed" => Criterion::Speed,
        "locality" => Criterion::Locality,
        "spread" => Criterion::Spread,
        _ => return None,
    })
}

/// The word of what becomes of an idle machine.
#[must_use]
pub(crate) fn when_idle(word: &str) -> Option<WhenIdle> {
    Some(match word {
        "stop" => WhenIdle::Stop,
        "hibernate" => WhenIdle::Hibernate,
        "terminate" => WhenIdle::Terminate,
        _ => return None,
    })
}

/// A provider by its name, if one is named.
pub(super) fn provider(
    key: &str,
    name: Option<&str>,
    problems: &mut Problems<'_>,
) -> Option<Option<ProviderId>> {
    let Some(name) = name else {
        return Some(None);
    };
    match name.parse() {
        Ok(provider) => Some(Some(provider)),
        Err(error) => {
            let error: muster_template::UnknownProvider = error;
            problems.report(key, error);
            None
        }
    }
}

impl RawPolicy {
    pub(super) fn policy(&self, problems: &mut Problems<'_>) -> Option<Policy> {
        let mut order = Vec::new();
        for word in &self.prefer {
            match criterion(word) {
                Some(criterion) => order.push(criterion),
                None => {
                    let said = "must name reuse, cost, speed, locality or spread";
                    problems.report("policy.prefer", said);
                }
            }
        }
        let types = self.spot_types.clone();
        let spot = match self.spot.as_deref() {
            None | Some("never") => Spot::Never,
            Some("prefer") => Spot::Prefer { types },
            Some("only") => Spot::Only { types },
            Some("either") => Spot::Either,
            Some(_) => {
                problems.report("policy.spot", "must be never, prefer, only or either");
                return None;
            }
        };
        let mut policy = Policy::by(&order);
        policy.spot = spot;
        policy.near.clone_from(&self.near);
        Some(policy)
    }
}

impl RawTimers {
    /// Over what is usual.
    pub(super) fn timers(&self, usual: &Timers, problems: &mut Problems<'_>) -> Option<Timers> {
        let when_idle = match self.when_idle.as_deref() {
            None => usual.when_idle,
            Some(word) => match when_idle(word) {
                Some(known) => known,
                None => {
                    problems.report("whenIdle", "must be stop, hibernate or terminate");
                    return None;
                }
            },
        };
        let over = |given: Option<Duration>, usual| match given {
            Some(given) => Some(given.get()).filter(|time| !time.is_zero()),
            None => usual,
        };
        Some(Timers {
            idle: over(self.idle, usual.idle),
            when_idle,
            stopped: over(self.stopped, usual.stopped),
            lifetime: over(self.lifetime, usual.lifetime),
        })
    }
}
