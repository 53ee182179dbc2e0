//! What settings come to when other settings imply them.

use std::hash::Hasher;

use muster_unit_file::config::{
    DevicePolicy, Directories, Directory, ExecContext, ExecInput, ExecOutput, LoadState, OomPolicy,
    ProtectHome, ProtectSystem, ServiceConfig, UnitConfig, UnitKind,
};
use muster_unit_file::name::{UnitType, unescape};
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::value::access::{Capabilities, DeviceRule};

/// The description; without one, what the unit is about.
#[must_use]
pub fn description(config: &UnitConfig) -> String {
    if let Some(stated) = &config.description {
        return stated.to_string();
    }
    let path = match &config.kind {
        UnitKind::Mount(mount) => mount.r#where.as_ref(),
        UnitKind::Swap(swap) => swap.what.as_ref(),
        _ => None,
    };
    if let Some(path) = path.filter(|_| config.load_state == LoadState::Loaded) {
        return path.0.to_string();
    }
    match (config.name.unit_type(), config.name.stem()) {
        (UnitType::Slice, "-") => "Root Slice".to_owned(),
        (UnitType::Slice, "system") => "System Slice".to_owned(),
        (UnitType::Slice, stem) => {
            let levels = stem.split('-');
            let levels = levels.map(|level| unescape(level).unwrap_or_else(|_| level.to_owned()));
            format!("Slice /{}", levels.collect::<Vec<_>>().join("/"))
        }
        _ => config.name.to_string(),
    }
}

/// Whether a unit has its own `/tmp`: a user that goes away must not leave files behind.
#[must_use]
pub fn private_tmp(exec: &ExecContext) -> bool {
    exec.sandbox.private_tmp || exec.dynamic_user
}

/// Where input comes from: data that a service's file holds is there to be read.
#[must_use]
pub fn stdin(config: &UnitConfig) -> ExecInput {
    let exec = &config.exec;
    let has_data = !exec.terminal.stdin_data.0.is_empty();
    if has_data && exec.stdin == ExecInput::Null && matches!(config.kind, UnitKind::Service(_)) {
        return ExecInput::Data;
    }
    exec.stdin.clone()
}

/// Where output goes. A service answers where it reads from, as long as that takes answers; else it
/// writes to the log.
#[must_use]
pub fn stdout(config: &UnitConfig) -> ExecOutput {
    let stated = config.exec.stdout.clone();
    if !matches!(config.kind, UnitKind::Service(_)) {
        return stated.unwrap_or(ExecOutput::Journal);
    }
    let answers = matches!(
        config.exec.stdin,
        ExecInput::Tty
            | ExecInput::TtyForce
            | ExecInput::TtyFail
            | ExecInput::Socket
            | ExecInput::Fd(_)
    );
    match stated.unwrap_or(ExecOutput::Inherit) {
        ExecOutput::Inherit if !answers => ExecOutput::Journal,
        stated => stated,
    }
}

/// Where errors go.
#[must_use]
pub fn stderr(config: &UnitConfig) -> ExecOutput {
    config.exec.stderr.clone().unwrap_or(ExecOutput::Inherit)
}

/// Whether executing a program never gives more rights: a user that goes away must not leave any behind.
#[must_use]
pub fn no_new_privileges(exec: &ExecContext) -> bool {
    exec.sandbox.no_new_privileges || exec.dynamic_user
}

/// Whether files that give their owner's rights cannot be made.
#[must_use]
pub fn restrict_suid_sgid(exec: &ExecContext) -> bool {
    exec.sandbox.restrict_suid_sgid || exec.dynamic_user
}

/// Whether queues and shared memory of the user go when the unit ends.
#[must_use]
pub fn remove_ipc(exec: &ExecContext) -> bool {
    exec.remove_ipc || exec.dynamic_user
}

/// What of the system is read-only.
#[must_use]
pub fn protect_system(exec: &ExecContext) -> ProtectSystem {
    if exec.dynamic_user {
        ProtectSystem::Strict
    } else {
        exec.sandbox.protect_system
    }
}

/// What of the homes is visible.
#[must_use]
pub fn protect_home(exec: &ExecContext) -> ProtectHome {
    match exec.sandbox.protect_home {
        ProtectHome::No if exec.dynamic_user => ProtectHome::ReadOnly,
        stated => stated,
    }
}

