//! `muster machine runs`.

use muster_machine_api::v1;

use super::client::Manager;
use super::facts::RunFacts;
use super::follow::RunLog;
use super::run::written;
use super::{MachineCommandError, events, follow, watch};
use crate::call::{CallError, Peer};
use crate::cli::machine::{RunLogs, RunNames, Runs};
use crate::console::Console;
use crate::error::CommandError;
use crate::text::shown;
use crate::unit::facts::Listing;

pub(super) async fn run(
    manager: &Manager,
    command: Runs,
    console: &mut Console,
) -> Result<(), CommandError> {
    let failed = MachineCommandError::Call;
    match command {
        Runs::List(wanted) if wanted.watch => {
            watch::list(async || list(manager).await, console).await?;
        }
        Runs::List(_) => {
            let runs = list(manager).await.map_err(failed)?;
            if runs.is_empty() {
                console.note("There are no runs; `muster machine run` makes one.");
            }
            console.answer(&Listing(runs))?;
        }
        Runs::Show(wanted) => {
            let run = wanted.name.run;
            let ask = async || follow::show(manager, &run).await.map(RunFacts::from);
            match wanted.watch {
                true => watch::one(ask, |it| it.state != "running", console).await?,
                false => console.answer(&ask().await.map_err(failed)?)?,
            }
        }
        Runs::Logs(logs) => return show_log(manager, logs, console).await,
        Runs::Events(wanted) => {
            let call = "ReadRunEvents";
            let follow = wanted.follow;
            let request = v1::ReadRunEventsRequest {
                run: wanted.run,
                after: 0,
                follow,
            };
            let stream = manager.ask_runs(call, async |mut it| it.read_run_events(request).await);
            let stream = stream.await.map_err(failed)?;
            events::show(call, stream, follow, console).await?;
        }
        Runs::Cancel(names) => cancel(manager, names, console).await?,
        Runs::Remove(names) => {
            for run in names.runs {
                let request = v1::RemoveRunRequest { run };
                let call = "RemoveRun";
                let answer = manager.ask_runs(call, async |mut it| it.remove_run(request).await);
                answer.await.map_err(failed)?;
            }
        }
    }
    Ok(())
}

async fn list(manager: &Manager) -> Result<Vec<RunFacts>, CallError> {
    let request = v1::ListRunsRequest {};
    let answer = manager.ask_runs("ListRuns", async |mut it| it.list_runs(request).await);
    let runs = answer.await?.runs;
    Ok(runs.into_iter().map(RunFacts::from).collect())
}

async fn cancel(
    manager: &Manager,
    names: RunNames,
    console: &mut Console,
) -> Result<(), CommandError> {
    let mut cancelled = Vec::new();
    for run in names.runs {
        let request = v1::CancelRunRequest { run };
        let answer = manager.ask_runs("CancelRun", async |mut it| it.cancel_run(request).await);
        let run = answer.await.map_err(MachineCommandError::Call)?;
        cancelled.push(RunFacts::from(run));
    }
    Ok(console.answer(&Listing(cancelled))?)
}

async fn show_log(
    manager: &Manager,
    logs: RunLogs,
    console: &mut Console,
) -> Result<(), CommandError> {
    if logs.follow {
        let mut log = RunLog::new(manager, &logs.run);
        while let Some(piece) = log.next().await.map_err(MachineCommandError::Call)? {
            show_piece(&piece, console)?;
        }
        return Ok(());
    }
    let call = "ReadRunLogs";
    let request = v1::ReadRunLogsRequest {
        run: logs.run,
        step: String::new(),
        follow: false,
        from: 0,
    };
    let stream = manager.ask_runs(call, async |mut it| it.read_run_logs(request).await);
    let mut stream = stream.await.map_err(MachineCommandError::Call)?;
    let failed = |status| MachineCommandError::Call(Peer::NodeManager.failed(call, status));
    while let Some(piece) = stream.message().await.map_err(failed)? {
        show_piece(&piece, console)?;
    }
    Ok(())
}

/// What commands wrote, byte by byte, and words of the manager's own to standard error.
fn show_piece(piece: &v1::RunLog, console: &mut Console) -> Result<(), CommandError> {
    if piece.stream == "note" {
        console.note(format_args!("muster: {}", shown(piece.text.trim_end())));
        return Ok(());
    }
    console.print_bytes(written(piece))?;
    Ok(console.flush()?)
}
