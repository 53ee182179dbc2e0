//! Which paths the protections stand for. All of them are optional: a machine without `/efi` has nothing to protect there.

use crate::entries::Rule;
use crate::view::{ProtectHome, ProtectSystem, View};

type Rules = &'static [(&'static str, Rule)];

/// The programs and what they are booted with. Where `/usr` is not merged, programs are in `/bin` and its siblings too.
const SYSTEM: Rules = &[
    ("/usr", Rule::ReadOnly),
    ("/boot", Rule::ReadOnly),
    ("/efi", Rule::ReadOnly),
    ("/bin", Rule::ReadOnly),
    ("/sbin", Rule::ReadOnly),
    ("/lib", Rule::ReadOnly),
    ("/lib32", Rule::ReadOnly),
    ("/lib64", Rule::ReadOnly),
    ("/libx32", Rule::ReadOnly),
];
const CONFIGURATION: Rules = &[("/etc", Rule::ReadOnly)];
/// What other directives are for is left to them.
const EVERYTHING: Rules = &[
    ("/", Rule::ReadOnly),
    ("/dev", Rule::ReadWrite),
    ("/proc", Rule::ReadWrite),
    ("/sys", Rule::ReadWrite),
    ("/home", Rule::ReadWrite),
    ("/root", Rule::ReadWrite),
    ("/run/user", Rule::ReadWrite),
];
const HOMES_HIDDEN: Rules = &[
    ("/home", Rule::Hide),
    ("/root", Rule::Hide),
    ("/run/user", Rule::Hide),
];
const HOMES_READ_ONLY: Rules = &[
    ("/home", Rule::ReadOnly),
    ("/root", Rule::ReadOnly),
    ("/run/user", Rule::ReadOnly),
];
const TUNABLES: Rules = &[
    ("/proc/acpi", Rule::ReadOnly),
    ("/proc/apm", Rule::ReadOnly),
    ("/proc/asound", Rule::ReadOnly),
    ("/proc/bus", Rule::ReadOnly),
    ("/proc/fs", Rule::ReadOnly),
    ("/proc/irq", Rule::ReadOnly),
    ("/proc/kallsyms", Rule::Hide),
    ("/proc/kcore", Rule::Hide),
    ("/proc/latency_stats", Rule::ReadOnly),
    ("/proc/mtrr", Rule::ReadOnly),
    ("/proc/scsi", Rule::ReadOnly),
    ("/proc/sys", Rule::ReadOnly),
    ("/proc/sysrq-trigger", Rule::ReadOnly),
    ("/proc/timer_stats", Rule::ReadOnly),
    ("/sys", Rule::ReadOnly),
    ("/sys/fs/bpf", Rule::ReadOnly),
    ("/sys/fs/cgroup", Rule::ReadWrite),
    ("/sys/fs/selinux", Rule::ReadWrite),
    ("/sys/kernel/debug", Rule::ReadOnly),
    ("/sys/kernel/tracing", Rule::ReadOnly),
];
const MODULES: Rules = &[
    ("/lib/modules", Rule::Hide),
    ("/usr/lib/modules", Rule::Hide),
];
const KERNEL_LOG: Rules = &[("/dev/kmsg", Rule::Hide), ("/proc/kmsg", Rule::Hide)];
const GROUPS: Rules = &[("/sys/fs/cgroup", Rule::ReadOnly)];

/// The homes that `ProtectHome=tmpfs` covers, with the modes of what covers them.
pub(crate) const EMPTY_HOMES: [(&str, &str); 3] =
    [("/home", "0755"), ("/root", "0700"), ("/run/user", "0755")];

/// The protections of a view, each with its paths.
pub(crate) fn protections(view: &View) -> impl Iterator<Item = (&'static str, Rules)> {
    let system: &[Rules] = match view.protect_system {
        ProtectSystem::No => &[],
        ProtectSystem::Yes => &[SYSTEM],
        ProtectSystem::Full => &[SYSTEM, CONFIGURATION],
        ProtectSystem::Strict => &[EVERYTHING],
    };
    let home: &[Rules] = match view.protect_home {
        ProtectHome::No | ProtectHome::Tmpfs => &[],
        ProtectHome::Yes => &[HOMES_HIDDEN],
        ProtectHome::ReadOnly => &[HOMES_READ_ONLY],
    };
    let one = |asked: bool, rules: &'static [Rules]| if asked { rules } else { &[] };
    [
        ("ProtectSystem", system),
        ("ProtectHome", home),
        (
            "ProtectKernelTunables",
            one(view.protect_kernel_tunables, &[TUNABLES]),
        ),
        (
            "ProtectKernelModules",
            one(view.protect_kernel_modules, &[MODULES]),
        ),
        (
            "ProtectKernelLogs",
            one(view.protect_kernel_logs, &[KERNEL_LOG]),
        ),
        (
            "ProtectControlGroups",
            one(view.protect_control_groups, &[GROUPS]),
        ),
    ]
    .into_iter()
    .flat_map(|(directive, lists)| lists.iter().map(move |rules| (directive, *rules)))
}
