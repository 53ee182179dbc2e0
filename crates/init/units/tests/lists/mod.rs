//! Properties that are lists, and how they are compared with those of systemd.

use muster_seccomp::NEWER_CALLS;

/// Lists without an order of their own.
pub(crate) const UNORDERED: &[&str] = &[
    "Names",
    "Requires",
    "Requisite",
    "Wants",
    "BindsTo",
    "PartOf",
    "Upholds",
    "RequiredBy",
    "RequisiteOf",
    "WantedBy",
    "BoundBy",
    "UpheldBy",
    "ConsistsOf",
    "Conflicts",
    "ConflictedBy",
    "Before",
    "After",
    "OnSuccess",
    "OnSuccessOf",
    "OnFailure",
    "OnFailureOf",
    "Triggers",
    "TriggeredBy",
    "PropagatesReloadTo",
    "ReloadPropagatedFrom",
    "PropagatesStopTo",
    "StopPropagatedFrom",
    "JoinsNamespaceOf",
    "SliceOf",
    "RequiresMountsFor",
    "IPAddressAllow",
    "IPAddressDeny",
];

/// Calls of its groups that systemd 252 does not show: the library that it asks for their numbers is older than they are.
const NOT_SHOWN: [&str; 2] = ["riscv_hwprobe", "sys_debug_setcontext"];

/// A list without the system calls that systemd 252 does not have in its groups, or does not show.
pub(crate) fn known_there(property: &str, value: &str) -> String {
    let newer = |call: &&str| NOT_SHOWN.contains(call) || NEWER_CALLS.contains(call);
    match property {
        "SystemCallFilter" | "SystemCallLog" => {
            let words = value.split(' ').filter(|call| !newer(call));
            words.collect::<Vec<_>>().join(" ")
        }
        _ => value.to_owned(),
    }
}
