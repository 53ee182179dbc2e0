//! What a process is kept from and what it is given, beyond what the direct path sets up.
//!
//! [`build`] turns a unit's settings, with what systemd lets them imply, into a [`Sandbox`] for `muster-exec`, or into
//! nothing where the unit asks for nothing of the kind: such a process is executed at once.
//!
//! What a mark before the command does: `+` runs it outside of everything but the unit's secrets; `!` leaves user and
//! groups alone and keeps the rest; `!!` means nothing on kernels that have ambient capabilities, and all that Muster
//! runs on do.

mod calls;
mod images;
mod secrets;
mod view;

pub(super) use secrets::folder as credentials_folder;

use muster_engine::protocol::{ExecKind, SpawnError};
use muster_exec::folders::Folder;
use muster_exec::{
    CapabilitySets, Keyring, KnownUsers, Login, Names, Namespace, Namespaces, NumaPolicy as Numa,
    Sandbox, Step,
};
use muster_mounts::View;
use muster_seccomp::Policy;
use muster_unit_file::config::{
    KeyringMode, NumaPolicy, Personality, PrivateUsers, ProcSubset, UnitConfig, UnitKind,
};
use muster_unit_file::value::access::Capabilities;
use muster_units::effective;

use super::identity::Who;
use super::machine::Machine;
use super::{ENOSYS, Facts, failed};

const SYS_ADMIN: u64 = 1 << 21;
/// What the kernel calls a 32-bit machine.
const PER_LINUX32: u32 = 8;
const ROOT: u32 = 0;
/// Why users cannot be lent for a run.
const NOBODY_LENDS: &str = "nobody here lends ranges of users (managed)";

/// What a process needs of `muster-exec`.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Nothing where the process can be executed at once.
    pub(super) sandbox: Option<Box<Sandbox>>,
    /// Executing a program never gives it more rights.
    pub(super) no_new_privileges: bool,
    /// The keyring of a process without a sandbox.
    pub(super) keyring: Keyring,
    /// What is left out here already, as `Directive: why`.
    pub(super) dropped: Vec<Box<str>>,
}

/// The command and its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of<'a> {
    pub(super) config: &'a UnitConfig,
    pub(super) kind: ExecKind,
    /// `+`
    pub(super) privileged: bool,
    /// The process keeps the manager's user.
    pub(super) keeps_identity: bool,
    pub(super) who: &'a Who,
    pub(super) folders: &'a [Folder],
    /// The terminal that the process talks to.
    pub(super) terminal: Option<&'a str>,
}

pub(super) fn build(
    of: Of<'_>,
    facts: &Facts<'_>,
    machine: &dyn Machine,
) -> Result<Asked, SpawnError> {
    let exec = &of.config.exec;
    let mut dropped = Vec::new();
    let mut sandbox = Sandbox {
        best_effort: exec.sandbox.best_effort,
        ..secrets::of(of.config, of.kind, facts, machine)
    };
    let mut no_new_privileges = false;
    if !of.privileged {
        refuse_the_undone(of.config)?;
        confine(&mut sandbox, of, facts, &mut dropped);
        no_new_privileges = effective::no_new_privileges(exec) || loses_rights(of, &sandbox);
    }
    sandbox.names = names(of, sandbox.credentials_folder.is_some());
    if sandbox.credentials_folder.is_some() {
        // The first command of a run puts them there for all others, whatever rights it keeps itself.
        let owner = of.who.identity.as_ref();
        sandbox.credentials_owner = owner.map(|owner| (owner.uid, owner.gid));
    }
    let needed = sandbox
        != Sandbox {
            best_effort: sandbox.best_effort,
            ..Sandbox::default()
        };
    let keyring = keyring(of.config);
    let sandbox = needed.then(|| {
        Box::new(Sandbox {
            unit: of.config.name.as_str().into(),
            keyring,
            ..sandbox
        })
    });
    Ok(Asked {
        keyring: match &sandbox {
            Some(_) => Keyring::Inherit,
            None => keyring,
        },
        sandbox,
        no_new_privileges,
        dropped,
    })
}

