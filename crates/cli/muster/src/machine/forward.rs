//! `forward`: ports of this machine that lead to ports of another, or of what that one can reach.

use std::net::SocketAddr;
use std::sync::Arc;

use muster_executor::{ExecutorError, FailureClass, Forwarder, Means, Operation};
use muster_machine_api::v1;
use serde::Serialize;
use tokio::task::JoinSet;

use super::MachineCommandError;
use super::client::Manager;
use super::exec::{Used, exit_of, hold};
use super::stops::Stops;
use crate::cli::machine as cli;
use crate::console::{Answer, Console, Exit, Table};
use crate::error::CommandError;

/// A port of this machine, and where it leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Forwarded {
    listen: SocketAddr,
    to: String,
}

/// All of them.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllForwarded(Vec<Forwarded>);

impl Answer for AllForwarded {
    fn table(&self) -> Table {
        let rows = self.0.iter();
        let rows = rows.map(|it| vec![it.listen.to_string(), crate::text::shown(&it.to)]);
        Table::list(&["HERE", "THERE"], rows.collect())
    }
}

/// Forwards until somebody ends it.
pub(super) async fn forward(
    manager: &Manager,
    args: cli::Forward,
    console: &mut Console,
) -> Result<Exit, CommandError> {
    let mut stops = Stops::listen().map_err(MachineCommandError::Signals)?;
    let (used, forwarders) = match stops.during(begin(manager, args)).await {
        Ok(begun) => begun?,
        Err(stop) => return Ok(exit_of(&stop)),
    };
    let all = forwarders.iter().map(|it| Forwarded {
        listen: it.address(),
        to: it.target(),
    });
    console.answer(&AllForwarded(all.collect()))?;
    console.flush()?;
    // They run until they are dropped.
    let mut running = JoinSet::new();
    for forwarder in forwarders {
        running.spawn(forwarder.run());
    }
    let stop = stops.next().await;
    drop((running, used));
    Ok(exit_of(&stop))
}

/// Holds the machine, and opens the ports here.
async fn begin(
    manager: &Manager,
    args: cli::Forward,
) -> Result<(Used, Vec<Forwarder>), CommandError> {
    let used = hold(manager, &args.machine, v1::HoldKind::Session).await?;
    if !used.executor.can(Means::Forward) {
        let why = "there is no way to ports of such a machine";
        let class = FailureClass::Unsupported;
        let error = ExecutorError::new(Operation::Forward, &args.machine, class, why);
        return Err(used.not_done(error));
    }
    // One that does not answer is told now, and not to whoever connects later.
    let answers = used.executor.probe().await;
    answers.map_err(|error| used.not_done(error))?;
    let mut forwarders = Vec::new();
    for ports in args.ports {
        let executor = Arc::clone(&used.executor);
        let bound = Forwarder::bind(executor, ports.listen, ports.host, ports.port).await;
        forwarders.push(bound.map_err(|error| used.not_done(error))?);
    }
    Ok((used, forwarders))
}
