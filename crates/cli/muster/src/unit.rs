//! The verbs of a Unit, through the control interface of its Communication Manager.

mod apply;
pub(crate) mod client;
mod describe;
mod document;
mod events;
mod explain;
pub(crate) mod facts;
mod follow;
mod get;
mod logs;
mod naming;
pub(crate) mod node;
mod plan;
mod rollback;
mod status;
mod top;
pub(crate) mod watch;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::client::{ConnectUnitError, UnitClient};
pub(crate) use self::naming::NoSuchError;
use crate::call::CallError;
use crate::cli::unit::{self as cli, Get};
use crate::console::{Console, Exit};
use crate::error::CommandError;
use crate::text::count;

/// Why a command about a Unit was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnitCommandError {
    #[error("cannot start the runtime that connections need")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectUnitError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    NoSuch(#[from] NoSuchError),
    #[error("cannot read {}", path.display())]
    ReadDocument {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} says no format that is understood; use .yaml or .json", .0.display())]
    DocumentFormat(PathBuf),
    #[error("{} has {}; nothing was changed", path.display(), count(*problems, "mistake"))]
    Document { path: PathBuf, problems: usize },
    #[error(
        "update {id} is not finished after {}; it goes on, and `muster status` tells how far it is",
        crate::text::length(*after)
    )]
    Late { id: u64, after: Duration },
    #[error("update {id} was replaced by a newer one")]
    Superseded { id: u64 },
    #[error(
        "update {id} is not what was wanted: {}; `muster get instances` and `muster explain INSTANCE` tell more", failures.join("; ")
    )]
    UpdateFailed { id: u64, failures: Vec<String> },
    #[error("interrupted; update {id} goes on, and `muster status` tells how far it is")]
    StoppedWaiting { id: u64 },
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    #[error("{} could not tell; the reasons are above", count(*.0, "node"))]
    Logs(usize),
}

impl UnitCommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Connect(error) => error.exit(),
            Self::Call(error) => error.exit(),
            Self::NoSuch(error) => error.exit(),
            Self::ReadDocument { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            Self::DocumentFormat(_) | Self::Document { .. } => Exit::Usage,
            Self::Late { .. } => Exit::Late,
            Self::StoppedWaiting { .. } => Exit::Interrupted,
            Self::Runtime(_)
            | Self::ReadDocument { .. }
            | Self::Superseded { .. }
            | Self::UpdateFailed { .. }
            | Self::Signals(_)
            | Self::Terminal(_)
            | Self::Logs(_) => Exit::Failed,
        }
    }
}

/// One of the verbs.
#[derive(Debug)]
pub(crate) enum Verb {
    Status(cli::Status),
    Get(Get),
    Describe(cli::Describe),
    Explain(cli::Explain),
    Apply(cli::Apply),
    Diff(cli::Diff),
    Rollback(cli::Rollback),
    Logs(cli::Logs),
    Events(cli::Events),
    Top(cli::Top),
}

/// Carries out one command.
pub(crate) fn run(verb: Verb, console: &mut Console) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(UnitCommandError::Runtime)?;
    let done = runtime.block_on(carry_out(verb, console));
    // A thread that waits for a key, or for a name server, is not waited for.
    runtime.shutdown_background();
    done
}

async fn carry_out(verb: Verb, console: &mut Console) -> Result<(), CommandError> {
    match verb {
        Verb::Status(status) => status::status(&connect(&status.connection).await?, console).await,
        Verb::Get(get) => get::run(get, console).await,
        Verb::Describe(describe) => describe::describe(&describe, console).await,
        Verb::Explain(explain) => explain::explain(&explain, console).await,
        Verb::Apply(apply) => apply::apply(&apply, console).await,
        Verb::Diff(diff) => apply::diff(&diff, console).await,
        Verb::Rollback(rollback) => rollback::rollback(&rollback, console).await,
        Verb::Logs(logs) => logs::logs(&logs, console).await,
        Verb::Events(events) => events::events(&events, console).await,
        Verb::Top(top) => top::top(&top, console).await,
    }
}

/// Whether a node is connected.
pub(crate) async fn is_connected(unit: &UnitClient, node: &str) -> Result<bool, UnitCommandError> {
    let nodes = get::nodes(unit).await?;
    Ok(nodes.iter().any(|it| it.id == node && it.connected))
}

/// The way to the Unit that is meant.
pub(crate) async fn connect(connection: &cli::Connection) -> Result<UnitClient, UnitCommandError> {
    Ok(UnitClient::connect(connection).await?)
}
