//! Asking something of machines.

use muster_machine_api::{time, v1};

use super::client::Manager;
use super::facts::{MachineFacts, OrphanFacts};
use super::make::spinner;
use super::{MachineCommandError, join};
use crate::cli::machine as cli;
use crate::console::Console;
use crate::error::CommandError;
use crate::text::shown;
use crate::unit::facts::Listing;

/// What destroying is called in the contract.
pub(super) const TERMINATE: &str = "terminate";

/// One machine after the other; one that fails does not keep the others from it.
pub(super) async fn ask(
    manager: &Manager,
    verb: &str,
    args: cli::Verb,
    console: &mut Console,
) -> Result<(), CommandError> {
    let all = args.machines.len();
    let mut failed = 0;
    let mut done = Vec::new();
    for machine in args.machines {
        let request = v1::AskRequest {
            machine: machine.clone(),
            verb: verb.to_owned(),
            wait: !args.no_wait,
            dry_run: args.dry_run,
        };
        if verb == TERMINATE && !args.dry_run {
            join::leave(manager, &machine, console).await;
        }
        let sign = spinner(format!("{verb} {machine}"));
        let answer = manager.ask("Ask", async |mut it| it.ask(request).await);
        let answer = answer.await;
        sign.finish_and_clear();
        match answer {
            Ok(answer) => {
                if answer.already {
                    console.note(format_args!("{machine}: there is nothing to do"));
                } else if args.dry_run {
                    console.note(format_args!("{machine}: it could be done"));
                }
                done.extend(answer.machine.map(MachineFacts::from));
            }
            Err(error) if all == 1 => return Err(MachineCommandError::Call(error).into()),
            Err(error) => {
                failed += 1;
                let error = CommandError::from(MachineCommandError::Call(error));
                console.report(&error);
            }
        }
    }
    console.answer(&Listing(done))?;
    match failed {
        0 => Ok(()),
        failed => Err(MachineCommandError::Several(failed).into()),
    }
}

pub(super) async fn keep_busy(
    manager: &Manager,
    busy: &cli::Busy,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::KeepBusyRequest {
        machine: busy.machine.clone(),
        time: Some(time::duration(busy.time.get())),
    };
    let answer = manager.ask("KeepBusy", async |mut it| it.keep_busy(request).await);
    let machine = answer.await.map_err(MachineCommandError::Call)?;
    Ok(console.answer(&Listing(vec![MachineFacts::from(machine)]))?)
}

pub(super) async fn gc(
    manager: &Manager,
    destroy: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::CollectOrphansRequest { destroy };
    let sign = spinner("asking providers".to_owned());
    let answer = manager.ask("CollectOrphans", async |mut it| {
        it.collect_orphans(request).await
    });
    let answer = answer.await;
    sign.finish_and_clear();
    let answer = answer.map_err(MachineCommandError::Call)?;
    match (answer.orphans.len(), destroy) {
        (0, _) => console.note("There are no orphans."),
        (_, false) => console.note("`muster machine gc --destroy` destroys them."),
        (_, true) => console.note("These were destroyed."),
    }
    let orphans = answer.orphans.into_iter().map(OrphanFacts::from);
    console.answer(&Listing(orphans.collect()))?;
    for failure in &answer.failures {
        console.note(shown(failure));
    }
    match answer.failures.len() {
        0 => Ok(()),
        failures => Err(MachineCommandError::Providers(failures).into()),
    }
}
