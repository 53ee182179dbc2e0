//! A machine comes to run: one that is made for the run, or one that exists.

use std::time::Duration;

use muster_lifecycle::{Halt, State, Verb};
use muster_machines::{AskError, OrderError, WorkKind};
use muster_provider::MachineId;
use muster_template::TemplateName;
use tokio::time::{Instant, timeout_at};

use super::{JobContext, RUN_LABEL, never, trouble, trouble_text};
use crate::entry::{JobResult, Why};
use crate::fault::ORDERED;
use crate::job::Slot;
use crate::reach::{Chosen, Wish};
use crate::run::RunId;
use crate::workflow::{Source, Wants};

/// The longest patience that an instant can take.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What all keys of orders for a slot begin with: attempts are numbered after it.
pub(super) fn key_prefix(run: &RunId, slot: &Slot) -> String {
    format!("run/{run}/{slot}/")
}

pub(super) async fn provision(context: &JobContext, slot: &Slot) -> JobResult {
    let deadline = Instant::now() + context.effort.timeout.get().min(LONGEST);
    let Some(group) = context.workflow.group(slot.group()) else {
        return JobResult::Failed(trouble_text(format!("there is no group of {slot}")));
    };
    let result = match group.source() {
        Source::Template(template) => {
            let ordered = order(context, slot, template, deadline).await;
            match ordered {
                Ok(Got::Ordered(machine)) => made(context, machine, deadline).await,
                Ok(Got::Free(machine)) => {
                    let text = format!("machine {machine} is free, and taken");
                    context.log.note(text).await;
                    existing(context, &machine, deadline).await
                }
                Err(result) => return result,
            }
        }
        Source::Machine(machine) => existing(context, machine, deadline).await,
    };
    result.map_or_else(
        |it| it,
        |machine| JobResult::Done {
            machine: Some(machine),
            warnings: Vec::new(),
        },
    )
}

/// A machine, of which it is not known whether it runs.
enum Got {
    /// It was made for this.
    Ordered(MachineId),
    /// It was there.
    Free(MachineId),
}

/// Orders a machine, unless that has been done, or takes one that is free.
async fn order(
    context: &JobContext,
    slot: &Slot,
    template: &TemplateName,
    deadline: Instant,
) -> Result<Got, JobResult> {
    let machines = &context.shared.machines;
    let key = format!("{}{}", key_prefix(&context.run, slot), context.attempt);
    let all = machines.all();
    let ordered = all.values().find(|machine| {
        let order = &machine.record().order;
        order.key.as_ref() == Some(&key)
    });
    if let Some(machine) = ordered {
        return Ok(Got::Ordered(machine.record().id.clone()));
    }
    let group = context.workflow.group(slot.group());
    let wish = Wish {
        template: template.clone(),
        provider: group.and_then(|group| group.provider()),
        wants: group.map_or_else(Wants::default, |group| group.wants().clone()),
        may_stay: group.is_some_and(|group| group.may_stay()),
        run: context.run.clone(),
        slot: slot.clone(),
        attempt: context.attempt,
    };
    let chosen = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(JobResult::Aborted),
        chosen = timeout_at(deadline, context.shared.chooser.choose(&wish)) => chosen,
    };
    let mut order = match chosen {
        Ok(Ok(Chosen::New(order))) => *order,
        Ok(Ok(Chosen::Existing(machine))) => return Ok(Got::Free(machine)),
        Ok(Err(error)) => return Err(JobResult::Failed(trouble(&error))),
        Err(_) => return Err(JobResult::Failed(Why::TimedOut)),
    };
    order.key = Some(key);
    let label = (RUN_LABEL.to_owned(), context.run.to_string());
    order.labels.extend([label]);
    // Not to be interrupted: an order that is on its way would be taken after cleaning has looked for it.
    match machines.order(order).await {
        Ok(machine) => {
            muster_fault::hit(ORDERED);
            Ok(Got::Ordered(machine))
        }
        Err(OrderError::Ended) => never().await,
        Err(error) => Err(JobResult::Failed(trouble(&error))),
    }
}

/// Waits until a new machine runs. One that does not is destroyed: nobody will use it.
async fn made(
    context: &JobContext,
    machine: MachineId,
    deadline: Instant,
) -> Result<MachineId, JobResult> {
    context
        .log
        .note(format!("machine {machine} is ordered"))
        .await;
    let waited = wait(context, &machine, deadline).await;
    if matches!(waited, Err(JobResult::Failed(_))) {
        // What cannot be destroyed now is destroyed when the run is cleaned up.
        let _ = context.shared.machines.destroy(&machine).await;
    }
    waited.map(|()| machine)
}

/// Brings a machine that exists to run.
async fn existing(
    context: &JobContext,
    machine: &MachineId,
    deadline: Instant,
) -> Result<MachineId, JobResult> {
    let machines = &context.shared.machines;
    // Nobody else takes it while it starts; one that is gone is told of below.
    let _busy = machines.begin_work(machine, WorkKind::Command);
    let settled = |state: State| !matches!(state, State::Pending | State::Stopping(_));
    let record = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(JobResult::Aborted),
        record = timeout_at(deadline, machines.wait_until(machine, settled)) => record,
    };
    let record = match record {
        Ok(Ok(record)) => record,
        Ok(Err(AskError::Ended)) => never().await,
        Ok(Err(error)) => return Err(JobResult::Failed(trouble(&error))),
        Err(_) => return Err(JobResult::Failed(Why::TimedOut)),
    };
    if let State::Stopped(halt) = record.state() {
        let verb = match halt {
            Halt::Off => Verb::Start,
            Halt::Hibernated => Verb::Resume,
        };
        match machines.ask(machine, verb).await {
            Ok(_) => {}
            Err(AskError::Ended) => never().await,
            Err(error) => return Err(JobResult::Failed(trouble(&error))),
        }
    }
    wait(context, machine, deadline).await?;
    Ok(machine.clone())
}

/// Waits until a machine runs.
async fn wait(
    context: &JobContext,
    machine: &MachineId,
    deadline: Instant,
) -> Result<(), JobResult> {
    let machines = &context.shared.machines;
    let waited = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(JobResult::Aborted),
        waited = timeout_at(deadline, machines.wait_until_up(machine)) => waited,
    };
    let record = match waited {
        Ok(Ok(record)) => record,
        Ok(Err(AskError::Ended)) => never().await,
        Ok(Err(error)) => return Err(JobResult::Failed(trouble(&error))),
        Err(_) => return Err(JobResult::Failed(Why::TimedOut)),
    };
    if record.state() == State::Running {
        return Ok(());
    }
    let why = record.failure().map(|it| format!(": {it}"));
    let reason = record.end().map(|it| format!(", because {it}"));
    let text = format!(
        "machine {machine} did not come to run{}{}",
        reason.unwrap_or_default(),
        why.unwrap_or_default()
    );
    Err(JobResult::Failed(trouble_text(text)))
}
