//! The suite that every executor passes (feature `testing`).
//!
//! A test brings a [`Rig`]: an executor for a machine, and a folder in it. [`run`] runs every case, each in a folder of its
//! own there and here. What an executor cannot do is skipped by its capabilities, and the report says so.

mod bench;
mod commands;
mod copies;
mod paths;
mod scratch;
mod terminals;
mod trees;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_provider::Means;

pub use bench::Bench;
pub use muster_provider::testing::{CaseOutcome, Report};
pub use scratch::scratch;

use crate::executor::Executor;

/// What a test brings.
pub trait Rig: fmt::Debug + Sync {
    /// The executor that is tested.
    fn executor(&self) -> Arc<dyn Executor>;

    /// A folder in the machine, for the cases alone, on which the user of the executor may do everything.
    fn folder(&self) -> PathBuf;

    /// The host and port of a server, as seen from the machine, that sends back what it is sent; if there is one.
    fn echo(&self) -> Option<(String, u16)>;

    /// A file in the machine to which programs write what they are asked, that stand there in the place of those that switch
    /// the power; if there are such programs.
    fn power_log(&self) -> Option<PathBuf>;

    /// Whether it takes minutes for what others do in seconds: then cases that move much are left out.
    fn is_slow(&self) -> bool {
        false
    }

    /// Whether a command that ends with 137 is told from one that was killed. Not by those to whom another program tells one number.
    fn tells_codes_from_signals(&self) -> bool {
        true
    }
}

/// Why a case did not pass.
#[derive(Debug)]
enum Stop {
    Failed(String),
    Skipped(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}

impl From<&str> for Stop {
    fn from(what: &str) -> Self {
        Self::Failed(what.to_owned())
    }
}

type CaseResult = Result<(), Stop>;

struct Case {
    name: &'static str,
    needs: Means,
    run: for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, CaseResult>,
}

/// A case, by the name of its function.
macro_rules! case {
    ($needs:ident, $name:expr, $run:path) => {
        $crate::testing::Case {
            name: $name,
            needs: muster_provider::Means::$needs,
            run: |bench| Box::pin($run(bench)),
        }
    };
}
use case;

/// Whether an executor can do what a case needs. Files are copied in whichever way there is.
fn can(executor: &dyn Executor, needs: Means) -> bool {
    let ways = [Means::Copy, Means::Sftp, Means::Rsync];
    match needs {
        Means::Copy => ways.iter().any(|&it| executor.can(it)),
        other => executor.can(other),
    }
}

/// Cases that move much.
const BULKY: [&str; 2] = [trees::TEN_THOUSAND, copies::LARGE];

/// Runs every case.
pub async fn run(rig: &dyn Rig) -> Report {
    let mut report = Report::default();
    let cases = commands::CASES
        .iter()
        .chain(terminals::CASES)
        .chain(trees::CASES)
        .chain(copies::CASES)
        .chain(paths::CASES);
    for (index, case) in cases.enumerate() {
        let executor = rig.executor();
        let outcome = if rig.is_slow() && BULKY.contains(&case.name) {
            CaseOutcome::Skipped("it moves much".to_owned())
        } else if can(executor.as_ref(), case.needs) {
            let bench = Bench::new(rig, executor, index);
            let result = match bench.set_up().await {
                Ok(()) => (case.run)(&bench).await,
                Err(stop) => Err(stop),
            };
            match result.and(bench.clean_up().await) {
                Ok(()) => CaseOutcome::Passed,
                Err(Stop::Failed(what)) => CaseOutcome::Failed(what),
                Err(Stop::Skipped(why)) => CaseOutcome::Skipped(why),
            }
        } else {
            CaseOutcome::Skipped(format!("it has no way to {}", case.needs.as_str()))
        };
        report.cases.push((case.name, outcome));
    }
    report
}
