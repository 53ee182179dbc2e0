//! `stop` and `reboot` from inside: the machine is asked itself, by whatever runs commands there.

use muster_executor::PowerVerb;
use muster_machine_api::v1;

use super::MachineCommandError;
use super::client::Manager;
use super::exec::hold;
use crate::console::Console;
use crate::error::CommandError;

/// One machine after the other; one that fails does not keep the others from it. Each has taken it on when this is done, and
/// the node manager sees what becomes of it.
pub(super) async fn switch(
    manager: &Manager,
    verb: PowerVerb,
    machines: Vec<String>,
    console: &mut Console,
) -> Result<(), CommandError> {
    let all = machines.len();
    let mut failed = 0;
    for machine in machines {
        match switch_one(manager, verb, &machine).await {
            Ok(()) => {
                let what = match verb {
                    PowerVerb::Off => "it switches itself off",
                    PowerVerb::Reboot => "it boots again",
                };
                console.note(format_args!("{machine}: {what}"));
            }
            Err(error) if all == 1 => return Err(error),
            Err(error) => {
                failed += 1;
                console.report(&error);
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(MachineCommandError::Several(failed).into()),
    }
}

async fn switch_one(manager: &Manager, verb: PowerVerb, machine: &str) -> Result<(), CommandError> {
    let used = hold(manager, machine, v1::HoldKind::Command).await?;
    let switched = used.executor.power(verb).await;
    switched.map_err(|error| used.not_done(error))
}
