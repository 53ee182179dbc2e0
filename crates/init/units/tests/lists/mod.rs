//! Properties that are lists, and how they are compared with those of systemd.

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

/// A list without the system calls that systemd 252 has in its groups, and does not show: the library that it asks for their
/// numbers is older than they are.
pub(crate) fn known_there(property: &str, value: &str) -> String {
    let newer = |call: &&str| ["riscv_hwprobe", "sys_debug_setcontext", "uretprobe"].contains(call);
    match property {
        "SystemCallFilter" => {
            let words = value.split(' ').filter(|call| !newer(call));
            words.collect::<Vec<_>>().join(" ")
        }
        _ => value.to_owned(),
    }
}
