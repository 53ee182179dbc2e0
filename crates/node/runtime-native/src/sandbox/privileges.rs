//! What is given up for good: root, capabilities, ways to get either back, and system calls.

use std::collections::BTreeMap;
use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::namespaces::Held;
use super::{Dropped, SandboxError, must};
use crate::plan::Plan;

/// System calls that fail with `EPERM`: those by which one leaves a sandbox (namespaces, mounts, other processes), those that
/// are rich in holes (`bpf`, `io_uring`, `userfaultfd`, key rings), and those that are about the machine. A deny list, not an
/// allow list: programs come with the host's libraries, of any age, and the kernel already keeps most of these from a
/// program without capabilities. It is one more wall, not the only one.
pub const DENIED_CALLS: &[i64] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
];

pub(super) fn limit_files(most: u64, dropped: &mut Dropped) {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    dropped.unless(
        "the limit of open files",
        setrlimit(Resource::Nofile, limit),
    );
}

pub(super) fn give_up(plan: &Plan, held: &Held, dropped: &mut Dropped) -> Result<(), SandboxError> {
    if rustix::process::geteuid().is_root() && !held.has_users {
        for capability in CapabilitySet::all().iter() {
            // One that this kernel does not have is not in the set.
            let _ = remove_capability_from_bounding_set(capability);
        }
        must("become its user", become_user(plan))?;
    } else {
        let own = rustix::process::geteuid().as_raw();
        if own != plan.uid {
            dropped.0.push(format!(
                "its user {}: without root it runs as {own}",
                plan.uid
            ));
        }
    }
    must("give up new privileges", set_no_new_privs(true))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    must("give up capabilities", set_capabilities(None, none))?;
    dropped.unless("a filter of system calls", filter_calls());
    Ok(())
}

fn become_user(plan: &Plan) -> io::Result<()> {
    let gid = rustix::process::Gid::from_raw(plan.gid);
    let uid = rustix::process::Uid::from_raw(plan.uid);
    let groups: Vec<_> = plan
        .groups
        .iter()
        .map(|gid| rustix::process::Gid::from_raw(*gid))
        .collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

fn filter_calls() -> Result<(), String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(text)?;
    let rules: BTreeMap<i64, Vec<_>> = DENIED_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture).map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    apply_filter(&program).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
