//! A world in which jobs end as they are told, and which watches that no rule is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_config::Format;
use muster_lifecycle::Moment;
use muster_provider::MachineId;

use crate::engine::{CLEAN_ATTEMPTS, Engine, JobPhase};
use crate::entry::{Entry, JobResult, RunOutcome, Why};
use crate::job::{Job, Slot};
use crate::workflow::{Limits, When, Workflow};

pub(super) fn workflow(text: &str) -> Arc<Workflow> {
    let read = Workflow::read("w", Format::Yaml, text.as_bytes(), &Limits::default());
    Arc::new(read.unwrap_or_else(|error| panic!("{error:?} in {text}")))
}

pub(super) fn failed() -> JobResult {
    JobResult::Failed(Why::Exit { action: 0, code: 1 })
}

pub(super) fn done(job: &Job) -> JobResult {
    let machine = matches!(job, Job::Provision(_)).then(|| MachineId::new("m-1").expect("an id"));
    JobResult::Done {
        machine,
        warnings: Vec::new(),
    }
}

/// A run, its journal so far, and the time.
#[derive(Clone)]
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) journal: Vec<(Moment, Entry)>,
    pub(super) now: Moment,
    /// How often each attempt was begun.
    begun: BTreeMap<(Job, u32), u32>,
    cleaned: BTreeSet<Slot>,
    cleaning: bool,
}

impl World {
    pub(super) fn new(workflow: &Arc<Workflow>) -> Self {
        let now = Moment::from_millis(1000);
        Self {
            engine: Engine::new(Arc::clone(workflow), now),
            journal: Vec::new(),
            now,
            begun: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            cleaning: false,
        }
    }

    /// A manager that takes over from one that died after so many entries.
    pub(super) fn resumed(workflow: &Arc<Workflow>, journal: &[(Moment, Entry)]) -> Self {
        let mut world = Self::new(workflow);
        for (at, entry) in journal {
            world.now = *at;
            world.write(entry.clone());
        }
        for entry in world.engine.interrupted() {
            world.write(entry);
        }
        world
    }

    pub(super) fn write(&mut self, entry: Entry) {
        self.check_before(&entry);
        self.engine.apply(self.now, &entry);
        self.journal.push((self.now, entry));
        self.check_limits();
    }

    /// Takes in all that follows; what is to be aborted comes back.
    pub(super) fn settle(&mut self) -> Vec<Job> {
        loop {
            let next = self.engine.next(self.now);
            if next.entries.is_empty() {
                return next.abort;
            }
            for entry in next.entries {
                self.write(entry);
            }
        }
    }

    pub(super) fn running(&self) -> Vec<Job> {
        let jobs = self.engine.jobs.iter();
        let jobs = jobs.filter(|(_, state)| state.is_running());
        jobs.map(|(job, _)| job.clone()).collect()
    }

    pub(super) fn end(&mut self, job: &Job, result: JobResult) {
        let attempt = self.engine.jobs[job].attempt;
        let job = job.clone();
        self.write(Entry::Ended {
            job,
            attempt,
            result,
        });
    }

    /// Lets the time come that is waited for.
    pub(super) fn wait(&mut self) {
        let wake = self.engine.next(self.now).wake;
        self.now = wake.expect("nothing is under way, nothing is waited for, and it is not over");
    }

    pub(super) fn outcome(&self) -> Option<&RunOutcome> {
        match self.journal.last() {
            Some((_, Entry::Over { outcome })) => Some(outcome),
            _ => None,
        }
    }

    /// Goes on to the end. `which` picks among jobs under way, `how` says how one ends.
    pub(super) fn finish(
        &mut self,
        mut which: impl FnMut(usize) -> usize,
        mut how: impl FnMut(&Job, u32) -> JobResult,
    ) -> RunOutcome {
        for _ in 0..100_000 {
            let abort = self.settle();
            if let Some(outcome) = self.outcome() {
                return outcome.clone();
            }
            let running = self.running();
            if let Some(job) = abort.first() {
                self.end(job, JobResult::Aborted);
            } else if running.is_empty() {
                self.wait();
            } else {
                let job = &running[which(running.len()) % running.len()];
                let attempt = self.engine.jobs[job].attempt;
                self.end(job, how(job, attempt));
            }
        }
        panic!("it does not come to an end");
    }

