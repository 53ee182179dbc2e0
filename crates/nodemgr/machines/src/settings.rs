//! How patient the registry is.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_lifecycle::Verb;
use muster_provider::{ProviderId, Quota};

use crate::book::Call;

/// How much longer than its grace a stop may take: the provider has to kill what is left, and to be asked and answer.
const AFTER_GRACE: Duration = Duration::from_secs(60);

/// How patient the registry is, and how much it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often machines on their way are looked at.
    pub poll: Duration,
    /// How often all machines are looked at.
    pub sweep: Duration,
    /// How long a graceful stop may take before it is forced.
    pub stop_grace: Duration,
    /// How often an order, or a verb, is tried before it is given up, or a refusal to hibernate is believed. Destroying is never
    /// given up, nor is what gets on.
    pub attempts: u32,
    /// How long to wait after the first failure; doubled with each.
    pub retry: Duration,
    /// The longest such wait.
    pub retry_longest: Duration,
    /// The longest time that timers and pools leave a machine alone with which nothing could be done. They begin with
    /// [`sweep`](Self::sweep), doubled with each time.
    pub rest_longest: Duration,
    /// How long a machine of a pool that does not answer is kept if nobody ever used it. Its pool has replaced it meanwhile.
    pub silence: Duration,
    /// How long a call may take. Its answer counts as lost then. One that stops a machine may take as long as that is granted,
    /// and a little more: some providers answer only when it is done.
    pub call: Duration,
    /// An order that was interrupted by a crash is carried on if it is not older; what may have been made of an older one is
    /// destroyed.
    pub carry_on: Duration,
    /// How long a provider may take until a new machine is in its lists.
    pub settle: Duration,
    /// How long machines that are gone are remembered.
    pub remember: Duration,
    /// How many calls of one provider run at once.
    pub calls: usize,
    /// How many machines there may be, those that are gone and remembered among them.
    pub machines: usize,
    /// How much of each provider may be used. An order that would pass it is not taken.
    pub quotas: BTreeMap<ProviderId, Quota>,
    /// The providers that are wanted and cannot be used as things are, each with the reason.
    pub unusable: BTreeMap<ProviderId, String>,
    /// How many events are kept.
    pub events: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
            stop_grace: Duration::from_secs(90),
            attempts: 5,
            retry: Duration::from_secs(1),
            retry_longest: Duration::from_secs(60),
            rest_longest: Duration::from_secs(60 * 60),
            silence: Duration::from_secs(10 * 60),
            call: Duration::from_secs(300),
            carry_on: Duration::from_secs(15 * 60),
            settle: Duration::from_secs(30),
            remember: Duration::from_secs(60 * 60),
            calls: 64,
            machines: 10_000,
            quotas: BTreeMap::new(),
            unusable: BTreeMap::new(),
            events: 10_000,
        }
    }
}

impl Settings {
    /// The wait after so many failures in a row.
    pub(crate) fn wait_after(&self, failures: u32) -> Duration {
        doubled(self.retry, failures, self.retry_longest)
    }

    /// How long a machine is left alone after so many times in a row that nothing could be done with it.
    pub(crate) fn rest_after(&self, times: u32) -> Duration {
        doubled(self.sweep, times, self.rest_longest)
    }

    /// How long a call may take.
    pub(crate) fn longest(&self, call: &Call) -> Duration {
        match call {
            Call::Act(_, _, Verb::Stop | Verb::Reboot) => {
                self.call.max(self.stop_grace.saturating_add(AFTER_GRACE))
            }
            _ => self.call,
        }
    }
}

/// The first wait, doubled with each time after the first, up to the longest.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let by = 1 << times.saturating_sub(1).min(16);
    first.saturating_mul(by).min(longest.max(first))
}

#[cfg(test)]
mod tests {
    use muster_provider::{ClientToken, MachineId, ManagerId, Mark, Owned, ResourceId};

    use super::*;

    #[test]
    fn waits_grow_to_their_bound() {
        let settings = Settings::default();
        let waits = [0, 1, 2, 3, 7, u32::MAX].map(|count| settings.wait_after(count).as_secs());
        assert_eq!(waits, [1, 1, 2, 4, 60, 60]);
    }

    #[test]
    fn a_call_that_stops_a_machine_lasts_longer_than_its_grace() {
        let settings = Settings {
            stop_grace: Duration::from_secs(3600),
            ..Settings::default()
        };
        let (id, token) = (MachineId::random(), ClientToken::random());
        let owned = Owned {
            resource: ResourceId::new("a").unwrap(),
            mark: Mark {
                manager: ManagerId::new("manager").unwrap(),
                machine: id.clone(),
                token,
            },
        };
        let longest = |settings: &Settings, verb| {
            settings.longest(&Call::Act(id.clone(), owned.clone(), verb))
        };
        for verb in [Verb::Stop, Verb::Reboot] {
            assert!(longest(&settings, verb) > settings.stop_grace, "{verb}");
            // A grace that fits leaves a call its time.
            assert_eq!(longest(&Settings::default(), verb), settings.call);
        }
        for verb in [Verb::Start, Verb::ForceStop, Verb::Hibernate] {
            assert_eq!(longest(&settings, verb), settings.call, "{verb}");
        }
        let endless = Settings {
            stop_grace: Duration::MAX,
            ..settings
        };
        assert_eq!(longest(&endless, Verb::Stop), Duration::MAX);
    }
}
