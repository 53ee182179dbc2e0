//! `deprovision`, `pause` and `resume`.

use std::path::Path;

use muster_api::domain::NodeId;
use muster_pki::jiff::Timestamp;
use muster_pki::{Reason, Serial};
use serde::Serialize;

use super::NodeCommandError;
use super::member::{cert_node, password};
use crate::cli::{node as cli, unit as unit_cli};
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::pki::{self, PkiCommandError};
use crate::unit;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    node: String,
    state: &'static str,
    /// Certificates that were revoked along the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<String>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct AllChanged(Vec<Changed>);

impl Answer for AllChanged {
    fn table(&self) -> Table {
        let row = |changed: &Changed| vec![changed.node.clone(), changed.state.to_owned()];
        Table::list(&["NODE", "STATE"], self.0.iter().map(row).collect())
    }
}

pub(super) async fn deprovision(
    command: &cli::Deprovision,
    console: &mut Console,
) -> Result<(), CommandError> {
    let revoked = take_out(
        &command.connection,
        &command.password,
        command.revoke.as_deref(),
        &command.node,
        console,
    )
    .await?;
    console.answer(&AllChanged(vec![Changed {
        node: command.node.to_string(),
        state: "unprovisioned",
        revoked: revoked.iter().map(ToString::to_string).collect(),
    }]))?;
    Ok(())
}

/// Deletes a node's keys and certificates, and revokes them where an authority is named; which those were.
pub(super) async fn take_out(
    connection: &cli::Connection,
    password: &cli::Password,
    authority: Option<&Path>,
    node: &NodeId,
    console: &mut Console,
) -> Result<Vec<Serial>, NodeCommandError> {
    let password = self::password(password)?;
    let iam = super::connect(connection).await?;
    iam.deprovision(node, &password).await?;
    match authority {
        Some(folder) => revoke(folder, node, console),
        None => Ok(Vec::new()),
    }
}

/// Revokes whatever certificates a node has; which those were.
pub(super) fn revoke(
    folder: &Path,
    node: &NodeId,
    console: &mut Console,
) -> Result<Vec<Serial>, NodeCommandError> {
    let now = Timestamp::now();
    let mut authority = pki::open(folder, now, console).map_err(NodeCommandError::Authority)?;
    let of_node = authority.ledger().valid_of_node(&cert_node(node)?, now);
    let serials: Vec<Serial> = of_node.iter().map(|cert| cert.issued.serial).collect();
    authority
        .revoke(&serials, Reason::CessationOfOperation, now)
        .map_err(|error| NodeCommandError::Authority(PkiCommandError::Revoke(error)))?;
    console.note(format_args!(
        "Revoked {} certificates of node {node}; servers and clients have to be given {} now.",
        serials.len(),
        authority.lists_file().display()
    ));
    Ok(serials)
}

pub(super) async fn pause(
    command: &cli::Change,
    console: &mut Console,
) -> Result<(), CommandError> {
    set_paused(command, true).await?;
    say(command, "paused", console)
}

pub(super) async fn resume(
    command: &cli::Change,
    console: &mut Console,
) -> Result<(), CommandError> {
    set_paused(command, false).await?;
    say(command, "provisioned", console)
}

/// Asks the Communication Manager if one is named, else the identity manager.
async fn set_paused(command: &cli::Change, paused: bool) -> Result<(), CommandError> {
    let connection = &command.connection;
    if command.unit.is_some() {
        let way = unit_cli::Connection {
            unit: command.unit.clone(),
            ca: connection.ca.clone(),
            cert: connection.cert.clone(),
            key: connection.key.clone(),
            crl: connection.crl.clone(),
        };
        let unit = unit::connect(&way).await?;
        for node in &command.nodes {
            unit::node::set_paused(&unit, node.as_ref(), paused).await?;
        }
        return Ok(());
    }
    let iam = super::connect(connection).await?;
    for node in &command.nodes {
        let done = match paused {
            true => iam.pause_node(node).await,
            false => iam.resume_node(node).await,
        };
        done.map_err(NodeCommandError::Call)?;
    }
    Ok(())
}

fn say(
    command: &cli::Change,
    state: &'static str,
    console: &mut Console,
) -> Result<(), CommandError> {
    let changed = command.nodes.iter().map(|node| Changed {
        node: node.to_string(),
        state,
        revoked: Vec::new(),
    });
    console.answer(&AllChanged(changed.collect()))?;
    Ok(())
}
