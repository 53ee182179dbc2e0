//! `muster sm`: the Service Manager without a controller.

use std::io;
use std::path::{Path, PathBuf};

use muster_api::domain::{InstanceState, InstanceStatus};
use muster_config::ConfigError;
use muster_image::LayoutError;
use muster_launcher::Report;
use muster_sm::standalone::{Desired, ImageSourceError, Settings, Standalone, StandaloneError};
use muster_telemetry::{InstallShutdownError, Shutdown};
use serde::Serialize;

use crate::cli::sm::{self as cli, Sm};
use crate::console::{Answer, Console, Exit, Table};
use crate::error::CommandError;

/// Why what is wanted does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmCommandError {
    #[error("cannot start the runtime that everything runs in")]
    Runtime(#[source] io::Error),
    #[error("cannot listen to signals")]
    Signals(#[source] InstallShutdownError),
    #[error("there is no file {}", path.display())]
    NoFile { path: PathBuf },
    #[error("cannot use {}", path.display())]
    Desired {
        path: PathBuf,
        #[source]
        source: ConfigError,
    },
    #[error("cannot run what the file says")]
    Run(#[source] StandaloneError),
    #[error("{failed} of {all} instances are not up")]
    NotUp { failed: usize, all: usize },
    #[error("interrupted before everything was up or had failed")]
    Interrupted,
}

impl SmCommandError {
    pub(crate) fn exit(&self) -> Exit {
        let missing = |error: &ImageSourceError| match error {
            ImageSourceError::Layout(LayoutError::Read { source, .. })
            | ImageSourceError::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
            ImageSourceError::Layout(LayoutError::NoSuchImage { .. }) => true,
            _ => false,
        };
        match self {
            Self::Desired { .. } => Exit::Usage,
            Self::NoFile { .. } => Exit::NotFound,
            Self::Interrupted => Exit::Interrupted,
            Self::Run(error) if error.is_in_use() => Exit::Refused,
            Self::Run(error) => match error {
                StandaloneError::NotRoot
                | StandaloneError::NoRuntime { .. }
                | StandaloneError::NoResources { .. } => Exit::Refused,
                StandaloneError::Source { source, .. } if missing(source) => Exit::NotFound,
                StandaloneError::Init(_) => Exit::Unreachable,
                _ => Exit::Failed,
            },
            Self::Runtime(_) | Self::Signals(_) | Self::NotUp { .. } => Exit::Failed,
        }
    }
}

/// Carries out one command.
pub(crate) fn run(command: Sm, console: &mut Console) -> Result<(), CommandError> {
    let Sm::Run(command) = command;
    if !command.desired.exists() {
        let path = command.desired;
        return Err(SmCommandError::NoFile { path }.into());
    }
    let desired = Desired::load(&command.desired).map_err(|source| SmCommandError::Desired {
        path: command.desired.clone(),
        source,
    })?;
    let shutdown = Shutdown::install().map_err(SmCommandError::Signals)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(SmCommandError::Runtime)?;
    runtime.block_on(look_after(&command, desired, &shutdown, console))
}

/// Where the other programs are: as installed, or as built.
pub(crate) fn programs() -> PathBuf {
    let installed = PathBuf::from("/usr/lib/muster");
    let Some(own) = std::env::current_exe().ok() else {
        return installed;
    };
    let beside = own.parent().map(PathBuf::from).unwrap_or_default();
    let candidates = [beside.join("../lib/muster"), beside];
    let complete = candidates
        .into_iter()
        .find(|folder| folder.join("muster-init").is_file());
    complete.unwrap_or(installed)
}

/// Folders are told to others, which are not where this command is.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

async fn look_after(
    command: &cli::Run,
    desired: Desired,
    shutdown: &Shutdown,
    console: &mut Console,
) -> Result<(), CommandError> {
    let settings = Settings {
        state_dir: absolute(&command.state),
        runtime_dir: absolute(&command.runtime),
        program_dir: command.programs.as_deref().map_or_else(programs, absolute),
    };
    let stop = shutdown.token();
    let mut note = |text: &str| console.note(format!("muster: {text}"));
    let started = Standalone::start(&settings, desired, &mut note, stop.cancelled()).await;
    let Some(mut standalone) = started.map_err(SmCommandError::Run)? else {
        return interrupted(command);
    };
    let watched = watch(&mut standalone, shutdown, command, console).await;
    // Whatever became of it: nothing is left running unsaid.
    let finished = finish(standalone, command, console).await;
    let settled = watched?;
    finished?;
    match settled {
        Some(all) => judge(all, console),
        None => interrupted(command),
    }
}

/// Who waits for everything to be up has not seen it; who did not, wanted just this.
fn interrupted(command: &cli::Run) -> Result<(), CommandError> {
    match command.once {
        true => Err(SmCommandError::Interrupted.into()),
        false => Ok(()),
    }
}

/// Tells what happens until the end is asked for, or until everything that is waited for is up or has failed: then how it all is.
async fn watch(
    standalone: &mut Standalone,
    shutdown: &Shutdown,
    command: &cli::Run,
    console: &mut Console,
) -> Result<Option<Vec<InstanceStatus>>, CommandError> {
    let stop = shutdown.token();
    while let Some(report) = stop.run_until_cancelled(standalone.next()).await {
        match report.map_err(SmCommandError::Run)? {
            Report::Changed(changed) => tell(&changed, command.once, console)?,
            Report::Settled(all) if command.once => return Ok(Some(all)),
            Report::Settled(_) => {}
        }
    }
    Ok(None)
}

/// Leaves what runs, or ends it.
async fn finish(
    standalone: Standalone,
    command: &cli::Run,
    console: &mut Console,
) -> Result<(), CommandError> {
    if command.keep {
        standalone.leave();
        console.note("muster: everything goes on; run this again to look after it, or with an empty list of items to end it");
        return Ok(());
    }
    let mut told = Ok(());
    let mut news = |report| {
        if let Report::Changed(changed) = report
            && told.is_ok()
        {
            told = tell(&changed, command.once, console);
        }
    };
    let ended = standalone.end(&mut news).await;
    ended.map_err(SmCommandError::Run)?;
    told
}

fn judge(all: Vec<InstanceStatus>, console: &mut Console) -> Result<(), CommandError> {
    let is_up = |it: &&InstanceStatus| it.state == InstanceState::Active;
    let (up, count) = (all.iter().filter(is_up).count(), all.len());
    console.answer(&Statuses(all.iter().map(Status::from).collect()))?;
    if up == count {
        return Ok(());
    }
    Err(SmCommandError::NotUp {
        failed: count - up,
        all: count,
    }
    .into())
}

/// How an instance is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    item: String,
    subject: String,
    instance: u64,
    version: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<&InstanceStatus> for Status {
    fn from(status: &InstanceStatus) -> Self {
        Self {
            item: status.instance.item_id.to_string(),
            subject: status.instance.subject_id.to_string(),
            instance: status.instance.instance,
            version: status.version.clone(),
            state: status.state.as_str(),
            error: status.error.as_ref().map(|error| error.message.clone()),
        }
    }
}

impl Status {
    fn name(&self) -> String {
        format!("{}:{}:{}", self.item, self.subject, self.instance)
    }

    fn error(&self) -> String {
        self.error.clone().unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Statuses(Vec<Status>);

impl Answer for Statuses {
    fn table(&self) -> Table {
        let row = |it: &Status| vec![it.name(), it.version.clone(), it.state.into(), it.error()];
        Table::list(
            &["INSTANCE", "VERSION", "STATE", "ERROR"],
            self.0.iter().map(row).collect(),
        )
    }
}

/// A line for each change; beside the answer if there is one to come.
fn tell(
    changed: &[InstanceStatus],
    aside: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    for status in changed.iter().map(Status::from) {
        if aside {
            let line = format!("{} {} {}", status.name(), status.state, status.error());
            console.note(line.trim_end());
        } else {
            console.line(&status, || {
                let (name, state) = (status.name(), status.state);
                format!(
                    "{name:32} {:12} {state:12} {}",
                    status.version,
                    status.error()
                )
            })?;
        }
    }
    Ok(())
}