/// Names that have to be looked up: for the process, or for whose its folders and secrets are.
fn names(of: Of<'_>, has_secrets: bool) -> Option<Names> {
    let names = of.who.names.clone()?;
    if !of.keeps_identity {
        return Some(names);
    }
    let is_known = of.who.identity.is_some();
    let owns = has_secrets || !of.folders.is_empty();
    (!is_known && owns).then_some(Names {
        login_environment: false,
        only_for_folders: true,
        ..names
    })
}

/// Whose keyring a process has: each command of a service its own, unless the unit says otherwise.
fn keyring(config: &UnitConfig) -> Keyring {
    let is_service = matches!(config.kind, UnitKind::Service(_));
    match config.exec.sandbox.keyring_mode {
        Some(KeyringMode::Inherit) => Keyring::Inherit,
        Some(KeyringMode::Private) => Keyring::Private,
        None if is_service => Keyring::Private,
        None | Some(KeyringMode::Shared) => Keyring::Shared,
    }
}

fn confine(sandbox: &mut Sandbox, of: Of<'_>, facts: &Facts<'_>, dropped: &mut Vec<Box<str>>) {
    let exec = &of.config.exec;
    let stated = &exec.sandbox;
    let view = view::of(of, facts);
    if view != View::default() {
        // Others' secrets are hidden wherever something is hidden at all.
        let runtime = facts
            .host
            .specifiers
            .runtime_directory
            .trim_end_matches('/');
        sandbox.view = View {
            credentials: sandbox.credentials_folder.clone(),
            all_credentials: Some(format!("{runtime}/{}", secrets::FOLDER).into()),
            ..view
        };
    }
    sandbox.namespaces = Namespaces {
        network: namespace(
            stated.private_network,
            stated.network_namespace_path.as_ref().map(|path| &*path.0),
        ),
        ipc: namespace(
            stated.private_ipc,
            stated.ipc_namespace_path.as_ref().map(|path| &*path.0),
        ),
        uts: stated.protect_hostname,
        users: stated.private_users.is_on(),
        known_users: match stated.private_users {
            PrivateUsers::No | PrivateUsers::Own | PrivateUsers::Managed => KnownUsers::Own,
            PrivateUsers::Identity => KnownUsers::First,
            PrivateUsers::Full => KnownUsers::All,
        },
        groups: stated.protect_control_groups.is_own(),
        pids: stated.private_pids,
    };
    if stated.private_users == PrivateUsers::Managed {
        // It gets here only where the unit is content with less.
        dropped.push(format!("PrivateUsers: {NOBODY_LENDS}").into());
    }
    let bounding = effective::bounding_set(exec);
    let ambient = stated.ambient_capabilities.0;
    if bounding != Capabilities::ALL || ambient != Capabilities::NONE {
        sandbox.capabilities = Some(CapabilitySets {
            bounding: bounding.0,
            ambient: ambient.0 & bounding.0,
        });
    }
    sandbox.secure_bits = stated.secure_bits.0;
    sandbox.personality = stated.personality.and_then(|personality| {
        let number = personality_number(personality, facts.host.specifiers.architecture.as_deref());
        if number.is_none() {
            let name = personality.as_str();
            dropped.push(format!("Personality: this machine cannot pass for {name}").into());
        }
        number
    });
    sandbox.system_calls = calls::of(exec, sandbox.personality);
    sandbox.numa = exec.scheduling.numa_policy.map(|policy| Numa {
        policy: match policy {
            NumaPolicy::Default => 0,
            NumaPolicy::Preferred => 1,
            NumaPolicy::Bind => 2,
            NumaPolicy::Interleave => 3,
            NumaPolicy::Local => 4,
        },
        nodes: exec
            .scheduling
            .numa_mask
            .iter()
            .filter_map(|node| u16::try_from(node).ok())
            .collect(),
    });
    let labels = &exec.labels;
    sandbox.apparmor_profile = labels.apparmor_profile.clone();
    sandbox.selinux_context = labels.selinux_context.clone();
    sandbox.smack_label = labels.smack_process_label.clone();
    // Without a user there is nobody to log in, and a command that stays as it is is no login.
    let user = effective::user(of.config).filter(|_| !of.keeps_identity);
    sandbox.login = labels
        .pam_name
        .as_ref()
        .zip(user)
        .map(|(service, user)| Login {
            service: service.clone(),
            user: user.into(),
            terminal: of.terminal.map(Into::into),
        });
    sandbox.insists_on_view = exec.dynamic_user;
    // The machine's files do not know a name that is free to be lent, but name services might.
    let stated = exec.user.as_ref().map(|user| user.0.to_string());
    sandbox.lent_user = stated
        .filter(|_| exec.dynamic_user && !of.keeps_identity)
        .map(Into::into);
    // What is asked for is said if it cannot be had, which takes the helper; what every service has needs none.
    if exec.sandbox.keyring_mode.is_some() {
        sandbox.keyring = keyring(of.config);
    }
}

