//! What the cases work with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_telemetry::ErrorChain;
use tempfile::TempDir;

use super::{CaseResult, Rig, Stop, scratch};
use crate::command::Command;
use crate::error::{ExecutorError, FailureClass};
use crate::executor::Executor;
use crate::running::Output;
use crate::transfer::{Report, Transfer};

/// How long anything may take that takes a moment.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How much output of a command is kept.
const KEPT: usize = 16 * 1024 * 1024;

/// One case's work with the executor.
#[derive(Debug)]
pub struct Bench<'a> {
    pub(super) rig: &'a dyn Rig,
    pub(super) executor: Arc<dyn Executor>,
    /// The case's folder in the machine.
    pub(super) there: PathBuf,
    here: TempDir,
}

/// A failure, with all its causes.
pub(super) fn text(error: &ExecutorError) -> String {
    ErrorChain(error).to_string()
}

/// Fails the case unless something holds.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> CaseResult {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Fails the case unless two things are the same.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, wanted: &T) -> CaseResult {
    let shown = || format!("{what}: {is:.300?}, expected {wanted:.300?}");
    ensure(is == wanted, shown)
}

/// Fails the case unless a call failed in this way.
pub(super) fn expect_class<T>(result: Result<T, ExecutorError>, class: FailureClass) -> CaseResult {
    match result {
        Err(error) if error.class == class => Ok(()),
        Err(error) => Err(format!("expected {class:?}: {}", text(&error)).into()),
        Ok(_) => Err(format!("expected {class:?}, but it worked").into()),
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(rig: &'a dyn Rig, executor: Arc<dyn Executor>, index: usize) -> Self {
        Self {
            rig,
            executor,
            there: rig.folder().join(format!("case-{index}")),
            here: scratch(),
        }
    }

    pub(super) async fn set_up(&self) -> CaseResult {
        let make = Command::new("mkdir").arg("-p").arg(&self.there);
        self.sure(make).await.map(drop)
    }

    pub(super) async fn clean_up(&self) -> CaseResult {
        let script = r#"chmod -R u+rwx "$1"; rm -rf "$1""#;
        let remove = Command::shell(script).arg("sh").arg(&self.there);
        self.sure(remove).await.map(drop)
    }

    /// A path here.
    pub(super) fn here(&self, name: impl AsRef<Path>) -> PathBuf {
        self.here.path().join(name)
    }

    /// A path in the machine.
    pub(super) fn there(&self, name: impl AsRef<Path>) -> PathBuf {
        self.there.join(name)
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, command: Command) -> Result<Output, Stop> {
        let run = async { self.executor.run(&command).await?.output(KEPT).await };
        let done = tokio::time::timeout(PATIENCE, run).await;
        let done = done.map_err(|_| format!("{command:?} does not end"))?;
        done.map_err(|error| text(&error).into())
    }

    /// Runs a command that succeeds, and answers what it printed.
    pub(super) async fn sure(&self, command: Command) -> Result<Vec<u8>, Stop> {
        let shown = format!("{command:?}");
        let output = self.run(command).await?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure(output.exit.is_success(), || {
            format!("{shown} ended with {}: {complaint}", output.exit)
        })?;
        Ok(output.stdout)
    }

    /// Runs a script in the case's folder of the machine, and answers what it printed.
    pub(super) async fn script(&self, script: &str) -> Result<String, Stop> {
        let printed = self
            .sure(Command::shell(script).folder(&self.there))
            .await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }

    pub(super) async fn copy(&self, transfer: &Transfer) -> Result<Report, Stop> {
        let copied = self.executor.copy(transfer).await;
        copied.map_err(|error| text(&error).into())
    }

    pub(super) async fn sync(&self, transfer: &Transfer) -> Result<Report, Stop> {
        let synced = self.executor.sync(transfer).await;
        synced.map_err(|error| text(&error).into())
    }

    /// Looks until a script in the machine prints what is wanted.
    pub(super) async fn wait(&self, script: &str, wanted: &str) -> CaseResult {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.script(script).await?;
            if printed == wanted {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("{script:?} prints {printed:?}, not {wanted:?}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
