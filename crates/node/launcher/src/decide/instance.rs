//! One instance: what the controller wants of it, what there is of it, and the next step from one to the other.

mod fetch;
mod run;

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosError, Digest, EnvVar, InstanceInfo, InstanceStatus, ItemId};
use muster_runtime::{RunId, RunState};

use super::saved::{Known, Rejected, Row, Setback};
use super::{Facts, Now, failed};
use crate::crashes::Crashes;
use crate::limits::Limits;
use crate::target::{Refused, Target};

/// What there is of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Have {
    /// Nothing.
    #[default]
    Nothing,
    /// A start under way.
    Starting {
        target: Arc<Target>,
        run: RunId,
        facts: Facts,
        /// What its runtime already told about this run.
        told: Option<RunState>,
    },
    /// Something that the init system runs.
    Up(Up),
    /// A stop under way.
    Stopping {
        target: Arc<Target>,
        run: RunId,
        since: Duration,
    },
    /// What is left of a run that ended with the machine or while nobody looked: to be removed before anything else.
    Left { target: Arc<Target>, run: RunId },
    /// A stop that failed.
    Stuck {
        target: Arc<Target>,
        run: RunId,
        retry: Duration,
        /// Why. Of nothing else: whoever is not wanted any more has no other fault to tell.
        fault: AosError,
    },
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Up {
    pub(super) target: Arc<Target>,
    pub(super) run: RunId,
    pub(super) pulse: Pulse,
    /// When it last began to run, as far as is known.
    pub(super) since: Duration,
    /// How many of its ends were counted.
    pub(super) ends: u32,
    pub(super) facts: Facts,
    /// It has to be stopped for this reason.
    pub(super) given_up: Option<AosError>,
}

/// How a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    Starting,
    Running,
    Restarting,
}

/// What a start has not found around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotYet {
    /// What it is.
    pub(super) fault: AosError,
    /// How often it was looked for in vain since there was last any hope of it.
    tries: u32,
}

/// How far the image is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Fetch {
    #[default]
    Nothing,
    /// For a free place.
    Waiting {
        since: Duration,
    },
    Working {
        target: Arc<Target>,
        /// Since when others wait for it, also while it waited itself.
        since: Duration,
    },
    Done {
        target: Arc<Target>,
        facts: Facts,
    },
    Failed {
        target: Arc<Target>,
        fault: AosError,
        retry: Duration,
    },
}

/// An instance.
#[derive(Debug, Default)]
pub(super) struct Instance {
    pub(super) goal: Option<Arc<InstanceInfo>>,
    /// The goal with its overrides.
    aim: Option<Arc<Target>>,
    /// What it shall be now: the aim, the last good version, or nothing.
    pub(super) want: Option<Arc<Target>>,
    /// Why nothing is wanted although there is a goal.
    pub(super) held: Option<AosError>,
    pub(super) good: Option<Arc<Target>>,
    pub(super) rejected: Option<Rejected>,
    pub(super) fetch: Fetch,
    failed_fetches: Crashes,
    pub(super) have: Have,
    /// What of the node only so many may have, and what there is of it has.
    pub(super) holds: Vec<String>,
    pub(super) crashes: Crashes,
    /// Why it is being stopped, if not because it is no longer wanted.
    after_stop: Option<AosError>,
    /// Not started before.
    pub(super) not_before: Option<Duration>,
    /// For how long it was given up, if that is why it is not started.
    given_up_for: Option<Duration>,
    /// What it waits for; no fault of its own.
    pub(super) not_yet: Option<NotYet>,
    /// The controller's last wish for it makes no sense; the one before holds.
    pub(super) refused: Option<Refused>,
    /// What went wrong last.
    pub(super) fault: Option<AosError>,
    /// What it last was, for the report of its end.
    pub(super) last: Option<Arc<InstanceInfo>>,
    pub(super) reported: Option<InstanceStatus>,
    pub(super) saved: Option<Row>,
}

impl Have {
    /// What it is made of, and which run.
    pub(super) fn target(&self) -> Option<(&Arc<Target>, RunId)> {
        match self {
            Self::Nothing => None,
            Self::Starting { target, run, .. }
            | Self::Stopping { target, run, .. }
            | Self::Left { target, run }
            | Self::Stuck { target, run, .. } => Some((target, *run)),
            Self::Up(up) => Some((&up.target, up.run)),
        }
    }
}

