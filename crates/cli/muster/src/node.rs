//! `muster node`: nodes, through an identity manager and, where it is about work, the Communication Manager.

mod change;
mod client;
mod look;
mod member;
mod sign;

use std::path::{Path, PathBuf};

use muster_api::domain::{NodeId, NodeState};
use muster_iamclient::{IamCallError, IamClient};
use muster_pki::files::FileError;

pub(crate) use self::client::ConnectError;
pub(crate) use self::sign::SignRequestError;
use crate::cli::node::Node;
use crate::console::{Console, Exit};
use crate::error::CommandError;
use crate::pki::PkiCommandError;

/// Why a command about nodes was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeCommandError {
    #[error("cannot start the runtime that connections need")]
    Runtime(#[source] std::io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] IamCallError),
    #[error(transparent)]
    Authority(PkiCommandError),
    #[error("node {node} is not made a member")]
    Sign {
        node: String,
        #[source]
        source: SignRequestError,
    },
    #[error(
        "the node belongs to system {node_system:?}, the authority in {} certifies system {authority}; \
         use the authority of that system, or change the system id of the node's identifier",
        folder.display()
    )]
    OtherSystem {
        node_system: String,
        authority: String,
        folder: PathBuf,
    },
    #[error("node {id:?} cannot be certified under this id")]
    NodeId {
        id: String,
        #[source]
        source: muster_tls::ParseSpiffeError,
    },
    #[error(
        "the key store of node {node} has no certificate types to make keys for; see certModules of its configuration"
    )]
    NoCertTypes { node: String },
    #[error("cannot take the password")]
    Password(#[source] FileError),
    #[error("node {node} is {state}, so its certificates cannot be renewed; provision it")]
    NotProvisioned { node: String, state: NodeState },
    #[error("{failed} of {all} nodes failed; the reasons are above")]
    Several { failed: usize, all: usize },
}

impl NodeCommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Connect(error) => error.exit(),
            Self::Call(error) => client::exit_of(error),
            Self::Authority(error) => error.exit(),
            Self::Sign { source, .. } => source.exit(),
            Self::OtherSystem { .. } | Self::NotProvisioned { .. } => Exit::Refused,
            Self::Password(error) if error.is_not_found() => Exit::NotFound,
            Self::Runtime(_)
            | Self::NodeId { .. }
            | Self::NoCertTypes { .. }
            | Self::Password(_)
            | Self::Several { .. } => Exit::Failed,
        }
    }
}

/// Carries out one command.
pub(crate) fn run(command: Node, console: &mut Console) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NodeCommandError::Runtime)?;
    runtime.block_on(async {
        match command {
            Node::List(list) => look::list(&connect(&list.connection).await?, console).await,
            Node::Show(show) => {
                look::show(
                    &connect(&show.connection).await?,
                    show.node.as_ref(),
                    console,
                )
                .await
            }
            Node::Provision(provision) => member::provision(&provision, console).await,
            Node::Renew(renew) => member::renew(&renew, console).await,
            Node::Deprovision(deprovision) => change::deprovision(&deprovision, console).await,
            Node::Pause(pause) => change::pause(&pause, console).await,
            Node::Resume(resume) => change::resume(&resume, console).await,
            Node::Drain(drain) => {
                let unit = crate::unit::connect(&drain.connection).await?;
                crate::unit::node::drain(&unit, drain.node.as_ref(), drain.dry_run, console).await
            }
        }
    })
}

/// Makes a node a member that has just been brought up and calls the Main Node's identity manager.
pub(crate) async fn join(
    connection: &crate::cli::node::Connection,
    signing: &crate::cli::node::Signing,
    node: &NodeId,
    console: &mut Console,
) -> Result<(), CommandError> {
    Ok(member::join(connection, signing, node, console).await?)
}

/// Takes a node out of the system, and revokes its certificates.
pub(crate) async fn leave(
    connection: &crate::cli::node::Connection,
    authority: &Path,
    node: &NodeId,
    console: &mut Console,
) -> Result<(), CommandError> {
    change::take_out(
        connection,
        &Default::default(),
        Some(authority),
        node,
        console,
    )
    .await?;
    Ok(())
}

/// Revokes the certificates of a node that is gone: nobody can delete its keys any more.
pub(crate) fn revoke(
    authority: &Path,
    node: &NodeId,
    console: &mut Console,
) -> Result<(), CommandError> {
    change::revoke(authority, node, console)?;
    Ok(())
}

async fn connect(connection: &crate::cli::node::Connection) -> Result<IamClient, NodeCommandError> {
    Ok(client::connect(connection).await?)
}
