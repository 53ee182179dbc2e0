//! Whose rights a process has.

use std::io;

use muster_engine::protocol::SpawnError;
use muster_exec::accounts::{AccountError, Accounts, User};
use muster_exec::folders::Folder;
use muster_exec::{Identity, Names, Step};
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
    /// Names of which the system's name services may know more than the files: `muster-exec` asks them.
    pub(super) names: Option<Names>,
}

/// Looks the accounts of a unit up. `folders` are those of the unit: whose they are says which number a dynamic user had.
///
/// A name or number that the machine's files do not have is left to the name services. So are all names where those services may know
/// more groups of a user than the files do.
pub(super) fn look_up(
    config: &UnitConfig,
    own: (u32, u32),
    folders: &[Folder],
    machine: &mut dyn Machine,
) -> Result<Who, SpawnError> {
    let exec = &config.exec;
    let (user, group) = (effective::user(config), effective::group(config));
    let further = &exec.supplementary_groups.0;
    if user.is_none() && group.is_none() && further.is_empty() {
        return Ok(Who::default());
    }
    let found = in_files(config, own, folders, machine);
    let is_unknown = |error: &LookUpError| {
        matches!(
            error,
            LookUpError::Account(
                _,
                AccountError::NoUser { .. } | AccountError::NoGroup { .. }
            )
        )
    };
    let names = Names {
        user: user.map(Into::into),
        group: group.map(Into::into),
        groups: further.iter().map(Into::into).collect(),
        ..Names::default()
    };
    match found {
        Err(error) if is_unknown(&error) && !exec.dynamic_user => Ok(Who {
            names: Some(Names {
                login_environment: exec.set_login_environment != Some(false),
                ..names
            }),
            ..Who::default()
        }),
        Ok(who) if who.user.is_some() && !exec.dynamic_user && machine.has_name_services() => {
            Ok(Who {
                names: Some(names),
                ..who
            })
        }
        other => other.map_err(refused),
    }
}

/// An account could not be had.
enum LookUpError {
    Account(Step, AccountError),
    Dynamic { name: String, source: io::Error },
}

fn in_files(
    config: &UnitConfig,
    own: (u32, u32),
    folders: &[Folder],
    machine: &mut dyn Machine,
) -> Result<Who, LookUpError> {
    let exec = &config.exec;
    let user = effective::user(config);
    let user = user
        .map(|name| {
            let known = accounts(machine)?.user(&name);
            match known {
                Err(AccountError::NoUser { .. }) if exec.dynamic_user => {
                    let uid = dynamic(&name, folders, machine)?;
                    Ok(User {
                        name: name.into(),
                        uid,
                        gid: uid,
                        home: None,
                        shell: None,
                    })
                }
                other => other.map_err(|error| LookUpError::Account(Step::User, error)),
            }
        })
        .transpose()?;
    let mut gid_of = |name: &str| match accounts(machine)?.group(name) {
        Err(AccountError::NoGroup { .. }) if exec.dynamic_user => match &user {
            Some(user) if &*user.name == name => Ok(user.gid),
            _ => dynamic(name, folders, machine),
        },
        other => other.map_err(|error| LookUpError::Account(Step::Group, error)),
    };
    let gid = match effective::group(config) {
        Some(name) => gid_of(&name)?,
        None => user.as_ref().map_or(own.1, |user| user.gid),
    };
    let mut further = Vec::new();
    for name in exec.supplementary_groups.0.iter() {
        further.push(gid_of(name)?);
    }
    let mut groups = match &user {
        Some(user) => accounts(machine)?.groups_of(&user.name, gid),
        None => Vec::new(),
    };
    for gid in further {
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
        names: None,
    })
}

fn accounts(machine: &mut dyn Machine) -> Result<&Accounts, LookUpError> {
    machine
        .accounts()
        .map_err(|error| LookUpError::Account(Step::User, error))
}

fn dynamic(name: &str, folders: &[Folder], machine: &mut dyn Machine) -> Result<u32, LookUpError> {
    machine
        .dynamic_user(name, folders)
        .map_err(|source| LookUpError::Dynamic {
            name: name.to_owned(),
            source,
        })
}

fn refused(error: LookUpError) -> SpawnError {
    match error {
        LookUpError::Account(step, error) => {
            let errno = match &error {
                AccountError::Read { source, .. } => source.raw_os_error().unwrap_or(ESRCH),
                AccountError::NoUser { .. } | AccountError::NoGroup { .. } => ESRCH,
            };
            failed(step, error.to_string(), errno)
        }
        LookUpError::Dynamic { name, source } => {
            let what = format!("cannot make the dynamic user {name}");
            failed(Step::User, what, source.raw_os_error().unwrap_or(ESRCH))
        }
    }
}

/// The user whose name and home a process is told: its own, or the manager's where the unit wants that said.
pub(super) fn told(
    config: &UnitConfig,
    who: &Who,
    own: u32,
    machine: &mut dyn Machine,
) -> Option<User> {
    match config.exec.set_login_environment {
        Some(false) => None,
        Some(true) if who.user.is_none() => {
            let accounts = machine.accounts().ok()?;
            accounts.user(&own.to_string()).ok()
        }
        _ => who.user.clone(),
    }
}