impl Instance {
    /// As it was written down, with nothing running. A wait begins anew: nobody knows how much of it has passed.
    pub(super) fn from_row(row: &Row, now: Now) -> Self {
        let (wait, fault) = row.setback.given_up.clone().unzip();
        Self {
            crashes: row.setback.crashes,
            given_up_for: wait,
            not_before: wait.map(|wait| now.awake + wait),
            fault,
            goal: row.goal.clone(),
            good: row.good.clone(),
            rejected: row.rejected.clone(),
            last: row.goal.clone(),
            ..Self::default()
        }
    }

    pub(super) fn set_goal(&mut self, goal: Option<InstanceInfo>) {
        let unchanged = match (&self.goal, &goal) {
            (Some(old), Some(new)) => **old == *new,
            (old, new) => old.is_none() && new.is_none(),
        };
        if unchanged {
            return;
        }
        self.goal = goal.map(Arc::new);
        if let Some(goal) = &self.goal {
            self.last = Some(Arc::clone(goal));
        }
    }

    pub(super) fn priority(&self) -> u64 {
        self.want.as_ref().map_or(0, |want| want.info.priority)
    }

    /// Whether what it wants is there, or on its way.
    pub(super) fn has_what_it_wants(&self) -> bool {
        match &self.have {
            Have::Starting { target, .. } => self.want.as_ref() == Some(target),
            Have::Up(up) => self.want.as_ref() == Some(&up.target) && up.given_up.is_none(),
            Have::Nothing | Have::Stopping { .. } | Have::Left { .. } | Have::Stuck { .. } => false,
        }
    }

    /// What it needs of the node that only so many may have, as far as that is known.
    pub(super) fn scarce(&self) -> &[String] {
        match &self.fetch {
            Fetch::Done { facts, .. } => &facts.scarce,
            _ => &[],
        }
    }

    /// Items whose instances start before it, as far as that is known.
    pub(super) fn after(&self) -> &[ItemId] {
        match &self.fetch {
            Fetch::Done { facts, .. } if self.want.is_some() => &facts.after,
            _ => &[],
        }
    }

    /// How long what runs may be on its own, whatever shall replace it; or else what would run.
    pub(super) fn offline_ttl(&self) -> Option<Duration> {
        match (&self.have, &self.fetch) {
            (Have::Up(up), _) => up.facts.offline_ttl,
            (_, Fetch::Done { facts, .. }) => facts.offline_ttl,
            _ => None,
        }
    }

    /// Makes out what it shall be now.
    pub(super) fn aim(
        &mut self,
        env_override: Vec<EnvVar>,
        offline: Option<Duration>,
        limits: &Limits,
        now: Now,
    ) {
        let same = |target: &Target| {
            self.goal.as_deref() == Some(&target.info) && target.env_override == env_override
        };
        if !self.aim.as_deref().is_some_and(same) {
            let aim = self.goal.as_ref().map(|goal| Target {
                info: (**goal).clone(),
                env_override,
            });
            if self.aim.is_some() || aim.is_none() {
                // Something new gets a fresh chance.
                self.crashes = Crashes::default();
                self.failed_fetches = Crashes::default();
                self.not_before = None;
                self.given_up_for = None;
                self.not_yet = None;
                self.fault = None;
            }
            self.aim = aim.map(Arc::new);
        }
        self.rejected
            .take_if(|it| Some(&it.target) != self.aim.as_ref());
        self.note_health(limits, now);
        self.want = match (&self.rejected, &self.good, &self.aim) {
            // What was set for a while when it was good may be over.
            (Some(_), Some(good), Some(aim)) => Some(Target::with(good, &aim.env_override)),
            _ => self.aim.clone(),
        };
        self.held = None;
        if let (Some(ttl), Some(away)) = (self.offline_ttl(), offline)
            && away >= ttl
            && self.want.take().is_some()
        {
            self.held = Some(failed(format!(
                "on its own for {} s, and the item may run offline for {} s only",
                away.as_secs(),
                ttl.as_secs()
            )));
        }
    }

