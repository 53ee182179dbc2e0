//! Directives that each restrict something particular.

use super::rules::{Action, Layer, Test, Values};
use crate::arch::Abi;
use crate::names;
use crate::policy::{FamilyFilter, Kinds, Policy};

const EPERM: Action = Action::Errno(1);
const ENOSYS: Action = Action::Errno(38);
const EAFNOSUPPORT: Action = Action::Errno(97);

const O_CREAT: u32 = 0o100;
/// What `O_TMPFILE` has beside `O_DIRECTORY`: it makes a file as well.
const O_TMPFILE: u32 = 0o20_000_000;
const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const SHM_EXEC: u32 = 0o100_000;
/// `ipc` chooses `shmat` by it.
const IPC_SHMAT: u32 = 21;
const SCHED_OTHER: u32 = 0;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const CLONE_NEWTIME: u32 = 0x80;
/// Every kind of namespace that a unit file can name: mounts, cgroups, UTS, IPC, users, processes, network.
const NAMESPACES: [u32; 7] = [
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// What all of them say about the calls of a table. An earlier one has the last word about which error a call fails with.
pub(super) fn layers(policy: &Policy, abi: Abi) -> Vec<Layer> {
    let group = |wanted: bool, name: &str| wanted.then(|| whole(abi, &[name]));
    let all = [
        policy.lock_personality.map(|stays| personality(abi, stays)),
        group(policy.private_devices, "@raw-io"),
        group(policy.protect_clock, "@clock"),
        group(policy.protect_kernel_logs, "syslog"),
        group(policy.protect_kernel_modules, "@module"),
        group(policy.protect_kernel_tunables, "_sysctl"),
        policy.namespaces.map(|retained| namespaces(abi, retained)),
        policy.restrict_suid_sgid.then(|| set_user_id(abi)),
        policy.restrict_realtime.then(|| realtime(abi)),
        policy.memory_deny_write_execute.then(|| memory(abi)),
        policy.families.as_ref().map(|list| families(abi, list)),
        policy
            .protect_hostname
            .then(|| whole(abi, &["sethostname", "setdomainname"])),
    ];
    all.into_iter().flatten().collect()
}

fn nothing(abi: Abi) -> Layer {
    Layer::new(abi, Action::Allow)
}

/// Refuses calls, whatever their arguments are.
fn whole(abi: Abi, refused: &[&str]) -> Layer {
    let mut layer = nothing(abi);
    for name in refused {
        names::each(name, &mut |call| layer.add(call, Vec::new(), EPERM));
    }
    layer
}

fn personality(abi: Abi, stays: u32) -> Layer {
    let mut layer = nothing(abi);
    let others = Values::one(stays).others();
    layer.add("personality", vec![Test::is_in(0, others)], EPERM);
    layer
}

fn namespaces(abi: Abi, Kinds(retained): Kinds) -> Layer {
    let mut layer = nothing(abi);
    // What it is asked for stands behind a pointer. Libraries take this answer for an old kernel, and use `clone`.
    layer.add("clone3", Vec::new(), ENOSYS);
    let mut refused = NAMESPACES
        .into_iter()
        .filter(|kind| retained & kind == 0)
        .sum();
    if retained & NAMESPACES.iter().sum::<u32>() == 0 {
        layer.add("setns", Vec::new(), EPERM);
        // Unit files cannot name the kind. It is refused where none is allowed; `clone` does not have it.
        refused |= CLONE_NEWTIME & !retained;
    } else {
        // Without a kind it joins whatever the descriptor stands for.
        layer.add("setns", vec![Test::is_in(1, Values::one(0))], EPERM);
        layer.add("setns", vec![Test::has_any(1, refused)], EPERM);
    }
    layer.add("unshare", vec![Test::has_any(0, refused)], EPERM);
    let refused = refused & !CLONE_NEWTIME;
    layer.add("clone", vec![Test::has_any(0, refused)], EPERM);
    layer
}

fn set_user_id(abi: Abi) -> Layer {
    let mut layer = nothing(abi);
    let makes = |argument| Test::has_any(argument, O_CREAT | O_TMPFILE);
    let marked = |argument| Test::has_any(argument, S_ISUID | S_ISGID);
    for (call, mode) in [
        ("chmod", 1),
        ("fchmod", 1),
        ("fchmodat", 2),
        ("fchmodat2", 2),
        ("mkdir", 1),
        ("mkdirat", 2),
        ("mknod", 1),
        ("mknodat", 2),
        ("creat", 1),
    ] {
        layer.add(call, vec![marked(mode)], EPERM);
    }
    layer.add("open", vec![makes(1), marked(2)], EPERM);
    layer.add("openat", vec![makes(2), marked(3)], EPERM);
    // Its mode stands behind a pointer; programs do without it.
    layer.add("openat2", Vec::new(), ENOSYS);
    layer
}

fn realtime(abi: Abi) -> Layer {
    let mut layer = nothing(abi);
    let ordinary: Values = [SCHED_OTHER, SCHED_BATCH, SCHED_IDLE].into_iter().collect();
    let test = Test::is_in(1, ordinary.others());
    layer.add("sched_setscheduler", vec![test], EPERM);
    // The policy stands behind a pointer, and there is another call for what is not about real time.
    layer.add("sched_setattr", Vec::new(), EPERM);
    layer
}

fn memory(abi: Abi) -> Layer {
    let mut layer = nothing(abi);
    let writable_program = vec![Test::has_all(2, PROT_WRITE | PROT_EXEC)];
    layer.add("mmap2", writable_program.clone(), EPERM);
    match abi {
        // The arguments of the old call stand behind a pointer.
        Abi::X86 => layer.add("mmap", Vec::new(), EPERM),
        _ => layer.add("mmap", writable_program, EPERM),
    }
    for call in ["mprotect", "pkey_mprotect"] {
        layer.add(call, vec![Test::has_any(2, PROT_EXEC)], EPERM);
    }
    let attached_as_program = Test::has_any(2, SHM_EXEC);
    layer.add("shmat", vec![attached_as_program.clone()], EPERM);
    let chosen = Test {
        argument: 0,
        mask: 0xffff,
        values: Values::one(IPC_SHMAT),
    };
    layer.add("ipc", vec![chosen, attached_as_program], EPERM);
    layer
}

fn families(abi: Abi, list: &FamilyFilter) -> Layer {
    let mut layer = nothing(abi);
    // There `socketcall` hides the family behind a pointer, so that refusing some to `socket` would keep nobody from
    // anything: units that care leave `x86` out of `SystemCallArchitectures=`.
    if abi == Abi::X86 {
        return layer;
    }
    let listed: Values = list
        .families
        .iter()
        .map(|family| u32::from(*family))
        .collect();
    let refused = if list.allow { listed.others() } else { listed };
    if !refused.ranges().is_empty() {
        layer.add("socket", vec![Test::is_in(0, refused)], EAFNOSUPPORT);
    }
    layer
}
