//! Settings that are judged each in its own way.

use std::net::IpAddr;

use muster_seccomp::{Arch, Purpose};
use muster_unit_file::config::{
    DevicePolicy, KeyringMode, NotifyAccess, ProcSubset, ProtectHome, ProtectProc, ProtectSystem,
    UnitConfig, UnitKind,
};

use super::verdict::Verdict;
use crate::{calls, effective};

/// Whether it runs as root.
fn is_privileged(config: &UnitConfig) -> bool {
    match effective::user(config).as_deref() {
        None | Some("" | "root" | "0") => true,
        Some(_) => false,
    }
}

pub(super) fn user(config: &UnitConfig) -> Verdict {
    let user = effective::user(config);
    match user.as_deref() {
        Some("nobody") => Verdict::partly(9, 10, "It runs as nobody, whom others use as well"),
        Some(user) if is_privileged(config) => Verdict::bad(format!("It runs as {user}")),
        None => Verdict::bad("It runs as root"),
        Some(_) if config.exec.dynamic_user => {
            Verdict::good("It runs as a user that exists while it runs")
        }
        Some(user) => Verdict::good(format!("It runs as {user}")),
    }
}

pub(super) fn supplementary_groups(config: &UnitConfig) -> Verdict {
    let groups: Vec<&str> = config.exec.supplementary_groups.0.iter().collect();
    if is_privileged(config) {
        Verdict::irrelevant("It runs as root, who needs no groups")
    } else if groups.is_empty() {
        Verdict::good("It is in no further groups")
    } else {
        Verdict::bad(format!("It is in further groups: {}", groups.join(", ")))
    }
}

pub(super) fn remove_ipc(config: &UnitConfig) -> Verdict {
    if is_privileged(config) {
        Verdict::irrelevant("It runs as root, whose queues are never removed")
    } else {
        let leaves = !effective::remove_ipc(&config.exec);
        Verdict::ability(leaves, "leave queues and shared memory behind")
    }
}

pub(super) fn protect_home(config: &UnitConfig) -> Verdict {
    match effective::protect_home(&config.exec) {
        ProtectHome::No => Verdict::bad("It can read and write home folders"),
        ProtectHome::ReadOnly => Verdict::partly(5, 10, "It can read home folders"),
        ProtectHome::Tmpfs => Verdict::partly(1, 10, "It sees empty home folders"),
        ProtectHome::Yes => Verdict::good("It cannot see home folders"),
    }
}

pub(super) fn protect_system(config: &UnitConfig) -> Verdict {
    match effective::protect_system(&config.exec) {
        ProtectSystem::No => Verdict::bad("It can write everywhere"),
        ProtectSystem::Yes => Verdict::partly(5, 10, "It cannot write programs and boot files"),
        ProtectSystem::Full => Verdict::partly(3, 10, "It cannot write programs and configuration"),
        ProtectSystem::Strict => Verdict::good("It can write only where that is said"),
    }
}

pub(super) fn root(config: &UnitConfig) -> Verdict {
    let images = &config.exec.images;
    let own = [&images.root_directory, &images.root_image]
        .into_iter()
        .flatten()
        .any(|path| &*path.0 != "/");
    Verdict::ability(!own, "see the host's root folder")
}

pub(super) fn umask(config: &UnitConfig) -> Verdict {
    let lets = |bits| config.exec.umask.0 & bits == 0;
    let (badness, who) = match () {
        () if lets(0o002) => (10, "written by everybody"),
        () if lets(0o004) => (5, "read by everybody"),
        () if lets(0o020) => (2, "written by its group"),
        () if lets(0o040) => (1, "read by its group"),
        () => return Verdict::good("New files are for its own user only"),
    };
    Verdict::partly(badness, 10, format!("New files can be {who}"))
}

pub(super) fn keyring(config: &UnitConfig) -> Verdict {
    let shares = config.exec.sandbox.keyring_mode.unwrap_or_default() != KeyringMode::Private;
    Verdict::ability(shares, "use keys of others in the kernel")
}

pub(super) fn protect_proc(config: &UnitConfig) -> Verdict {
    match config.exec.sandbox.protect_proc {
        ProtectProc::Default => Verdict::bad("It can see every process"),
        ProtectProc::NoAccess => Verdict::partly(1, 3, "It can see that other processes are there"),
        ProtectProc::Invisible => Verdict::good("It cannot see processes of other users"),
        ProtectProc::Ptraceable => Verdict::good("It can see only processes that it may trace"),
    }
}

pub(super) fn proc_subset(config: &UnitConfig) -> Verdict {
    let all = config.exec.sandbox.proc_subset == ProcSubset::All;
    Verdict::ability(all, "read more of /proc than processes")
}

pub(super) fn notify_access(config: &UnitConfig) -> Verdict {
    let all = match &config.kind {
        UnitKind::Service(service) => service.notify_access() == NotifyAccess::All,
        _ => false,
    };
    if all {
        Verdict::bad("Each of its processes can speak for it")
    } else {
        Verdict::good("Only its main processes can speak for it")
    }
}