/// The capabilities that are left after what other restrictions take away.
#[must_use]
pub fn bounding_set(exec: &ExecContext) -> Capabilities {
    const SYS_MODULE: u64 = 1 << 16;
    const SYS_RAWIO: u64 = 1 << 17;
    const SYS_TIME: u64 = 1 << 25;
    const MKNOD: u64 = 1 << 27;
    const SYSLOG: u64 = 1 << 34;
    const WAKE_ALARM: u64 = 1 << 35;
    let sandbox = &exec.sandbox;
    let taken = [
        (sandbox.private_devices, MKNOD | SYS_RAWIO),
        (sandbox.protect_kernel_modules, SYS_MODULE),
        (sandbox.protect_kernel_logs, SYSLOG),
        (sandbox.protect_clock, SYS_TIME | WAKE_ALARM),
    ];
    let taken = taken
        .into_iter()
        .filter(|(restricted, _)| *restricted)
        .fold(0, |sum, (_, bits)| sum | bits);
    Capabilities(sandbox.capability_bounding_set.0.0 & !taken)
}

/// Which devices may be used beside the listed ones.
#[must_use]
pub fn device_policy(config: &UnitConfig) -> DevicePolicy {
    match config.resources.device_policy {
        DevicePolicy::Auto if config.exec.sandbox.private_devices => DevicePolicy::Closed,
        stated => stated,
    }
}

/// What mounting an image needs, and whether nodes may be made for it.
const IMAGE_DEVICES: [(&str, bool); 5] = [
    ("/dev/loop-control", false),
    ("/dev/mapper/control", false),
    ("block-loop", true),
    ("block-blkext", true),
    ("block-device-mapper", true),
];

fn rule(device: &str, write: bool, mknod: bool) -> DeviceRule {
    DeviceRule {
        device: device.into(),
        read: true,
        write,
        mknod,
    }
}

/// Whether there are devices that may not be used.
#[must_use]
pub fn restricts_devices(config: &UnitConfig) -> bool {
    !config.resources.device_allow.0.is_empty() || device_policy(config) != DevicePolicy::Auto
}

/// Devices that may be used.
#[must_use]
pub fn device_allow(config: &UnitConfig) -> Vec<DeviceRule> {
    let mut rules = config.resources.device_allow.0.clone();
    // Where every device may be used, naming one would forbid the others.
    if !restricts_devices(config) {
        return rules;
    }
    let images = &config.exec.images;
    let mounts = !(images.mount_images.is_empty() && images.extension_images.is_empty());
    if images.root_image.is_some() || mounts {
        rules.extend(IMAGE_DEVICES.map(|(device, mknod)| rule(device, true, mknod)));
    }
    let listed = rules.iter().any(|rule| &*rule.device == "char-rtc");
    if config.exec.sandbox.protect_clock && !listed {
        rules.push(rule("char-rtc", false, false));
    }
    rules
}

/// The user; a dynamic one is named after the unit.
#[must_use]
pub fn user(config: &UnitConfig) -> Option<String> {
    let stated = config.exec.user.as_ref().map(|user| user.0.to_string());
    stated.or_else(|| config.exec.dynamic_user.then(|| dynamic_user(config)))
}

/// The group; that of a dynamic user has the same name.
#[must_use]
pub fn group(config: &UnitConfig) -> Option<String> {
    let stated = config.exec.group.as_ref().map(|group| group.0.to_string());
    stated.or_else(|| config.exec.dynamic_user.then(|| user(config)).flatten())
}

/// The name of a dynamic user: that of the unit, or a hash of it where that is no user's name. The
/// hash is the one that systemd makes, so that files keep their owner.
fn dynamic_user(config: &UnitConfig) -> String {
    const KEYS: (u64, u64) = (0x964e_5828_e6af_1a58, 0xec07_928c_3bf5_4eb4);
    let prefix = config.name.prefix();
    if is_plain_user_name(prefix) {
        return prefix.to_owned();
    }
    #[expect(
        deprecated,
        reason = "the standard library has SipHash-2-4 nowhere else, and it is not used for a map"
    )]
    let mut hasher = std::hash::SipHasher::new_with_keys(KEYS.0, KEYS.1);
    hasher.write(prefix.as_bytes());
    format!("_du{:016x}", hasher.finish())
}

fn is_plain_user_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    starts && text.len() <= 31 && text.bytes().all(plain)
}

/// What happens when the kernel ends a process for lack of memory.
#[must_use]
pub fn oom_policy(config: &UnitConfig, service: &ServiceConfig) -> OomPolicy {
    // A service that manages its own control groups also handles the ends in them.
    service
        .oom_policy
        .unwrap_or(if config.resources.delegate.enabled {
            OomPolicy::Continue
        } else {
            OomPolicy::Stop
        })
}

/// The directories that are made for a unit, with the folders they stand in.
pub fn directories<'a>(
    directories: &'a Directories,
    host: &'a HostFacts,
) -> impl Iterator<Item = (&'a str, &'a Directory)> {
    [
        (&*host.runtime_directory, &directories.runtime),
        (&*host.state_directory, &directories.state),
        (&*host.cache_directory, &directories.cache),
        (&*host.log_directory, &directories.logs),
        (&*host.configuration_directory, &directories.configuration),
    ]
    .into_iter()
}
