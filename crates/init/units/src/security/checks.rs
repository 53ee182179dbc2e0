//! Everything that is looked at, with its weight.

use std::sync::LazyLock;

use muster_unit_file::config::UnitConfig;

use super::Topic;
use super::capabilities;
use super::own;
use super::verdict::Verdict;
use crate::effective;

/// One setting.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) setting: &'static str,
    pub(super) topic: Topic,
    pub(super) weight: u16,
    how: How,
    /// It makes no sense for services that run before file systems are there.
    late_only: bool,
}

/// How a setting is judged.
#[derive(Debug)]
enum How {
    /// A protection is on or off; without it the service can do what is said.
    Switch(fn(&UnitConfig) -> bool, &'static str),
    /// Some of these capabilities are left, or none.
    Capabilities(u64, &'static str),
    /// A kind of namespace is allowed, or not.
    Namespace(&'static str, &'static str),
    /// A kind of socket, by its place in what [`own::restricted_families`] gives.
    Family(usize, &'static str),
    /// System calls of a group.
    Calls(&'static str),
    /// In its own way.
    Own(fn(&UnitConfig) -> Verdict),
}

impl Check {
    pub(super) fn judge(&self, config: &UnitConfig) -> Verdict {
        if self.late_only && !config.default_dependencies {
            return Verdict::irrelevant("It runs while the machine starts, too early for this");
        }
        match self.how {
            How::Switch(on, phrase) => Verdict::ability(!on(config), phrase),
            How::Capabilities(bits, phrase) => {
                let left = effective::bounding_set(&config.exec).0 & bits;
                Verdict::ability(left != 0, phrase)
            }
            How::Namespace(kind, phrase) => {
                let mut allowed = config.exec.sandbox.restrict_namespaces.names();
                Verdict::ability(allowed.any(|allowed| allowed == kind), phrase)
            }
            How::Family(place, phrase) => {
                Verdict::ability(!own::restricted_families(config)[place], phrase)
            }
            How::Calls(group) => own::group_of_calls(config, group),
            How::Own(judge) => judge(config),
        }
    }
}

const fn check(setting: &'static str, topic: Topic, weight: u16, how: How) -> Check {
    Check {
        setting,
        topic,
        weight,
        how,
        late_only: false,
    }
}

const fn late(check: Check) -> Check {
    Check {
        late_only: true,
        ..check
    }
}

/// All of them, by topic.
pub(super) static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    let mut all = Vec::new();
    all.extend(identity());
    all.extend(capabilities::GROUPS.map(|(setting, weight, bits, phrase)| {
        let how = How::Capabilities(bits, phrase);
        check(setting, Topic::Capabilities, weight, how)
    }));
    all.extend(surroundings());
    all.extend(kernel());
    all.extend(processes());
    all.extend(network());
    all.extend(namespaces());
    all.extend(system_calls());
    all
});

fn identity() -> [Check; 7] {
    use Topic::{Capabilities, User};
    [
        check("User=/DynamicUser=", User, 2000, How::Own(own::user)),
        check(
            "SupplementaryGroups=",
            User,
            200,
            How::Own(own::supplementary_groups),
        ),
        check("RemoveIPC=", User, 100, How::Own(own::remove_ipc)),
        check(
            "PrivateUsers=",
            User,
            1000,
            How::Switch(
                |config| config.exec.sandbox.private_users.is_on(),
                "see other users",
            ),
        ),
        check("KeyringMode=", User, 1000, How::Own(own::keyring)),
        check(
            "NoNewPrivileges=",
            Capabilities,
            1000,
            How::Switch(
                |config| effective::no_new_privileges(&config.exec),
                "gain rights by executing programs",
            ),
        ),
        check(
            "AmbientCapabilities=",
            Capabilities,
            500,
            How::Own(own::ambient_capabilities),
        ),
    ]
}

fn surroundings() -> [Check; 9] {
    use Topic::{Devices, FileSystem};
    [
        late(check(
            "ProtectSystem=",
            FileSystem,
            1000,
            How::Own(own::protect_system),
        )),
        late(check(
            "ProtectHome=",
            FileSystem,
            1000,
            How::Own(own::protect_home),
        )),
        late(check(
            "RootDirectory=/RootImage=",
            FileSystem,
            200,
            How::Own(own::root),
        )),
        late(check(
            "PrivateTmp=",
            FileSystem,
            1000,
            How::Switch(
                |config| effective::private_tmp(&config.exec),
                "see temporary files of others",
            ),
        )),
        check(
            "PrivateMounts=",
            FileSystem,
            1000,
            How::Switch(
                |config| config.exec.sandbox.private_mounts.unwrap_or(false),
                "mount file systems for everybody",
            ),
        ),
        check(
            "RestrictSUIDSGID=",
            FileSystem,
            1000,
            How::Switch(
                |config| effective::restrict_suid_sgid(&config.exec),
                "make programs that run with its rights",
            ),
        ),
        check("UMask=", FileSystem, 100, How::Own(own::umask)),
        check(
            "PrivateDevices=",
            Devices,
            1000,
            How::Switch(|config| config.exec.sandbox.private_devices, "see hardware"),
        ),
        check("DeviceAllow=", Devices, 1000, How::Own(own::devices)),
    ]
}

fn kernel() -> [Check; 7] {
    let switch = |setting, weight, on, phrase| {
        check(setting, Topic::Kernel, weight, How::Switch(on, phrase))
    };
    [
        switch(
            "ProtectKernelTunables=",
            1000,
            |config: &UnitConfig| config.exec.sandbox.protect_kernel_tunables,
            "change settings of the kernel",
        ),
        switch(
            "ProtectKernelModules=",
            1000,
            |config| config.exec.sandbox.protect_kernel_modules,
            "reach modules of the kernel",
        ),
        switch(
            "ProtectKernelLogs=",
            1000,
            |config| config.exec.sandbox.protect_kernel_logs,
            "read and clear the kernel's log",
        ),
        switch(
            "ProtectControlGroups=",
            1000,
            |config| config.exec.sandbox.protect_control_groups.is_on(),
            "change control groups",
        ),
        switch(
            "ProtectClock=",
            1000,
            |config| config.exec.sandbox.protect_clock,
            "set clocks",
        ),
        switch(
            "ProtectHostname=",
            50,
            |config| config.exec.sandbox.protect_hostname,
            "rename the host",
        ),
        switch(
            "Delegate=",
            100,
            |config| !config.resources.delegate.enabled,
            "manage control groups of its own",
        ),
    ]
}

fn processes() -> [Check; 6] {
    use Topic::Processes;
    [
        check("ProtectProc=", Processes, 1000, How::Own(own::protect_proc)),
        check("ProcSubset=", Processes, 10, How::Own(own::proc_subset)),
        check(
            "NotifyAccess=",
            Processes,
            1000,
            How::Own(own::notify_access),
        ),
        check(
            "RestrictRealtime=",
            Processes,
            500,
            How::Switch(
                |config| config.exec.sandbox.restrict_realtime,
                "keep others from the processors",
            ),
        ),
        check(
            "LockPersonality=",
            Processes,
            100,
            How::Switch(
                |config| config.exec.sandbox.lock_personality,
                "change how the kernel treats its programs",
            ),
        ),
        check(
            "MemoryDenyWriteExecute=",
            Processes,
            100,
            How::Switch(
                |config| config.exec.sandbox.memory_deny_write_execute,
                "execute what it has written to memory",
            ),
        ),
    ]
}

fn network() -> [Check; 7] {
    let family = |setting, weight, place, phrase| {
        check(setting, Topic::Network, weight, How::Family(place, phrase))
    };
    [
        check(
            "PrivateNetwork=",
            Topic::Network,
            2500,
            How::Switch(
                |config| config.exec.sandbox.private_network,
                "use the host's network",
            ),
        ),
        check(
            "IPAddressDeny=",
            Topic::Network,
            1000,
            How::Own(own::addresses),
        ),
        family(
            "RestrictAddressFamilies=~AF_(INET|INET6)",
            1500,
            0,
            "open Internet sockets",
        ),
        family(
            "RestrictAddressFamilies=~AF_UNIX",
            25,
            1,
            "open local sockets",
        ),
        family(
            "RestrictAddressFamilies=~AF_NETLINK",
            200,
            2,
            "talk to the kernel by netlink",
        ),
        family(
            "RestrictAddressFamilies=~AF_PACKET",
            1000,
            3,
            "see and send whole packets",
        ),
        family(
            "RestrictAddressFamilies=~\u{2026}",
            1250,
            4,
            "open sockets of rare kinds",
        ),
    ]
}

fn namespaces() -> [Check; 7] {
    [
        (
            "RestrictNamespaces=~user",
            1500,
            "user",
            "make namespaces of users",
        ),
        (
            "RestrictNamespaces=~mnt",
            500,
            "mnt",
            "make namespaces of mounts",
        ),
        (
            "RestrictNamespaces=~ipc",
            500,
            "ipc",
            "make namespaces of queues",
        ),
        (
            "RestrictNamespaces=~pid",
            500,
            "pid",
            "make namespaces of processes",
        ),
        (
            "RestrictNamespaces=~cgroup",
            500,
            "cgroup",
            "make namespaces of control groups",
        ),
        (
            "RestrictNamespaces=~net",
            500,
            "net",
            "make namespaces of networks",
        ),
        (
            "RestrictNamespaces=~uts",
            100,
            "uts",
            "make namespaces of host names",
        ),
    ]
    .map(|(setting, weight, kind, phrase)| {
        check(
            setting,
            Topic::Namespaces,
            weight,
            How::Namespace(kind, phrase),
        )
    })
}

fn system_calls() -> Vec<Check> {
    let groups = [
        ("SystemCallFilter=~@swap", 1000, "@swap"),
        ("SystemCallFilter=~@obsolete", 250, "@obsolete"),
        ("SystemCallFilter=~@clock", 1000, "@clock"),
        ("SystemCallFilter=~@cpu-emulation", 250, "@cpu-emulation"),
        ("SystemCallFilter=~@debug", 1000, "@debug"),
        ("SystemCallFilter=~@mount", 1000, "@mount"),
        ("SystemCallFilter=~@module", 1000, "@module"),
        ("SystemCallFilter=~@raw-io", 1000, "@raw-io"),
        ("SystemCallFilter=~@reboot", 1000, "@reboot"),
        ("SystemCallFilter=~@privileged", 700, "@privileged"),
        ("SystemCallFilter=~@resources", 700, "@resources"),
    ];
    let groups = groups.map(|(setting, weight, group)| {
        check(setting, Topic::SystemCalls, weight, How::Calls(group))
    });
    let architectures = How::Own(own::architectures);
    let first = check(
        "SystemCallArchitectures=",
        Topic::SystemCalls,
        1000,
        architectures,
    );
    [first].into_iter().chain(groups).collect()
}
