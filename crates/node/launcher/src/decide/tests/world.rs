//! A machine of make-believe under the decider: it keeps what runs and what was written down when the decider dies.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use muster_api::domain::{AosCode, AosError, InstanceIdent, InstanceState, InstanceStatus};
use muster_runtime::{Adopted, Ended, RunEvent, RunId, RunPolicy, RunState};

use super::super::*;

pub(super) struct World {
    decider: Decider,
    limits: Limits,
    now: Now,
    rows: BTreeMap<InstanceIdent, Row>,
    overrides: Vec<EnvOverride>,
    offline: Duration,
    knows_cloud: bool,
    next_run: RunId,
    /// What runs, whoever decides.
    pub(super) running: BTreeMap<InstanceIdent, (Arc<Target>, RunId)>,
    /// Begun and not ended.
    pub(super) actions: Vec<Effect>,
    pub(super) reports: Vec<InstanceStatus>,
    pub(super) settled: Vec<Vec<InstanceStatus>>,
    pub(super) starts: usize,
    pub(super) stops: usize,
    /// The next action fails.
    pub(super) fail_next: bool,
    /// Starts of this one find something missing around them.
    pub(super) not_yet: Option<InstanceIdent>,
    /// What each item depends on.
    pub(super) after: BTreeMap<String, Vec<String>>,
    /// What of the node each item needs for itself.
    pub(super) scarce: BTreeMap<String, Vec<String>>,
    pub(super) offline_ttl: Option<Duration>,
    /// Images that nobody can say anything about any more.
    pub(super) damaged: bool,
    /// How often each run has ended and was started again.
    restarts: BTreeMap<RunId, u32>,
    /// What items say of how ends are counted, if not the usual.
    pub(super) policy: Option<RunPolicy>,
    /// What was last said to be needed of images.
    pub(super) kept: BTreeSet<Digest>,
    used_runs: BTreeSet<(InstanceIdent, RunId)>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        let now = Now {
            awake: Duration::ZERO,
            steady: Duration::ZERO,
            wall: UNIX_EPOCH + Duration::from_secs(1000),
        };
        Self {
            decider: Decider::new(limits.clone(), now),
            limits,
            now,
            rows: BTreeMap::new(),
            overrides: Vec::new(),
            offline: Duration::ZERO,
            knows_cloud: false,
            next_run: RunId::default(),
            running: BTreeMap::new(),
            actions: Vec::new(),
            reports: Vec::new(),
            settled: Vec::new(),
            starts: 0,
            stops: 0,
            fail_next: false,
            not_yet: None,
            after: BTreeMap::new(),
            scarce: BTreeMap::new(),
            offline_ttl: None,
            damaged: false,
            restarts: BTreeMap::new(),
            policy: None,
            kept: BTreeSet::new(),
            used_runs: BTreeSet::new(),
        }
    }

    /// The clock on the wall, and no other.
    pub(super) fn set_clock_back(&mut self, by: Duration) {
        self.now.wall -= by;
    }

    pub(super) fn event(&mut self, event: Event) {
        let step = self.decider.step(event, self.now);
        self.take(step);
    }

    fn take(&mut self, step: Step) {
        for change in step.changes {
            match change {
                Change::Put(ident, row) => {
                    self.rows.insert(ident, *row);
                }
                Change::Remove(ident) => {
                    self.rows.remove(&ident);
                }
                Change::Overrides(overrides) => self.overrides = overrides,
                Change::Offline(offline) => self.offline = offline,
                Change::KnowsCloud => self.knows_cloud = true,
                Change::NextRun(run) => self.next_run = run,
            }
        }
        for effect in step.effects {
            match effect {
                Effect::StopFetching(ident) => self
                    .actions
                    .retain(|it| !matches!(it, Effect::Fetch(target) if *target.ident() == ident)),
                Effect::Report(statuses) => self.reports.extend(statuses),
                Effect::Settled(all) => self.settled.push(all),
                Effect::Keep(kept) => self.kept = kept,
                Effect::Start { ref target, run } => {
                    let fresh = self.used_runs.insert((target.ident().clone(), run));
                    assert!(fresh, "run {run:?} of {} was used before", target.ident());
                    let row = &self.rows[target.ident()];
                    assert_eq!(
                        row.running.as_ref(),
                        Some(&(Arc::clone(target), run)),
                        "written down first"
                    );
                    self.actions.push(effect);
                }
                other => self.actions.push(other),
            }
        }
        self.assert_kept();
        for (index, one) in self.actions.iter().enumerate() {
            let twice = self.actions[..index]
                .iter()
                .any(|other| Self::subject(one) == Self::subject(other));
            assert!(
                !twice || matches!(one, Effect::Fetch(_)) != self.has_other_fetch(index),
                "two actions at a time on {:?}",
                Self::subject(one)
            );
        }
    }

    /// No image goes that runs, is wanted, or would be gone back to.
    fn assert_kept(&self) {
        let running = self.running.values().map(|(target, _)| &target.info);
        let wanted = self.rows.values().filter_map(|row| row.goal.as_deref());
        let good = self.rows.values().filter_map(|row| row.good.as_deref());
        let needed = running.chain(wanted).chain(good.map(|good| &good.info));
        for info in needed {
            let (ident, version) = (&info.instance, &info.version);
            let kept = self.kept.contains(&info.manifest_digest);
            assert!(kept, "the image of {ident} {version} may be collected");
        }
    }

    fn has_other_fetch(&self, index: usize) -> bool {
        let subject = Self::subject(&self.actions[index]);
        self.actions[..index]
            .iter()
            .any(|it| matches!(it, Effect::Fetch(_)) && Self::subject(it) == subject)
    }

    fn subject(effect: &Effect) -> Option<&InstanceIdent> {
        match effect {
            Effect::Fetch(target) | Effect::Start { target, .. } | Effect::Stop { target, .. } => {
                Some(target.ident())
            }
            _ => None,
        }
    }

    /// Time passes; the decider is woken when it wants to be.
    pub(super) fn pass(&mut self, time: Duration) {
        let mut left = time;
        while let Some(due_in) = self.decider.due_in(self.now).filter(|it| *it <= left) {
            assert!(!due_in.is_zero(), "a deadline that passes at once");
            self.advance(due_in);
            left -= due_in;
            self.event(Event::Tick);
        }
        self.advance(left);
        self.event(Event::Tick);
    }

    /// The machine sleeps for so long.
    pub(super) fn sleep(&mut self, time: Duration) {
        self.now.steady += time;
        self.now.wall += time;
        self.event(Event::Tick);
    }

    fn advance(&mut self, time: Duration) {
        self.now.awake += time;
        self.now.steady += time;
        self.now.wall += time;
    }

    pub(super) fn tell(&mut self, ident: &InstanceIdent, state: RunState) {
        if let Some((_, run)) = self.running.get(ident) {
            let event = RunEvent {
                instance: ident.clone(),
                run: *run,
                state,
            };
            self.event(Event::Run(event));
        }
    }

    /// Its program ends and is started again.
    pub(super) fn crash(&mut self, ident: &InstanceIdent) {
        if let Some(restarts) = self.crash_unseen(ident) {
            let last = Ended::Exited(7);
            self.tell(ident, RunState::Restarting { last, restarts });
            self.tell(ident, RunState::Running);
        }
    }

    /// Its counter begins anew: an operator reset it, or started it himself.
    pub(super) fn reset_counter(&mut self, ident: &InstanceIdent) {
        if let Some((_, run)) = self.running.get(ident) {
            self.restarts.remove(run);
        }
    }

    /// The same as a crash, and nobody tells; how often it was.
    pub(super) fn crash_unseen(&mut self, ident: &InstanceIdent) -> Option<u32> {
        let (_, run) = self.running.get(ident)?;
        let restarts = self.restarts.entry(*run).or_default();
        *restarts += 1;
        Some(*restarts)
    }

    fn facts(&self, target: &Target) -> Facts {
        let of = |map: &BTreeMap<String, Vec<String>>| {
            let item = target.ident().item_id.as_str();
            map.get(item).cloned().unwrap_or_default()
        };
        let after = of(&self.after);
        let unknown = Facts::unknown();
        Facts {
            policy: self.policy.unwrap_or(unknown.policy),
            after: after.iter().map(|it| it.parse().unwrap()).collect(),
            offline_ttl: self.offline_ttl,
            scarce: of(&self.scarce),
            ..unknown
        }
    }

    /// One action ends.
    pub(super) fn finish(&mut self, index: usize) {
        let effect = self.actions.remove(index);
        let fails = std::mem::take(&mut self.fail_next);
        let fault = || AosError::new(AosCode::Failed, "it was made to fail");
        match effect {
            Effect::Fetch(target) => {
                let facts = self.facts(&target);
                let result = if fails { Err(fault()) } else { Ok(facts) };
                self.event(Event::Fetched { target, result });
            }
            Effect::Start { target, run } => {
                let instance = target.ident().clone();
                let result = if self.not_yet.as_ref() == Some(&instance) {
                    Err(StartFault::NotYet(fault()))
                } else if fails {
                    Err(StartFault::Failed(fault()))
                } else {
                    self.starts += 1;
                    let old = self.running.insert(instance.clone(), (target, run));
                    assert!(old.is_none(), "{instance} was started twice");
                    Ok(())
                };
                self.event(Event::Started {
                    instance,
                    run,
                    result,
                });
            }
            Effect::Stop { target, .. } => {
                let instance = target.ident().clone();
                let result = if fails {
                    Err(fault())
                } else {
                    self.stops += 1;
                    self.running.remove(&instance);
                    Ok(())
                };
                self.event(Event::Stopped { instance, result });
            }
            other => panic!("{other:?} is no action"),
        }
    }

    /// Everything that was begun ends, and what follows from that, too.
    pub(super) fn run_actions(&mut self) {
        for _ in 0..10_000 {
            if self.actions.is_empty() {
                return;
            }
            self.finish(0);
        }
        panic!("it never rests: {:?}", self.actions);
    }

    pub(super) fn finish_fetches(&mut self) {
        while let Some(index) = self
            .actions
            .iter()
            .position(|it| matches!(it, Effect::Fetch(_)))
        {
            self.finish(index);
        }
    }

    /// The launcher dies; what it had begun may or may not have happened, and another one takes over.
    pub(super) fn die(&mut self) {
        self.die_with(|_| false);
    }

    pub(super) fn die_with(&mut self, mut happened: impl FnMut(&Effect) -> bool) {
        for effect in std::mem::take(&mut self.actions) {
            if !happened(&effect) {
                continue;
            }
            match effect {
                Effect::Start { target, run } => {
                    self.running.insert(target.ident().clone(), (target, run));
                }
                Effect::Stop { target, .. } => {
                    self.running.remove(target.ident());
                }
                _ => {}
            }
        }
        // The runtimes remove what nobody knows.
        let rows = &self.rows;
        self.running
            .retain(|ident, _| rows.get(ident).is_some_and(|row| row.running.is_some()));
        let adopted = self.running.iter().map(|(instance, (target, run))| {
            let found = Adopted {
                instance: instance.clone(),
                run: *run,
                restarts: self.restarts.get(run).copied().unwrap_or_default(),
                state: RunState::Running,
            };
            (found, (!self.damaged).then(|| self.facts(target)))
        });
        let saved = Saved {
            rows: self
                .rows
                .iter()
                .map(|(ident, row)| (ident.clone(), row.clone()))
                .collect(),
            overrides: self.overrides.clone(),
            offline: self.offline,
            knows_cloud: self.knows_cloud,
            next_run: self.next_run,
        };
        let (decider, step) =
            Decider::recover(self.limits.clone(), saved, adopted.collect(), self.now);
        self.decider = decider;
        self.take(step);
    }

    pub(super) fn pending_stops(&self) -> Vec<InstanceIdent> {
        let stop = |effect: &Effect| match effect {
            Effect::Stop { target, .. } => Some(target.ident().clone()),
            _ => None,
        };
        self.actions.iter().filter_map(stop).collect()
    }

    pub(super) fn pending_starts(&self) -> Vec<InstanceIdent> {
        let start = |effect: &Effect| match effect {
            Effect::Start { target, .. } => Some(target.ident().clone()),
            _ => None,
        };
        self.actions.iter().filter_map(start).collect()
    }

    pub(super) fn running_versions(&self) -> Vec<String> {
        self.running
            .values()
            .map(|(target, _)| format!("{} {}", target.ident().item_id, target.info.version))
            .collect()
    }

    pub(super) fn states_of(&self, ident: &InstanceIdent) -> Vec<InstanceState> {
        let about = self.reports.iter().filter(|it| it.instance == *ident);
        about.map(|it| it.state).collect()
    }

    pub(super) fn last_status(&self, ident: &InstanceIdent) -> InstanceStatus {
        let mut about = self.reports.iter().filter(|it| it.instance == *ident);
        about.next_back().expect("it was reported").clone()
    }

    pub(super) fn statuses(&self) -> Vec<InstanceStatus> {
        self.decider.statuses()
    }
}
