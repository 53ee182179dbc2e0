//! How an instance looks from outside.

use std::collections::BTreeSet;

use muster_api::domain::{
    AosError, EnvVar, EnvVarName, EnvVarStatus, InstanceInfo, InstanceState, InstanceStatus,
};

use super::instance::{Fetch, Have, Instance, Pulse};
use crate::target::Refused;

/// What the controller is told. An instance always was something once, or it would not be known.
pub(super) fn of(instance: &Instance) -> InstanceStatus {
    if let Some(refused) = &instance.refused {
        return refusal(refused);
    }
    let (state, error) = state(instance);
    let shown = shown(instance);
    let env_vars = variables(instance, error.as_ref());
    InstanceStatus {
        instance: shown.instance.clone(),
        version: shown.version.clone(),
        runtime_id: Some(shown.runtime_id.clone()),
        manifest_digest: Some(shown.manifest_digest),
        env_vars,
        state,
        error,
    }
}

fn refusal(refused: &Refused) -> InstanceStatus {
    InstanceStatus {
        instance: refused.instance.clone(),
        version: refused.version.clone(),
        runtime_id: None,
        manifest_digest: None,
        env_vars: Vec::new(),
        state: InstanceState::Failed,
        error: Some(refused.fault.clone()),
    }
}

/// The version that the status is about: what there is, or else what is wanted.
fn shown(instance: &Instance) -> &InstanceInfo {
    let have = instance.have.target().map(|(target, _)| &target.info);
    let want = instance.want.as_ref().map(|want| &want.info);
    have.or(want)
        .or(instance.goal.as_deref())
        .or(instance.last.as_deref())
        .expect("an instance is made with a goal or a run")
}

/// Which variables were set for it: those of what there is of it, or why those that are wanted are not.
fn variables(instance: &Instance, fault: Option<&AosError>) -> Vec<EnvVarStatus> {
    let have = match (&instance.have, &instance.not_yet) {
        // To look again for what was not there yet is no news.
        (Have::Starting { .. }, Some(_)) => None,
        (have, _) => have.target().map(|(target, _)| target),
    };
    let (target, error) = match (have, &instance.want, fault) {
        (Some(target), _, _) => (target, None),
        (None, Some(target), Some(fault)) => (target, Some(fault)),
        _ => return Vec::new(),
    };
    let said = target.info.env_vars.iter().chain(&target.env_override);
    let names: BTreeSet<&EnvVarName> = said.map(EnvVar::name).collect();
    let status = |name: &EnvVarName| EnvVarStatus {
        name: name.clone(),
        error: error.cloned(),
    };
    names.into_iter().map(status).collect()
}

fn state(instance: &Instance) -> (InstanceState, Option<AosError>) {
    let fetch_fault = match &instance.fetch {
        Fetch::Failed { fault, .. } => Some(fault),
        _ => None,
    };
    let rejected = instance.rejected.as_ref().map(|it| &it.fault);
    match &instance.have {
        Have::Up(up) if up.given_up.is_some() => (InstanceState::Failed, up.given_up.clone()),
        Have::Up(up) => match up.pulse {
            // What keeps it from being newer than it is.
            Pulse::Running => (InstanceState::Active, fetch_fault.or(rejected).cloned()),
            Pulse::Starting | Pulse::Restarting => {
                (InstanceState::Activating, instance.fault.clone())
            }
        },
        Have::Starting { .. } => {
            let waits_for = instance.not_yet.as_ref().map(|it| &it.fault);
            let fault = waits_for.or(instance.fault.as_ref());
            (InstanceState::Activating, fault.cloned())
        }
        Have::Stopping { .. } if instance.stop_fault().is_some() => {
            (InstanceState::Failed, instance.stop_fault().cloned())
        }
        Have::Stopping { .. } | Have::Left { .. } if instance.want.is_some() => {
            (InstanceState::Activating, None)
        }
        // It holds what it holds until it is gone.
        Have::Stopping { .. } | Have::Left { .. } => (InstanceState::Active, None),
        Have::Stuck { fault, .. } => (InstanceState::Failed, Some(fault.clone())),
        Have::Nothing => nothing(instance, fetch_fault.or(instance.fault.as_ref())),
    }
}

fn nothing(instance: &Instance, fault: Option<&AosError>) -> (InstanceState, Option<AosError>) {
    if instance.goal.is_none() {
        return (InstanceState::Inactive, None);
    }
    if let Some(held) = &instance.held {
        return (InstanceState::Inactive, Some(held.clone()));
    }
    if let Some(waits_for) = &instance.not_yet {
        return (InstanceState::Activating, Some(waits_for.fault.clone()));
    }
    match fault {
        Some(fault) => (InstanceState::Failed, Some(fault.clone())),
        None => (InstanceState::Activating, None),
    }
}
