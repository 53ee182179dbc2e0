//! What a manager that died left running in a machine.

use std::time::Duration;

use muster_executor::Command;
use muster_telemetry::ErrorChain;
use tokio::time::timeout;

use super::{JobContext, trouble_text};
use crate::entry::Why;
use crate::job::Slot;
use crate::workflow::{Action, Step};

/// How long it may take. A machine that does not answer is put away all the same.
const PATIENCE: Duration = Duration::from_secs(15);

/// Kills every process that was told all of this, and those that they start meanwhile. What is run here was told nothing.
const KILL: &str = r#"
left=9
while [ "$left" -gt 0 ]; do
    found=
    for environ in /proc/[0-9]*/environ; do
        for told do
            tr '\0' '\n' <"$environ" 2>/dev/null | grep -qxF -- "$told" || continue 2
        done
        pid=${environ#/proc/}
        kill -KILL "${pid%/environ}" 2>/dev/null && found=yes
    done
    [ -n "$found" ] || exit 0
    left=$((left - 1))
done
"#;

/// The variables by which a command knows what it is part of: a machine may have several places in a run, and a place several steps
/// at once.
pub(super) const RUN: &str = "MUSTER_RUN";
pub(super) const GROUP: &str = "MUSTER_GROUP";
pub(super) const INDEX: &str = "MUSTER_INDEX";
pub(super) const STEP: &str = "MUSTER_STEP";

/// Before the machine is put away or kept: ends what goes on of all of the run's commands after the manager that began them. Nobody
/// hears of their end, and nobody would end them in a machine that stays.
pub(super) async fn end_all(context: &JobContext, slot: &Slot) {
    let told = [format!("{RUN}={}", context.run)];
    if let Err(why) = kill(context, slot, &told).await {
        note(context, &why).await;
    }
}

/// Before a step is done again: ends what goes on of it, so that it never runs beside itself.
pub(super) async fn end_step(context: &JobContext, slot: &Slot, step: &Step) -> Result<(), Why> {
    let has_commands = |action: &Action| matches!(action, Action::Run(_) | Action::Script(_));
    if !step.actions().iter().any(has_commands) {
        return Ok(());
    }
    let told = [
        format!("{RUN}={}", context.run),
        format!("{GROUP}={}", slot.group()),
        format!("{INDEX}={}", slot.index()),
        format!("{STEP}={}", step.name()),
    ];
    match kill(context, slot, &told).await {
        Ok(()) => Ok(()),
        // Whoever says that it is repeatable, says that this does no harm.
        Err(why) if step.repeatable => {
            note(context, &why).await;
            Ok(())
        }
        Err(why) => Err(trouble_text(may_go_on(&why))),
    }
}

fn may_go_on(why: &str) -> String {
    format!("what was interrupted may go on in the machine: {why}")
}

async fn note(context: &JobContext, why: &str) {
    context.log.note(may_go_on(why)).await;
}

/// Why it may not have been done.
async fn kill(context: &JobContext, slot: &Slot, told: &[String]) -> Result<(), String> {
    let Ok(record) = context.record() else {
        // What is gone runs nothing.
        return Ok(());
    };
    let command = Command::new("/bin/sh")
        .args(["-c", KILL, "sh"])
        .args(told)
        .timeout(PATIENCE);
    let killed = timeout(PATIENCE, async {
        let executor = context.reach(slot, &record).await;
        let executor = executor.map_err(|error| ErrorChain(&error).to_string())?;
        let ended = async { executor.run(&command).await?.wait().await };
        let exit = ended.await;
        exit.map_err(|error| ErrorChain(&error).to_string())
    });
    match killed.await {
        Ok(Ok(exit)) if exit.is_success() => Ok(()),
        Ok(Ok(exit)) => Err(exit.to_string()),
        Ok(Err(why)) => Err(why),
        Err(_) => Err("it took too long".to_owned()),
    }
}