    fn note_health(&mut self, limits: &Limits, now: Now) {
        if let Have::Up(up) = &self.have
            && up.pulse == Pulse::Running
            && up.given_up.is_none()
        {
            let lasts = now.awake.saturating_sub(up.since);
            if lasts >= up.facts.forgiven_after(limits) {
                self.crashes.forgive();
            }
            if lasts >= up.facts.healthy_after(limits) {
                self.fault = None;
                if !self.is_good(&up.target) {
                    self.good = Some(Arc::clone(&up.target));
                }
            }
        }
    }

    /// Whether this is what last ran well, whatever was set over it for a while.
    fn is_good(&self, target: &Target) -> bool {
        let good = self.good.as_ref();
        good.is_some_and(|good| good.info == target.info)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.goal.is_none() && self.have == Have::Nothing
    }

    /// Whether the last update has done with it what it could.
    pub(super) fn is_settled(&self) -> bool {
        let fetch_failed = matches!(self.fetch, Fetch::Failed { .. });
        match &self.have {
            Have::Nothing => {
                let waits = self.fault.is_some() || self.not_yet.is_some();
                self.held.is_some()
                    || self.not_before.is_some() && waits
                    || fetch_failed
                    || self.goal.is_none()
            }
            Have::Up(up) => {
                let as_wanted = self.want.as_ref() == Some(&up.target) || fetch_failed;
                as_wanted && up.pulse == Pulse::Running && up.given_up.is_none()
            }
            Have::Stuck { .. } => true,
            Have::Starting { .. } | Have::Stopping { .. } | Have::Left { .. } => false,
        }
    }

    /// Images that it runs, wants, or would go back to.
    pub(super) fn manifests(&self) -> impl Iterator<Item = Digest> {
        let have = self.have.target().map(|(target, _)| target);
        let targets = [
            have,
            self.aim.as_ref(),
            self.want.as_ref(),
            self.good.as_ref(),
        ];
        let digests: Vec<Digest> = targets
            .into_iter()
            .flatten()
            .map(|target| target.info.manifest_digest)
            .collect();
        digests.into_iter()
    }

    fn known(&self) -> Known {
        match &self.have {
            Have::Up(up) => Known {
                ends: up.ends,
                offline_ttl: up.facts.offline_ttl,
                policy: Some(up.facts.policy),
            },
            Have::Starting { facts, .. } => Known {
                ends: 0,
                offline_ttl: facts.offline_ttl,
                policy: Some(facts.policy),
            },
            // It is on its way out, and nothing of this matters any more.
            Have::Nothing | Have::Stopping { .. } | Have::Left { .. } | Have::Stuck { .. } => {
                Known::default()
            }
        }
    }

    pub(super) fn row(&self) -> Row {
        let running = self.have.target();
        Row {
            goal: self.goal.clone(),
            good: self.good.clone(),
            rejected: self.rejected.clone(),
            running: running.map(|(target, run)| (Arc::clone(target), run)),
            known: self.known(),
            setback: Setback {
                crashes: self.crashes,
                given_up: self.given_up_for.zip(self.fault.clone()),
            },
        }
    }

    /// When something is due although nothing happens.
    pub(super) fn deadline(&self, limits: &Limits, now: Now) -> Option<Duration> {
        let (mut health, mut forgiven) = (None, None);
        if let Have::Up(up) = &self.have
            && up.pulse == Pulse::Running
        {
            let is_new = !self.is_good(&up.target);
            health = is_new.then(|| up.since + up.facts.healthy_after(limits));
            let has_ended = self.crashes != Crashes::default();
            forgiven = has_ended.then(|| up.since + up.facts.forgiven_after(limits));
        }
        let stop = match &self.have {
            Have::Stuck { retry, .. } => Some(*retry),
            // Then somebody else may be stopped.
            Have::Stopping { since, .. } => Some(*since + limits.stop_patience),
            _ => None,
        };
        let fetch = match &self.fetch {
            Fetch::Waiting { since } | Fetch::Working { since, .. } => {
                Some(*since + limits.order_patience)
            }
            Fetch::Failed { retry, .. } => Some(*retry),
            _ => None,
        };
        [health, forgiven, stop, fetch, self.not_before]
            .into_iter()
            .flatten()
            .filter(|due| *due > now.awake)
            .min()
    }
}
