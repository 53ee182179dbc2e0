//! A machine is put away: whatever has become of the run, and of the machine.

use muster_lifecycle::{State, Verb};
use muster_machines::AskError;
use muster_provider::MachineId;
use tokio::time::timeout;

use super::provision::key_prefix;
use super::{JobContext, leftover, never, trouble, unsaved};
use crate::entry::JobResult;
use crate::job::Slot;
use crate::workflow::{End, Source};

pub(super) async fn clean(context: &JobContext, slot: &Slot) -> JobResult {
    let group = context.workflow.group(slot.group());
    let end = group.map_or(End::Destroy, |group| group.end(context.well));
    let made_here = group.is_none_or(|it| matches!(it.source(), Source::Template(_)));
    leftover::end_all(context, slot).await;
    let mut warnings = Vec::new();
    let mut failed = None;
    // Attempts that failed may have left machines which nobody used: those are destroyed in any case.
    for machine in ordered(context, slot) {
        if context.machine.as_ref() != Some(&machine)
            && let Err(error) = put_away(context, &machine, End::Destroy).await
        {
            failed = Some(error);
        }
    }
    let end = match &context.machine {
        Some(machine) => match unsaved::hold(context, slot, machine, end, &mut warnings).await {
            true => End::Keep,
            false => end,
        },
        None => end,
    };
    if let Some(machine) = &context.machine
        // One that was there before the run is touched only as far as the workflow says so.
        && (made_here || end != End::Keep)
        && let Err(error) = put_away(context, machine, end).await
    {
        failed = Some(error);
    }
    match failed {
        None => JobResult::Done {
            machine: None,
            warnings,
        },
        Some(error) => JobResult::Failed(trouble(&error)),
    }
}

/// Every machine that was ordered for the slot.
fn ordered(context: &JobContext, slot: &Slot) -> Vec<MachineId> {
    let prefix = key_prefix(&context.run, slot);
    let all = context.shared.machines.all();
    let ours = all.values().filter(|machine| {
        let key = machine.record().order.key.as_deref();
        key.is_some_and(|key| key.starts_with(&prefix))
    });
    ours.map(|machine| machine.record().id.clone()).collect()
}

async fn put_away(context: &JobContext, machine: &MachineId, end: End) -> Result<(), AskError> {
    let machines = &context.shared.machines;
    let (verb, reached): (Verb, fn(State) -> bool) = match end {
        End::Keep => return Ok(()),
        End::Destroy => (Verb::Terminate, |state| state == State::Terminated),
        End::Stop => (Verb::Stop, |state| {
            matches!(state, State::Stopped(_)) || state.is_ending()
        }),
    };
    match machines.ask(machine, verb).await {
        Ok(_) => {}
        Err(AskError::Ended) => never().await,
        // It is gone already, or stopped by itself.
        Err(AskError::Unknown(_)) => return Ok(()),
        Err(error) => {
            let state = machines.get(machine).map(|it| it.record().state());
            return match state.is_none_or(reached) {
                true => Ok(()),
                false => Err(error),
            };
        }
    }
    // The registry goes on until it is done; waiting only makes the end of the run mean more.
    let wait = machines.wait_until(machine, reached);
    match timeout(context.shared.settings.clean_wait, wait).await {
        Ok(Err(AskError::Ended)) => never().await,
        Ok(_) => {}
        Err(_) => {
            let text = format!("machine {machine} is still on its way to {verb}");
            context.log.note(text).await;
        }
    }
    Ok(())
}
