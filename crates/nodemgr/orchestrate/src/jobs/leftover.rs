//! What a manager that died left running in a machine.

use std::time::Duration;

use muster_executor::Command;
use muster_telemetry::ErrorChain;
use tokio::time::timeout;

use super::JobContext;
use crate::job::Slot;

/// How long it may take. A machine that does not answer is put away all the same.
const PATIENCE: Duration = Duration::from_secs(15);

/// Kills every process that was told that it is part of this run, and those that they start meanwhile. What is run here was not.
const KILL: &str = r#"
left=9
while [ "$left" -gt 0 ]; do
    found=
    for environ in /proc/[0-9]*/environ; do
        tr '\0' '\n' <"$environ" 2>/dev/null | grep -qxF "MUSTER_RUN=$1" || continue
        pid=${environ#/proc/}
        kill -KILL "${pid%/environ}" 2>/dev/null && found=yes
    done
    [ -n "$found" ] || exit 0
    left=$((left - 1))
done
"#;

/// Ends what goes on of a run's commands after the manager that began them: nobody hears of its end, and nobody would end it in a
/// machine that stays.
pub(super) async fn kill(context: &JobContext, slot: &Slot) {
    let Ok(record) = context.record() else {
        return;
    };
    let command = Command::new("/bin/sh")
        .args(["-c", KILL, "sh", context.run.as_str()])
        .timeout(PATIENCE);
    let killed = timeout(PATIENCE, async {
        let executor = context.reach(slot, &record).await;
        let executor = executor.map_err(|error| ErrorChain(&error).to_string())?;
        let ended = async { executor.run(&command).await?.wait().await };
        let exit = ended.await;
        exit.map_err(|error| ErrorChain(&error).to_string())
    });
    let why = match killed.await {
        Ok(Ok(exit)) if exit.is_success() => return,
        Ok(Ok(exit)) => exit.to_string(),
        Ok(Err(why)) => why,
        Err(_) => "it took too long".to_owned(),
    };
    let text = format!("what was interrupted may go on in the machine: {why}");
    context.log.note(text).await;
}
