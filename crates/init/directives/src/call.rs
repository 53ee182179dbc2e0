//! System calls and errors by name.

macro_rules! names {
    ($(#[$doc:meta])* $table:ident: $kind:ty, $($name:literal => $value:ident),* $(,)?) => {
        $(#[$doc])*
        pub(crate) const $table: &[(&str, $kind)] = &[$(($name, libc::$value)),*];
    };
}

names! {
    /// The calls that units try.
    CALLS: libc::c_long,
    "acct" => SYS_acct,
    "add_key" => SYS_add_key,
    "adjtimex" => SYS_adjtimex,
    "bpf" => SYS_bpf,
    "chmod" => SYS_chmod,
    "chroot" => SYS_chroot,
    "clock_settime" => SYS_clock_settime,
    "clone3" => SYS_clone3,
    "creat" => SYS_creat,
    "delete_module" => SYS_delete_module,
    "fchmodat" => SYS_fchmodat,
    "get_mempolicy" => SYS_get_mempolicy,
    "getpid" => SYS_getpid,
    "getuid" => SYS_getuid,
    "io_uring_setup" => SYS_io_uring_setup,
    "ioperm" => SYS_ioperm,
    "kexec_load" => SYS_kexec_load,
    "keyctl" => SYS_keyctl,
    "kill" => SYS_kill,
    "memfd_create" => SYS_memfd_create,
    "mkdir" => SYS_mkdir,
    "mknod" => SYS_mknod,
    "mlock" => SYS_mlock,
    "mmap" => SYS_mmap,
    "modify_ldt" => SYS_modify_ldt,
    "mount" => SYS_mount,
    "mprotect" => SYS_mprotect,
    "open" => SYS_open,
    "openat" => SYS_openat,
    "perf_event_open" => SYS_perf_event_open,
    "personality" => SYS_personality,
    "pivot_root" => SYS_pivot_root,
    "pkey_mprotect" => SYS_pkey_mprotect,
    "prctl" => SYS_prctl,
    "process_vm_readv" => SYS_process_vm_readv,
    "ptrace" => SYS_ptrace,
    "reboot" => SYS_reboot,
    "sched_setscheduler" => SYS_sched_setscheduler,
    "set_mempolicy" => SYS_set_mempolicy,
    "sethostname" => SYS_sethostname,
    "setns" => SYS_setns,
    "setuid" => SYS_setuid,
    "shmat" => SYS_shmat,
    "shmget" => SYS_shmget,
    "socket" => SYS_socket,
    "socketpair" => SYS_socketpair,
    "swapon" => SYS_swapon,
    "syslog" => SYS_syslog,
    "umount2" => SYS_umount2,
    "unshare" => SYS_unshare,
    "vhangup" => SYS_vhangup,
}

names! {
    /// The errors that they expect.
    ERRORS: i32,
    "E2BIG" => E2BIG,
    "EACCES" => EACCES,
    "EAFNOSUPPORT" => EAFNOSUPPORT,
    "EAGAIN" => EAGAIN,
    "EBADF" => EBADF,
    "EBUSY" => EBUSY,
    "EEXIST" => EEXIST,
    "EFAULT" => EFAULT,
    "EILSEQ" => EILSEQ,
    "EINVAL" => EINVAL,
    "EISDIR" => EISDIR,
    "EMFILE" => EMFILE,
    "ENODEV" => ENODEV,
    "ENOENT" => ENOENT,
    "ENOMEM" => ENOMEM,
    "ENOSPC" => ENOSPC,
    "ENOSYS" => ENOSYS,
    "ENOTDIR" => ENOTDIR,
    "ENOTTY" => ENOTTY,
    "ENXIO" => ENXIO,
    "EOPNOTSUPP" => EOPNOTSUPP,
    "EPERM" => EPERM,
    "EPROTONOSUPPORT" => EPROTONOSUPPORT,
    "EROFS" => EROFS,
    "ESRCH" => ESRCH,
    "EUCLEAN" => EUCLEAN,
}

/// The number that has this name.
pub(crate) fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}
