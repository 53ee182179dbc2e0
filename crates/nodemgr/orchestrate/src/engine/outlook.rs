//! Which jobs may begin now, which may later, and which never will.

use std::collections::BTreeMap;

use muster_lifecycle::Moment;

use super::{Engine, JobPhase, JobState};
use crate::entry::RunOutcome;
use crate::job::{Job, Slot};
use crate::workflow::{Step, When};

/// What will become of a job that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is over, and went well.
    Good,
    /// It is over and did not go well, or it will never begin.
    Lost,
    /// It is under way, or may begin when others are over.
    Open,
    /// It may begin at its time.
    Free,
}

/// What the jobs of a run come to.
pub(super) struct Outlook<'a> {
    /// Jobs that may begin, but for limits and their time.
    free: Vec<(&'a Job, &'a JobState)>,
    /// Whether there is work, under way or to begin.
    open: bool,
    /// Readiness checks and steps under way, and of these each step's.
    busy: u32,
    busy_steps: BTreeMap<&'a str, u32>,
}

impl<'a> Outlook<'a> {
    pub(super) fn of(engine: &'a Engine) -> Self {
        let mut outlook = Self {
            free: Vec::new(),
            open: false,
            busy: 0,
            busy_steps: BTreeMap::new(),
        };
        let mut slots = BTreeMap::new();
        for slot in engine.workflow.slots() {
            let ready = outlook.look_at_slot(engine, &slot);
            slots.insert(slot, ready);
        }
        let mut steps: BTreeMap<&str, Standing> = BTreeMap::new();
        for step in engine.workflow.steps() {
            let standing = outlook.look_at_step(engine, step, &slots, &steps);
            steps.insert(step.name(), standing);
        }
        if !outlook.open {
            outlook.look_at_cleaning(engine);
        }
        outlook
    }

    /// Whether there is work, under way or to begin: cleaning has not begun then.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    fn look_at_slot(&mut self, engine: &'a Engine, slot: &Slot) -> Fate {
        let goes_on = !engine.stopped && engine.is_well();
        let provision = Job::Provision(slot.clone());
        let provision = self.weigh(engine, &provision, |_| match goes_on {
            true => Fate::Free,
            false => Fate::Lost,
        });
        let ready = Job::Ready(slot.clone());
        self.weigh(engine, &ready, |_| match provision {
            _ if !goes_on => Fate::Lost,
            Fate::Good => Fate::Free,
            Fate::Lost => Fate::Lost,
            Fate::Open | Fate::Free => Fate::Open,
        })
    }

    fn look_at_step(
        &mut self,
        engine: &'a Engine,
        step: &'a Step,
        slots: &BTreeMap<Slot, Fate>,
        before: &BTreeMap<&str, Standing>,
    ) -> Standing {
        let needs = step.needs.iter();
        let needs = needs.filter_map(|name| before.get(name.as_str()));
        let needs = needs.fold(Standing::GOOD, |all, it| all.and(*it));
        let mut standing = Standing::GOOD;
        for slot in engine.workflow.slots_of_step(step) {
            let ready = slots.get(&slot).copied().unwrap_or(Fate::Lost);
            let step_name = step.name().into();
            let job = Job::Work {
                step: step_name,
                slot,
            };
            let fate = self.weigh(engine, &job, |_| {
                if engine.stopped {
                    return Fate::Lost;
                }
                let wanted = match step.when {
                    When::Success => engine.is_well() && (!needs.settled || needs.good),
                    When::Always => true,
                };
                match ready {
                    _ if !wanted => Fate::Lost,
                    Fate::Lost => Fate::Lost,
                    Fate::Good if needs.settled => Fate::Free,
                    Fate::Good | Fate::Open | Fate::Free => Fate::Open,
                }
            });
            standing = standing.and(Standing {
                settled: matches!(fate, Fate::Good | Fate::Lost),
                good: fate == Fate::Good,
            });
        }
        standing
    }

    fn look_at_cleaning(&mut self, engine: &'a Engine) {
        for slot in engine.workflow.slots() {
            let asked = engine.jobs.get(&Job::Provision(slot.clone()));
            if !asked.is_some_and(|state| state.begun) {
                continue;
            }
            let clean = Job::Clean(slot);
            if let Some((job, state)) = engine.jobs.get_key_value(&clean)
                && matches!(state.phase, JobPhase::Waiting { .. })
            {
                self.free.push((job, state));
            }
        }
    }

    /// What will become of a job; `waiting` says it of one that waits.
    fn weigh(
        &mut self,
        engine: &'a Engine,
        job: &Job,
        waiting: impl FnOnce(&JobState) -> Fate,
    ) -> Fate {
        let Some((job, state)) = engine.jobs.get_key_value(job) else {
            return Fate::Lost;
        };
        let fate = match &state.phase {
            JobPhase::Done => Fate::Good,
            JobPhase::Failed(_) | JobPhase::Aborted => Fate::Lost,
            JobPhase::Running { .. } => Fate::Open,
            JobPhase::Waiting { .. } => waiting(state),
        };
        if state.is_running() && !matches!(job, Job::Provision(_)) {
            self.busy += 1;
            if let Some(step) = job.step() {
                *self.busy_steps.entry(step).or_default() += 1;
            }
        }
        self.open |= matches!(fate, Fate::Open | Fate::Free);
        if fate == Fate::Free {
            self.free.push((job, state));
        }
        fate
    }

    /// How the run ended, if nothing is left to be done.
    pub(super) fn conclusion(&self, engine: &Engine) -> Option<RunOutcome> {
        let done = !self.open && self.free.is_empty() && engine.running == 0;
        done.then(|| engine.verdict.clone().unwrap_or(RunOutcome::Succeeded))
    }

    /// What begins now, within all limits, and when the next one's time comes.
    pub(super) fn begin(
        &self,
        engine: &Engine,
        now: Moment,
    ) -> (Vec<(&'a Job, u32)>, Option<Moment>) {
        let mut busy = self.busy;
        let mut busy_steps = self.busy_steps.clone();
        let mut begin = Vec::new();
        let mut later: Option<Moment> = None;
        for &(job, state) in &self.free {
            if let JobPhase::Waiting { until } = state.phase
                && until > now
            {
                later = Some(later.map_or(until, |at| at.min(until)));
                continue;
            }
            if matches!(job, Job::Ready(_) | Job::Work { .. }) {
                if busy >= engine.workflow.parallel {
                    continue;
                }
                if let Some(step) = job.step().and_then(|name| engine.workflow.step(name)) {
                    let count = busy_steps.entry(step.name()).or_default();
                    if *count >= step.parallel {
                        continue;
                    }
                    *count += 1;
                }
                busy += 1;
            }
            begin.push((job, state.attempt));
        }
        (begin, later)
    }
}

/// What a step's jobs come to together.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// None is under way, and none will begin.
    settled: bool,
    /// All went well.
    good: bool,
}

impl Standing {
    const GOOD: Self = Self {
        settled: true,
        good: true,
    };

    const fn and(self, other: Self) -> Self {
        Self {
            settled: self.settled && other.settled,
            good: self.good && other.good,
        }
    }
}
