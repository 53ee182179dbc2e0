//! Finding the node manager, and starting one where there is none.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use muster_machine_api::places::{LOG_VARIABLE, Places};
use tokio::time::Instant;

use super::client::{ConnectManagerError, Manager};
use crate::cli::machine::Connection;
use crate::console::Console;
use crate::error::CommandError;
use crate::machine::MachineCommandError;
use crate::sm;
use crate::text::shown;

const PROGRAM: &str = "muster-nodemgr";
/// How long a manager may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is tried.
const EVERY: Duration = Duration::from_millis(20);
/// So much of its log is shown when it does not start.
const LAST_WORDS: u64 = 2048;

/// Why no node manager was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartManagerError {
    #[error("cannot make the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot write the log {}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error(
        "cannot start the node manager {}; `make install` installs it, and `cargo build -p muster-nodemgr` builds it beside the others",
        path.display()
    )]
    Spawn { path: PathBuf, source: io::Error },
    #[error("the node manager ended with {status}: {words}; its log is {}", log.display())]
    Ended {
        status: ExitStatus,
        words: String,
        log: PathBuf,
    },
    #[error("the node manager does not answer after {} s; its log is {}", PATIENCE.as_secs(), log.display())]
    Silent { log: PathBuf },
}

/// The manager that is named, or one's own; that one is started if there is none.
pub(super) async fn connect(
    connection: &Connection,
    console: &mut Console,
) -> Result<Manager, CommandError> {
    if let Some(named) = &connection.manager {
        let found = Manager::connect(named).await;
        return Ok(found.map_err(MachineCommandError::Connect)?);
    }
    let places = Places::of_process();
    match Manager::connect(&places.socket).await {
        Err(ConnectManagerError::Nobody { .. }) if !connection.no_start => {}
        found => return Ok(found.map_err(MachineCommandError::Connect)?),
    }
    let started = start(&places, console).await;
    Ok(started.map_err(MachineCommandError::Start)?)
}

async fn start(places: &Places, console: &mut Console) -> Result<Manager, StartManagerError> {
    let mut folder = DirBuilder::new();
    let made = folder.recursive(true).mode(0o700).create(&places.state);
    made.map_err(|source| StartManagerError::Folder {
        path: places.state.clone(),
        source,
    })?;
    let log = places.state.join("nodemgr.log");
    let failed = |source| StartManagerError::Log {
        path: log.clone(),
        source,
    };
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(&log);
    let file = file.map_err(failed)?;
    let other = file.try_clone().map_err(failed)?;
    let program = program();
    let mut child = Command::new(&program)
        .stdin(Stdio::null())
        .stdout(other)
        .stderr(file)
        .current_dir("/")
        // Nobody else keeps it small.
        .env(LOG_VARIABLE, &log)
        // Ctrl-C is for this program, not for the manager.
        .process_group(0)
        .spawn()
        .map_err(|source| StartManagerError::Spawn {
            path: program,
            source,
        })?;
    console.note(format_args!(
        "muster: started a node manager (process {}, log {})",
        child.id(),
        log.display()
    ));
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(manager) = Manager::connect(&places.socket).await {
            return Ok(manager);
        }
        // Another one that was started at the same moment may have been faster, so a short while is given after an end.
        if let Ok(Some(status)) = child.try_wait() {
            tokio::time::sleep(EVERY).await;
            return match Manager::connect(&places.socket).await {
                Ok(manager) => Ok(manager),
                Err(_) => Err(StartManagerError::Ended {
                    status,
                    words: last_words(&log),
                    log,
                }),
            };
        }
        if Instant::now() > deadline {
            return Err(StartManagerError::Silent { log });
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Where it is: with Muster's other programs, or beside this one.
fn program() -> PathBuf {
    let folder = std::env::var_os("MUSTER_PROGRAMS").map_or_else(sm::programs, PathBuf::from);
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent);
    let places = [Some(folder.as_path()), beside];
    let found = places.into_iter().flatten().map(|it| it.join(PROGRAM));
    let found = found.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| folder.join(PROGRAM))
}

/// The last line of a log.
fn last_words(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(|| "it said nothing".to_owned(), shown)
}
