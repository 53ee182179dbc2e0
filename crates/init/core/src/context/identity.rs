//! Whose rights a process has.

use muster_engine::protocol::SpawnError;
use muster_exec::accounts::{AccountError, User};
use muster_exec::{Identity, Step};
use muster_unit_file::config::UnitConfig;
use muster_units::effective;

use super::failed;
use super::machine::Machine;

const ESRCH: i32 = 3;

/// The accounts that a unit names.
#[derive(Debug, Default)]
pub(super) struct Who {
    /// The user, if one is named.
    pub(super) user: Option<User>,
    /// All of it, if anything is named.
    pub(super) identity: Option<Identity>,
}

/// Looks the accounts of a unit up.
///
/// A dynamic user that the machine does not happen to have is an error: running as the manager's own user instead would be
/// the opposite of what was asked for.
pub(super) fn look_up(
    config: &UnitConfig,
    own: (u32, u32),
    machine: &mut dyn Machine,
) -> Result<Who, SpawnError> {
    let exec = &config.exec;
    let (user, group) = (effective::user(config), effective::group(config));
    let further = &exec.supplementary_groups.0;
    if user.is_none() && group.is_none() && further.is_empty() {
        return Ok(Who::default());
    }
    let accounts = machine
        .accounts()
        .map_err(|error| refused(Step::User, &error))?;
    let user = user.map(|name| accounts.user(&name)).transpose();
    let user = user.map_err(|error| {
        if exec.dynamic_user {
            let what = format!("{error}, and DynamicUser= is not carried out yet");
            failed(Step::User, what, ESRCH)
        } else {
            refused(Step::User, &error)
        }
    })?;
    let gid = match &group {
        Some(name) => accounts
            .group(name)
            .map_err(|error| refused(Step::Group, &error))?,
        None => user.as_ref().map_or(own.1, |user| user.gid),
    };
    let mut groups = match &user {
        Some(user) => accounts.groups_of(&user.name, gid),
        None => Vec::new(),
    };
    for name in further.iter() {
        let gid = accounts
            .group(name)
            .map_err(|error| refused(Step::Group, &error))?;
        if !groups.contains(&gid) {
            groups.push(gid);
        }
    }
    let identity = Identity {
        uid: user.as_ref().map_or(own.0, |user| user.uid),
        gid,
        groups,
    };
    Ok(Who {
        user,
        identity: Some(identity),
    })
}

fn refused(step: Step, error: &AccountError) -> SpawnError {
    let errno = match error {
        AccountError::Read { source, .. } => source.raw_os_error().unwrap_or(ESRCH),
        AccountError::NoUser { .. } | AccountError::NoGroup { .. } => ESRCH,
    };
    failed(step, error.to_string(), errno)
}