/// A namespace of its own is one that others of the run, or of a run that joins it, may share.
fn namespace(own: bool, path: Option<&str>) -> Namespace {
    match (path, own) {
        (Some(path), _) => Namespace::Of(path.into()),
        (None, true) => Namespace::Own,
        (None, false) => Namespace::Shared,
    }
}

/// The kernel takes a filter only from those who may administer the machine, or who cannot gain rights any more.
fn loses_rights(of: Of<'_>, sandbox: &Sandbox) -> bool {
    let ambient = sandbox.capabilities.map_or(0, |sets| sets.ambient);
    let user = of.who.identity.as_ref().map(|identity| identity.uid);
    let is_root = of.keeps_identity
        || match user {
            Some(user) => user == ROOT,
            None => of.who.names.is_none(),
        };
    sandbox.system_calls != Policy::default() && !is_root && ambient & SYS_ADMIN == 0
}

/// What this machine has to be told to pass for another; `None` if it cannot.
fn personality_number(personality: Personality, native: Option<&str>) -> Option<u32> {
    let narrow = match native? {
        "x86-64" => "x86",
        "arm64" => "arm",
        "ppc64" => "ppc",
        "ppc64-le" => "ppc-le",
        "s390x" => "s390",
        _ => "",
    };
    match personality.as_str() {
        name if Some(name) == native => Some(0),
        name if name == narrow => Some(PER_LINUX32),
        _ => None,
    }
}

/// Directives that are understood and that nobody carries out: a start without them would be less than what was asked for.
fn refuse_the_undone(config: &UnitConfig) -> Result<(), SpawnError> {
    let (images, credentials) = (&config.exec.images, &config.exec.credentials);
    let verity = images.root_hash.is_some()
        || images.root_hash_signature.is_some()
        || images.root_verity.is_some();
    // Neither secrets nor the root are ever left out.
    let undone = [
        (
            verity,
            "RootHash",
            Step::Namespace,
            "images are not checked against a hash (dm-verity)",
        ),
        (
            !credentials.set_encrypted.0.is_empty(),
            "SetCredentialEncrypted",
            Step::Credentials,
            "it is not carried out",
        ),
        (
            !credentials.load_encrypted.0.is_empty(),
            "LoadCredentialEncrypted",
            Step::Credentials,
            "it is not carried out",
        ),
    ];
    let sandbox = &config.exec.sandbox;
    // Its own root would be the machine's, which is just what it must not be.
    if sandbox.private_users == PrivateUsers::Managed && !sandbox.best_effort {
        return Err(failed(
            Step::User,
            format!("PrivateUsers=: {NOBODY_LENDS}"),
            ENOSYS,
        ));
    }
    if let Some((name, part)) = images::unknown_partition(images) {
        let why = format!("{name}=: there is no partition {part:?} that could have options");
        return Err(failed(Step::Namespace, why, libc::EINVAL));
    }
    match undone.into_iter().find(|(stated, ..)| *stated) {
        Some((_, name, step, why)) => Err(failed(step, format!("{name}=: {why}"), ENOSYS)),
        None => Ok(()),
    }
}

/// Whether only processes are to be seen in `/proc`.
fn only_processes(config: &UnitConfig) -> bool {
    config.exec.sandbox.proc_subset == ProcSubset::Pid
}
