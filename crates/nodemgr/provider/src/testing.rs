//! For tests: the suite that every provider passes, and a clock to set.
//!
//! A provider's test implements [`Rig`] and calls [`run`]. What the provider cannot do by its own word is skipped, and the
//! [`Report`] lists it: nothing is hidden.

mod bench;
mod identity;
mod power;
mod report;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_lifecycle::{Moment, Verb};

pub use self::bench::Bench;
pub use self::report::{CaseOutcome, Report};
use crate::clock::Clock;
use crate::mark::Owned;
use crate::name::ResourceId;
use crate::provider::{Profile, Provider};
use crate::ssh::SshSeed;
use muster_mapping::MachineSpec;

/// What the suite needs to know of a provider.
pub trait Rig: fmt::Debug + Send + Sync {
    /// The provider.
    fn provider(&self) -> Arc<dyn Provider>;

    /// A small machine that it can make.
    fn spec(&self) -> MachineSpec;

    /// One of which as little can be asked as of any, where machines differ in that.
    fn plain_spec(&self) -> MachineSpec {
        self.spec()
    }

    /// The keys that its machines are given, where they need some.
    fn ssh(&self) -> Option<SshSeed> {
        None
    }

    /// How long a machine may take to get from one state to the next.
    fn patience(&self) -> Duration;

    /// Makes something that is not ours, where the test can, so that the suite can look whether it is left alone.
    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>>;

    /// What differs between two boots of a machine, where the test can see that: a time, a number. Not by way of the provider, which
    /// is what is tested.
    fn boot<'a>(&'a self, _: &'a Owned) -> BoxFuture<'a, Option<String>> {
        std::future::ready(None).boxed()
    }

    /// Why a likeness of the provider cannot pass a case that the provider itself passes.
    fn flaw(&self, _case: &str) -> Option<&'static str> {
        None
    }

    /// Whether that is still as it was.
    fn is_untouched<'a>(&'a self, foreign: &'a ResourceId) -> BoxFuture<'a, bool>;
}

/// What a case needs of a provider.
#[derive(Debug, Clone, Copy)]
enum Needs {
    Nothing,
    /// A machine of its own for each order.
    OwnMachines,
    Verbs(&'static [Verb]),
    /// A verb that it does not have.
    Lacks(Verb),
    /// Machines that it may take back.
    Spot,
}

impl Needs {
    /// Why a provider is not asked, if it is not.
    fn missing(self, profile: &Profile) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::OwnMachines if profile.one_machine => Some("it has one machine only".to_owned()),
            Self::OwnMachines => None,
            Self::Verbs(verbs) => {
                let missing = verbs.iter().find(|&&verb| !profile.verbs.has(verb))?;
                Some(format!("it cannot {missing} machines"))
            }
            Self::Lacks(verb) => {
                let has = profile.verbs.has(verb);
                has.then(|| format!("it can {verb} machines"))
            }
            Self::Spot if profile.spot => None,
            Self::Spot => Some("it has no spot machines".to_owned()),
        }
    }
}

/// What a case found wrong.
type CaseResult = Result<(), String>;

struct Case {
    name: &'static str,
    needs: Needs,
    run: for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, CaseResult>,
}

/// Runs every case, each as a manager of its own, and destroys what it left.
pub async fn run(rig: &dyn Rig) -> Report {
    let mut report = Report::default();
    for case in identity::CASES.iter().chain(power::CASES) {
        let provider = rig.provider();
        let missing = case.needs.missing(provider.profile());
        let outcome = match missing.or_else(|| rig.flaw(case.name).map(str::to_owned)) {
            Some(why) => CaseOutcome::Skipped(why),
            None => {
                let bench = Bench::new(rig);
                let result = (case.run)(&bench).await;
                let skipped = bench.skipped();
                match (result.and(bench.clean_up().await), skipped) {
                    (Ok(()), None) => CaseOutcome::Passed,
                    (Ok(()), Some(why)) => CaseOutcome::Skipped(why),
                    (Err(what), _) => CaseOutcome::Failed(what),
                }
            }
        };
        report.cases.push((case.name, outcome));
    }
    report
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// One that shows this.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self(AtomicU64::new(now.as_millis()))
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let later = self.now().after(time);
        self.0.store(later.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_millis(self.0.load(Ordering::SeqCst))
    }
}