    fn phase(&self, job: &Job) -> &JobPhase {
        &self.engine.jobs[job].phase
    }

    fn check_before(&mut self, entry: &Entry) {
        assert!(self.outcome().is_none(), "{entry:?} after the end");
        match entry {
            Entry::Begun { job, attempt } => self.check_begin(job, *attempt),
            Entry::Ended {
                job: Job::Clean(slot),
                result: JobResult::Done { .. },
                ..
            } => assert!(
                self.cleaned.insert(slot.clone()),
                "{slot} is cleaned up twice"
            ),
            Entry::Over { .. } => self.check_over(),
            _ => {}
        }
    }

    fn check_begin(&mut self, job: &Job, attempt: u32) {
        let most = match job.is_clean() {
            true => CLEAN_ATTEMPTS,
            false => self.engine.effort(job).attempts,
        };
        assert!((1..=most).contains(&attempt), "attempt {attempt} of {job}");
        let times = self.begun.entry((job.clone(), attempt)).or_default();
        *times += 1;
        assert!(
            *times == 1 || self.engine.is_repeatable(job),
            "{job} is done again though it is not repeatable"
        );
        let slot = job.slot().clone();
        match job {
            Job::Provision(_) => {}
            Job::Ready(_) => assert_eq!(*self.phase(&Job::Provision(slot)), JobPhase::Done),
            Job::Work { step, .. } => {
                assert_eq!(*self.phase(&Job::Ready(slot)), JobPhase::Done);
                self.check_needs(step);
            }
            Job::Clean(_) => {
                self.cleaning = true;
                let working = self.running().into_iter().find(|job| !job.is_clean());
                assert_eq!(working, None, "cleaning up while work is under way");
                assert!(self.engine.jobs[&Job::Provision(slot)].begun);
            }
        }
        assert!(
            job.is_clean() || !self.cleaning,
            "{job} after cleaning began"
        );
        assert!(
            job.is_clean() || !self.engine.is_stopped(),
            "{job} after a stop"
        );
    }

    fn check_needs(&self, name: &str) {
        let workflow = self.engine.workflow();
        let step = workflow.step(name).expect("the step");
        for need in &step.needs {
            let need = workflow.step(need).expect("the step");
            for slot in workflow.slots_of_step(need) {
                let job = Job::Work {
                    step: need.name().into(),
                    slot,
                };
                match step.when {
                    When::Success => assert_eq!(*self.phase(&job), JobPhase::Done, "{job}"),
                    When::Always => assert!(!self.engine.jobs[&job].is_running(), "{job}"),
                }
            }
        }
        if step.when == When::Success {
            assert!(self.engine.is_well(), "{name} is begun after a failure");
        }
    }

    fn check_limits(&self) {
        let workflow = self.engine.workflow();
        let running = self.running();
        assert_eq!(running.len(), self.engine.running);
        let at_work = running
            .iter()
            .filter(|job| matches!(job, Job::Ready(_) | Job::Work { .. }));
        let at_work = u32::try_from(at_work.count()).expect("few");
        assert!(at_work <= workflow.parallel, "{at_work} at once");
        for step in workflow.steps() {
            let count = running.iter().filter(|job| job.step() == Some(step.name()));
            let count = u32::try_from(count.count()).expect("few");
            assert!(count <= step.parallel, "{count} of {} at once", step.name());
        }
    }

    fn check_over(&self) {
        assert!(self.running().is_empty(), "over, and still under way");
        for slot in self.engine.workflow().slots() {
            let asked = self.engine.jobs[&Job::Provision(slot.clone())].begun;
            let given_up = matches!(self.phase(&Job::Clean(slot.clone())), JobPhase::Failed(_));
            assert_eq!(asked, self.cleaned.contains(&slot) || given_up, "{slot}");
        }
    }
}