pub(super) fn ambient_capabilities(config: &UnitConfig) -> Verdict {
    let given = config.exec.sandbox.ambient_capabilities.0;
    if given.0 == 0 {
        Verdict::good("It is given no capabilities")
    } else {
        let names: Vec<String> = given.names().collect();
        Verdict::bad(format!("It is given {}", names.join(", ")))
    }
}

pub(super) fn architectures(config: &UnitConfig) -> Verdict {
    let mut listed = config.exec.sandbox.syscall_architectures.iter();
    match (listed.next(), listed.next()) {
        (None, _) => Verdict::bad("It can use the system calls of every architecture"),
        (Some("native"), None) => Verdict::good("It uses the machine's own system calls only"),
        _ => Verdict::partly(
            8,
            10,
            "It can use the system calls of several architectures",
        ),
    }
}

pub(super) fn addresses(config: &UnitConfig) -> Verdict {
    let resources = &config.resources;
    let programs = [
        &resources.ip_ingress_filter_path,
        &resources.ip_egress_filter_path,
    ];
    if programs
        .into_iter()
        .any(|paths| paths.iter().next().is_some())
    {
        return Verdict::good("Programs of its own decide whom it talks to");
    }
    let denied = |want_v4: bool| {
        let mut all = resources.ip_address_deny.0.iter();
        all.any(|prefix| prefix.length == 0 && prefix.address.is_ipv4() == want_v4)
    };
    if !denied(true) || !denied(false) {
        return Verdict::bad("It can talk to every address");
    }
    // The whole network of loopback addresses is this machine.
    let is_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets()[0] == 127,
        IpAddr::V6(address) => address.is_loopback(),
    };
    let mut allowed = resources.ip_address_allow.0.iter().peekable();
    if allowed.peek().is_none() {
        Verdict::good("It cannot talk to any address")
    } else if allowed.all(|prefix| is_local(&prefix.address)) {
        Verdict::partly(2, 10, "It can talk to this machine only")
    } else {
        Verdict::partly(5, 10, "It can talk to some addresses")
    }
}

pub(super) fn devices(config: &UnitConfig) -> Verdict {
    if effective::device_policy(config) == DevicePolicy::Auto {
        return Verdict::bad("It can use every device");
    }
    let rules = effective::device_allow(config);
    if rules.is_empty() {
        return Verdict::good("It can use no devices but harmless ones");
    }
    let names: Vec<&str> = rules.iter().map(|rule| &*rule.device).collect();
    Verdict::partly(
        5,
        10,
        format!("It can use some devices: {}", names.join(", ")),
    )
}

/// Which kinds of sockets it cannot make: Internet, local, netlink, packets, all others.
pub(super) fn restricted_families(config: &UnitConfig) -> [bool; 5] {
    let filter = &config.exec.sandbox.restrict_address_families.0;
    let allow = filter.allow.unwrap_or(false);
    let mut restricted = [allow; 5];
    for (at, rule) in filter.rules.iter().enumerate() {
        let kind = match &*rule.name {
            "AF_INET" | "AF_INET6" => 0,
            "AF_UNIX" | "AF_LOCAL" | "AF_FILE" => 1,
            "AF_NETLINK" | "AF_ROUTE" => 2,
            "AF_PACKET" => 3,
            _ => 4,
        };
        // A later line can take a name off the list again.
        let taken_off = |later: &muster_unit_file::value::access::FilterRule| {
            later.name == rule.name && later.removed
        };
        if !rule.removed && !filter.rules[at + 1..].iter().any(taken_off) {
            restricted[kind] = !allow;
        }
    }
    restricted
}

/// Whether a filter lets calls of a group through.
pub(super) fn group_of_calls(config: &UnitConfig, group: &'static str) -> Verdict {
    let filter = calls::filter(&config.exec.sandbox.syscall_filter);
    let allow = filter.as_ref().is_some_and(|filter| filter.allow);
    let listed = filter.map(|filter| filter.listed(Purpose::Refuse).calls);
    let Some(listed) = listed.filter(|listed| !listed.is_empty()) else {
        return Verdict::bad("It can make every system call");
    };
    let passes = |call: &&'static str| {
        // What the machine does not have is no danger on it.
        let exists = Arch::native().is_none_or(|arch| muster_seccomp::has_call(call, arch));
        let is_let = match listed.get(call) {
            Some(refusal) => allow && refusal.is_none(),
            None => !allow,
        };
        exists && is_let
    };
    match muster_seccomp::members(group).into_iter().find(passes) {
        None => Verdict::good(format!("It cannot make system calls of {group}")),
        Some(call) => {
            let text = format!("It can make system calls of {group}, for example {call}");
            // A list of what is allowed was made on purpose.
            Verdict::partly(if allow { 9 } else { 10 }, 10, text)
        }
    }
}
