//! What goes on in a machine though nobody waits for it: of a manager that died, of a connection that was lost, and of what took too
//! long on a machine that did not answer any more.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_executor::{Command, Executor, Exit};
use muster_telemetry::ErrorChain;
use tokio::time::timeout;

use super::{JobContext, trouble_text};
use crate::entry::Why;
use crate::job::Slot;
use crate::workflow::Step;

/// How long it may take. A machine that does not answer is put away all the same.
const PATIENCE: Duration = Duration::from_secs(15);
/// So much of what is said about a failure is kept.
const SAID: usize = 1024;

/// Kills every process that was told all of this, and those that they start meanwhile, until there is none. What is run here was told
/// nothing. One that the kernel has not let go of yet is waited for.
const KILL: &str = r#"
[ -r /proc/self/environ ] || { echo "there is no /proc" >&2; exit 1; }
for tool in tr grep; do
    command -v "$tool" >/dev/null || { echo "there is no $tool" >&2; exit 1; }
done
round=0
while :; do
    found=
    for environ in /proc/[0-9]*/environ; do
        for told do
            tr '\0' '\n' <"$environ" 2>/dev/null | grep -qxF -- "$told" || continue 2
        done
        pid=${environ#/proc/}
        pid=${pid%/environ}
        if kill -KILL "$pid" 2>/dev/null; then found=yes
        elif [ -e "$environ" ]; then echo "process $pid cannot be killed" >&2; exit 1; fi
    done
    [ -n "$found" ] || exit 0
    round=$((round + 1))
    [ "$round" -lt 9 ] || sleep 1
done
"#;

/// The variables by which a command knows what it is part of: a machine may have several places in a run, and a place several steps
/// at once.
pub(super) const RUN: &str = "MUSTER_RUN";
pub(super) const GROUP: &str = "MUSTER_GROUP";
pub(super) const INDEX: &str = "MUSTER_INDEX";
pub(super) const STEP: &str = "MUSTER_STEP";

/// Before the machine is put away or kept: ends what goes on of all of the run's commands. Nobody hears of their end, and nobody would
/// end them in a machine that stays.
pub(super) async fn end_all(context: &JobContext, slot: &Slot) {
    if context.left_over.is_empty() {
        return;
    }
    let steps = context.left_over.iter();
    let steps = steps.filter_map(|name| context.workflow.step(name));
    let told = [format!("{RUN}={}", context.run)];
    if let Err(why) = kill(context, slot, &told, &users(steps)).await {
        note(context, &may_go_on(&why)).await;
    }
}

/// Before a step does anything: ends what goes on of it and of others, so that nothing runs beside it that has no place there.
pub(super) async fn end_steps(context: &JobContext, slot: &Slot, step: &Step) -> Result<(), Why> {
    let _alone = context.at_work.alone(slot).await;
    let left = context.left_over.iter();
    for left in left.filter_map(|name| context.workflow.step(name)) {
        // One that has begun meanwhile ends itself what was left of it.
        if left.name() == step.name() || !context.at_work.has(slot, left.name()) {
            end_step(context, slot, left).await?;
        }
    }
    Ok(())
}

async fn end_step(context: &JobContext, slot: &Slot, step: &Step) -> Result<(), Why> {
    let told = [
        format!("{RUN}={}", context.run),
        format!("{GROUP}={}", slot.group()),
        format!("{INDEX}={}", slot.index()),
        format!("{STEP}={}", step.name()),
    ];
    let users = users(std::iter::once(step));
    let Err(why) = kill(context, slot, &told, &users).await else {
        return Ok(());
    };
    let text = format!("{}: {}", step.name(), may_go_on(&why));
    match step.repeatable {
        // Whoever says that it is repeatable, says that this does no harm.
        true => {
            note(context, &text).await;
            Ok(())
        }
        false => Err(trouble_text(text)),
    }
}

/// Whom commands run as, beside whom the manager logs in as: what they were told, only they and root can see.
fn users<'a>(steps: impl Iterator<Item = &'a Step>) -> BTreeSet<&'a str> {
    let actions = steps.flat_map(Step::actions);
    let places = actions.filter_map(|action| action.place());
    places.filter_map(|place| place.user.as_deref()).collect()
}

