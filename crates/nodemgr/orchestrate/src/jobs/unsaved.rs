//! A machine has what nobody else has: changes of a folder that were to come back, and did not.

use std::time::Duration;

use muster_machines::AskError;
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;

use super::{JobContext, never};
use crate::job::Slot;
use crate::workflow::there::{Login, TherePath};
use crate::workflow::{End, Transfer};

/// How long somebody has to see to it. Then the machine goes as its timers say: it may cost money.
const DAYS: u64 = 3;

/// Tells where the changes are, and what to do. A machine that was to be destroyed is kept instead, which is the answer.
pub(super) async fn hold(
    context: &JobContext,
    slot: &Slot,
    machine: &MachineId,
    end: End,
    warnings: &mut Vec<String>,
) -> bool {
    let machines = &context.shared.machines;
    let there = machines.get(machine);
    if context.not_brought_back.is_empty() || there.is_none_or(|it| it.record().state().is_ending())
    {
        return false;
    }
    let mut kept = end == End::Destroy;
    if kept {
        let time = Duration::from_secs(DAYS * 24 * 60 * 60);
        match machines.heartbeat(machine, time).await {
            Ok(()) => {}
            Err(AskError::Ended) => never().await,
            Err(AskError::Unknown(_)) => kept = false,
            Err(error) => {
                let text = format!("machine {machine} may be put away: {}", ErrorChain(&error));
                context.log.note(text).await;
            }
        }
    }
    let login = context.executors.login(slot);
    for folder in &context.not_brought_back {
        let text = told(machine, folder, login.as_ref(), kept);
        context.log.note(format!("warning: {text}")).await;
        warnings.push(text);
    }
    kept
}

fn told(machine: &MachineId, folder: &Transfer, login: Option<&Login>, kept: bool) -> String {
    let there = match (TherePath::read(&folder.from), login) {
        (Some(path), Some(login)) => path.resolve(login),
        // Commands and copies begin in the home.
        (Some(TherePath::Home(below)), None) => below.to_owned(),
        (Some(TherePath::Sources(below)), None) => format!("/src{below}"),
        (Some(TherePath::Absolute(path)), None) => path.to_owned(),
        (None, _) => folder.from.clone(),
    };
    let begin = format!(
        "what changed in {there} of machine {machine} did not come back to {}",
        folder.to
    );
    let copy = format!("`muster machine cp {machine}:{there} FOLDER` copies it");
    match kept {
        true => format!(
            "{begin}, so the machine is kept for {DAYS} days: {copy}, `muster machine destroy {machine}` gives it up"
        ),
        false => format!("{begin}: {copy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(from: &str) -> Transfer {
        Transfer {
            from: from.to_owned(),
            to: "/home/me/src".to_owned(),
            delete: false,
            only_changes: true,
        }
    }

    #[test]
    fn it_is_said_where_the_changes_are_and_how_to_get_them() {
        let machine = MachineId::new("m-1").expect("an id");
        let login = Login::read("1000\n/home/you\n").expect("a login");
        let told = |from, login, kept| told(&machine, &folder(from), login, kept);
        let known = told("{src}", Some(&login), true);
        assert!(
            known.contains("muster machine cp m-1:/home/you/src FOLDER")
                && known.contains("muster machine destroy m-1")
                && known.contains("did not come back to /home/me/src"),
            "{known}"
        );
        assert!(told("{src}", None, true).contains("m-1:/src "));
        assert!(told("~/x", None, true).contains("m-1:x "));
        let stays = told("/srv/x", None, false);
        assert!(
            stays.contains("m-1:/srv/x ") && !stays.contains("destroy"),
            "{stays}"
        );
    }
}