fn may_go_on(why: &str) -> String {
    format!("what was interrupted may go on in the machine: {why}")
}

async fn note(context: &JobContext, text: &str) {
    context.log.note(text.to_owned()).await;
}

/// Why it may not have been done.
async fn kill(
    context: &JobContext,
    slot: &Slot,
    told: &[String],
    users: &BTreeSet<&str>,
) -> Result<(), String> {
    let Ok(record) = context.record() else {
        // What is gone runs nothing.
        return Ok(());
    };
    if record.state().is_ending() {
        return Ok(());
    }
    let killed = timeout(PATIENCE, async {
        let executor = context.reach(slot, &record).await;
        let executor = executor.map_err(|error| ErrorChain(&error).to_string())?;
        kill_as(&*executor, told, None).await?;
        for user in users {
            let killed = kill_as(&*executor, told, Some(user)).await;
            killed.map_err(|why| format!("as {user}: {why}"))?;
        }
        Ok(())
    });
    let killed = killed.await;
    killed.unwrap_or_else(|_| Err("it took too long".to_owned()))
}

async fn kill_as(
    executor: &dyn Executor,
    told: &[String],
    user: Option<&str>,
) -> Result<(), String> {
    let mut command = Command::new("/bin/sh")
        .args(["-c", KILL, "sh"])
        .args(told)
        .timeout(PATIENCE);
    command.user = user.map(ToOwned::to_owned);
    let ended = async { executor.run(&command).await?.output(SAID).await };
    match (ended.await, user) {
        (Ok(output), _) if output.exit.is_success() => Ok(()),
        (Ok(output), _) => Err(match String::from_utf8_lossy(&output.stderr).trim() {
            "" => output.exit.to_string(),
            said => said.to_owned(),
        }),
        (Err(error), Some(user))
            if error.class.is_not_started() && is_nobody(executor, user).await =>
        {
            Ok(())
        }
        (Err(error), _) => Err(ErrorChain(&error).to_string()),
    }
}

/// Whether the machine knows no such user: then nothing runs as him.
async fn is_nobody(executor: &dyn Executor, user: &str) -> bool {
    let question = Command::new("id").args(["-u", user]).timeout(PATIENCE);
    let answer = async { executor.run(&question).await?.wait().await };
    matches!(answer.await, Ok(Exit::Code(1)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Stdio};

    use muster_executor::local::LocalExecutor;

    use super::*;

    /// A process that was told this, and ends by itself only long after the test.
    fn told(words: &[String]) -> Child {
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        let mut command = std::process::Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).envs(pairs);
        command.spawn().expect("it runs")
    }

    #[tokio::test]
    async fn whatever_was_told_all_of_it_is_killed_and_nothing_else() {
        let run = format!("{RUN}=test-{:032x}", rand::random::<u128>());
        let step = |name: &str| [run.clone(), format!("{STEP}={name}")];
        let mut meant = told(&step("build"));
        let mut other = told(&step("build-2"));
        let here = LocalExecutor::new();
        let killed = kill_as(&here, &step("build"), None).await;
        assert_eq!(killed, Ok(()));
        let status = meant.wait().expect("it is ours");
        assert_eq!(status.signal(), Some(9));
        assert!(other.try_wait().expect("it is ours").is_none());
        // All that belongs to the run.
        let killed = kill_as(&here, &step("build")[..1], None).await;
        assert_eq!(killed, Ok(()));
        let status = other.wait().expect("it is ours");
        assert_eq!(status.signal(), Some(9));
    }

    #[tokio::test]
    async fn as_somebody_whom_the_machine_does_not_know_nothing_runs() {
        let here = LocalExecutor::new();
        let told = [format!("{RUN}=nothing")];
        let killed = kill_as(&here, &told, Some("muster-no-such-user")).await;
        assert_eq!(killed, Ok(()));
    }
}
