//! Which system calls the instance may make: an allow list.
//!
//! Everything that is not listed fails with `EPERM`, so that a kernel that learns new calls does not open new doors. What is
//! left out, and why:
//!
//! * other namespaces and mounts (`mount`, `setns`, `unshare`, `pivot_root`, `clone` with namespace flags): how one leaves a
//!   container. `clone3` says it is not implemented (`ENOSYS`), since its flags cannot be looked at; C libraries then use `clone`;
//! * the kernel itself (`bpf`, `init_module`, `kexec_load`, `perf_event_open`, `userfaultfd`, `io_uring_*`): rich in holes;
//! * the machine (`reboot`, `settimeofday`, `swapon`, `iopl`, `syslog`, `acct`, `quotactl`);
//! * other processes (`ptrace`, `process_vm_*`, `kcmp`, `pidfd_getfd`), key rings that all users share (`keyctl`), and what
//!   only old or odd programs need (`uselib`, `vm86`, `personality` but for the plain ones, `nfsservctl`).
//!
//! A granted capability opens the calls that it is for ([`WITH_CAPABILITY`]): without them it would be of no use.

use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder,
    LinuxSeccompBuilder, LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};

use super::built;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Flags of `clone` that make namespaces: mount, cgroup, uts, ipc, user, pid, network.
const NAMESPACE_FLAGS: u64 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;
/// Personalities that change nothing about safety: Linux, 32 bit, and the question for the present one.
const PERSONALITIES: [u64; 4] = [0x0, 0x8, 0x2_0000, 0xffff_ffff];
/// Families of sockets: unix, IPv4, IPv6, netlink (its messages need privileges of their own), packet (needs a capability).
const SOCKET_FAMILIES: [u64; 5] = [1, 2, 10, 16, 17];

/// `socketcall` is how older 32-bit x86 programs do all of the above. Its first argument says which; the others are in memory that
/// no filter sees. So those that make sockets (1 `socket`, 8 `socketpair`) are not allowed through it: the family could be any.
/// Programs that use the calls of their own, which Linux has had since 4.3, are not affected.
const SOCKET_CALLS: [u64; 6] = [2, 3, 4, 5, 6, 7];
const LAST_MAKING_SOCKET_CALL: u64 = 8;

/// Grouped by what they are about. Names that a machine's architecture does not have are ignored.
const ALLOWED: &[&[&str]] = &[
    // Files by descriptor.
    &[
        "close",
        "close_range",
        "copy_file_range",
        "dup",
        "dup2",
        "dup3",
        "fadvise64",
        "fadvise64_64",
        "fallocate",
        "fcntl",
        "fcntl64",
        "fdatasync",
        "flock",
        "fstat",
        "fstat64",
        "fstatfs",
        "fstatfs64",
        "fsync",
        "ftruncate",
        "ftruncate64",
        "getdents",
        "getdents64",
        "ioctl",
        "_llseek",
        "lseek",
        "pread64",
        "preadv",
        "preadv2",
        "pwrite64",
        "pwritev",
        "pwritev2",
        "read",
        "readahead",
        "readv",
        "sendfile",
        "sendfile64",
        "splice",
        "sync_file_range",
        "sync_file_range2",
        "arm_sync_file_range",
        "syncfs",
        "tee",
        "vmsplice",
        "write",
        "writev",
        "cachestat",
    ],
    // Files by name.
    &[
        "access",
        "chdir",
        "chmod",
        "chown",
        "chown32",
        "creat",
        "faccessat",
        "faccessat2",
        "fchdir",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "fchown",
        "fchown32",
        "fchownat",
        "fgetxattr",
        "flistxattr",
        "fremovexattr",
        "fsetxattr",
        "fstatat64",
        "futimesat",
        "getcwd",
        "getxattr",
        "lchown",
        "lchown32",
        "lgetxattr",
        "link",
        "linkat",
        "listxattr",
        "llistxattr",
        "lremovexattr",
        "lsetxattr",
        "lstat",
        "lstat64",
        "mkdir",
        "mkdirat",
        "mknod",
        "mknodat",
        "newfstatat",
        "open",
        "openat",
        "openat2",
        "readlink",
        "readlinkat",
        "removexattr",
        "rename",
        "renameat",
        "renameat2",
        "rmdir",
        "setxattr",
        "stat",
        "stat64",
        "statfs",
        "statfs64",
        "statx",
        "symlink",
        "symlinkat",
        "sync",
        "truncate",
        "truncate64",
        "umask",
        "unlink",
        "unlinkat",
        "utime",
        "utimensat",
        "utimensat_time64",
        "utimes",
    ],
    // Waiting for descriptors.
    &[
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_ctl_old",
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "epoll_wait_old",
        "eventfd",
        "eventfd2",
        "inotify_add_watch",
        "inotify_init",
        "inotify_init1",
        "inotify_rm_watch",
        "io_cancel",
        "io_destroy",
        "io_getevents",
        "io_pgetevents",
        "io_pgetevents_time64",
        "io_setup",
        "io_submit",
        "_newselect",
        "pipe",
        "pipe2",
        "poll",
        "ppoll",
        "ppoll_time64",
        "pselect6",
        "pselect6_time64",
        "select",
        "signalfd",
        "signalfd4",
        "timerfd_create",
        "timerfd_gettime",
        "timerfd_gettime64",
        "timerfd_settime",
        "timerfd_settime64",
    ],
    // Memory.
    &[
        "brk",
        "get_mempolicy",
        "madvise",
        "map_shadow_stack",
        "mbind",
        "membarrier",
        "memfd_create",
        "memfd_secret",
        "mincore",
        "mlock",
        "mlock2",
        "mlockall",
        "mmap",
        "mmap2",
        "mprotect",
        "mremap",
        "mseal",
        "msync",
        "munlock",
        "munlockall",
        "munmap",
        "pkey_alloc",
        "pkey_free",
        "pkey_mprotect",
        "remap_file_pages",
        "set_mempolicy",
        "set_mempolicy_home_node",
    ],
    // Processes and threads of its own.
    &[
        "arch_prctl",
        "capget",
        "capset",
        "execve",
        "execveat",
        "exit",
        "exit_group",
        "fork",
        "futex",
        "futex_requeue",
        "futex_time64",
        "futex_wait",
        "futex_waitv",
        "futex_wake",
        "get_robust_list",
        "get_thread_area",
        "getcpu",
        "getpgid",
        "getpgrp",
        "getpid",
        "getppid",
        "getpriority",
        "getrlimit",
        "getrusage",
        "getsid",
        "gettid",
        "ioprio_get",
        "ioprio_set",
        "kill",
        "pidfd_open",
        "pidfd_send_signal",
        "prctl",
        "prlimit64",
        "restart_syscall",
        "riscv_flush_icache",
        "riscv_hwprobe",
        "rseq",
        "sched_get_priority_max",
        "sched_get_priority_min",
        "sched_getaffinity",
        "sched_getattr",
        "sched_getparam",
        "sched_getscheduler",
        "sched_rr_get_interval",
        "sched_rr_get_interval_time64",
        "sched_setaffinity",
        "sched_setattr",
        "sched_setparam",
        "sched_setscheduler",
        "sched_yield",
        "seccomp",
        "set_robust_list",
        "set_thread_area",
        "set_tid_address",
        "setpgid",
        "setpriority",
        "setrlimit",
        "setsid",
        "set_tls",
        "tgkill",
        "tkill",
        "ugetrlimit",
        "vfork",
        "wait4",
        "waitid",
        "waitpid",
        "breakpoint",
        "cacheflush",
        "landlock_add_rule",
        "landlock_create_ruleset",
        "landlock_restrict_self",
        "process_madvise",
        "process_mrelease",
    ],
    // Who it is. Without capabilities none of these gives anything that the process does not have.
    &[
        "getegid",
        "getegid32",
        "geteuid",
        "geteuid32",
        "getgid",
        "getgid32",
        "getgroups",
        "getgroups32",
        "getresgid",
        "getresgid32",
        "getresuid",
        "getresuid32",
        "getuid",
        "getuid32",
        "setfsgid",
        "setfsgid32",
        "setfsuid",
        "setfsuid32",
        "setgid",
        "setgid32",
        "setgroups",
        "setgroups32",
        "setregid",
        "setregid32",
        "setresgid",
        "setresgid32",
        "setresuid",
        "setresuid32",
        "setreuid",
        "setreuid32",
        "setuid",
        "setuid32",
    ],
    // Signals.
    &[
        "alarm",
        "getitimer",
        "pause",
        "rt_sigaction",
        "rt_sigpending",
        "rt_sigprocmask",
        "rt_sigqueueinfo",
        "rt_sigreturn",
        "rt_sigsuspend",
        "rt_sigtimedwait",
        "rt_sigtimedwait_time64",
        "rt_tgsigqueueinfo",
        "setitimer",
        "sigaltstack",
        "signal",
        "sigprocmask",
        "sigreturn",
        "sigaction",
        "sigpending",
        "sigsuspend",
    ],
    // Time, as a reader.
    &[
        "adjtimex",
        "clock_adjtime",
        "clock_adjtime64",
        "clock_getres",
        "clock_getres_time64",
        "clock_gettime",
        "clock_gettime64",
        "clock_nanosleep",
        "clock_nanosleep_time64",
        "gettimeofday",
        "nanosleep",
        "time",
        "timer_create",
        "timer_delete",
        "timer_getoverrun",
        "timer_gettime",
        "timer_gettime64",
        "timer_settime",
        "timer_settime64",
        "times",
    ],
    // Sockets; which families, says a rule of its own.
    &[
        "accept",
        "accept4",
        "bind",
        "connect",
        "getpeername",
        "getsockname",
        "getsockopt",
        "listen",
        "recv",
        "recvfrom",
        "recvmmsg",
        "recvmmsg_time64",
        "recvmsg",
        "send",
        "sendmmsg",
        "sendmsg",
        "sendto",
        "setsockopt",
        "shutdown",
    ],
    // Between processes of its own namespace.
    &[
        "ipc",
        "mq_getsetattr",
        "mq_notify",
        "mq_open",
        "mq_timedreceive",
        "mq_timedreceive_time64",
        "mq_timedsend",
        "mq_timedsend_time64",
        "mq_unlink",
        "msgctl",
        "msgget",
        "msgrcv",
        "msgsnd",
        "semctl",
        "semget",
        "semop",
        "semtimedop",
        "semtimedop_time64",
        "shmat",
        "shmctl",
        "shmdt",
        "shmget",
    ],
    // The machine, as a reader.
    &[
        "getrandom",
        "sysinfo",
        "uname",
        "olduname",
        "oldolduname",
        "lsm_get_self_attr",
        "lsm_list_modules",
    ],
];

/// What a capability is of no use without.
const WITH_CAPABILITY: &[(&str, &[&str])] = &[
    ("CAP_SYS_CHROOT", &["chroot"]),
    (
        "CAP_SYS_TIME",
        &["settimeofday", "stime", "clock_settime", "clock_settime64"],
    ),
    (
        "CAP_SYS_PTRACE",
        &[
            "kcmp",
            "pidfd_getfd",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
        ],
    ),
    ("CAP_SYS_NICE", &["migrate_pages", "move_pages"]),
    ("CAP_SYS_BOOT", &["reboot"]),
    ("CAP_SYS_TTY_CONFIG", &["vhangup"]),
    ("CAP_SYS_PACCT", &["acct"]),
    ("CAP_SYS_RAWIO", &["ioperm", "iopl"]),
    ("CAP_SYSLOG", &["syslog"]),
    (
        "CAP_SYS_MODULE",
        &["delete_module", "finit_module", "init_module"],
    ),
    ("CAP_BPF", &["bpf"]),
    ("CAP_PERFMON", &["perf_event_open"]),
    (
        "CAP_DAC_READ_SEARCH",
        &["name_to_handle_at", "open_by_handle_at"],
    ),
    (
        "CAP_SYS_ADMIN",
        &[
            "bpf",
            "clone3",
            "fanotify_init",
            "fanotify_mark",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "perf_event_open",
            "pivot_root",
            "quotactl",
            "quotactl_fd",
            "setdomainname",
            "sethostname",
            "setns",
            "syslog",
            "umount",
            "umount2",
            "unshare",
        ],
    ),
];

/// The profile of an instance that keeps these capabilities.
pub(super) fn profile(capabilities: &[String]) -> LinuxSeccomp {
    let has = |capability: &str| capabilities.iter().any(|kept| kept == capability);
    let mut rules: Vec<LinuxSyscall> = ALLOWED.iter().map(|names| allow(names, &[])).collect();
    for personality in PERSONALITIES {
        rules.push(allow(&["personality"], &[equals(0, personality)]));
    }
    for family in SOCKET_FAMILIES {
        rules.push(allow(&["socket", "socketpair"], &[equals(0, family)]));
    }
    for call in SOCKET_CALLS {
        rules.push(allow(&["socketcall"], &[equals(0, call)]));
    }
    let later = LinuxSeccompArgBuilder::default()
        .index(0_usize)
        .value(LAST_MAKING_SOCKET_CALL)
        .op(LinuxSeccompOperator::ScmpCmpGt);
    rules.push(allow(&["socketcall"], &[built(later.build())]));
    for (capability, names) in WITH_CAPABILITY {
        if has(capability) {
            rules.push(allow(names, &[]));
        }
    }
    if has("CAP_SYS_ADMIN") {
        rules.push(allow(&["clone"], &[]));
    } else {
        let no_namespaces = LinuxSeccompArgBuilder::default()
            .index(0_usize)
            .value(NAMESPACE_FLAGS)
            .value_two(0_u64)
            .op(LinuxSeccompOperator::ScmpCmpMaskedEq);
        rules.push(allow(&["clone"], &[built(no_namespaces.build())]));
        let unknown = LinuxSyscallBuilder::default()
            .names(vec!["clone3".to_owned()])
            .action(LinuxSeccompAction::ScmpActErrno)
            .errno_ret(ENOSYS);
        rules.push(built(unknown.build()));
    }
    let profile = LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActErrno)
        .default_errno_ret(EPERM)
        .architectures(architectures())
        .syscalls(rules);
    built(profile.build())
}

fn allow(names: &[&str], arguments: &[LinuxSeccompArg]) -> LinuxSyscall {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let rule = LinuxSyscallBuilder::default()
        .names(names)
        .action(LinuxSeccompAction::ScmpActAllow);
    match arguments {
        [] => built(rule.build()),
        arguments => built(rule.args(arguments.to_vec()).build()),
    }
}

fn equals(index: usize, value: u64) -> LinuxSeccompArg {
    let argument = LinuxSeccompArgBuilder::default().index(index).value(value);
    built(argument.op(LinuxSeccompOperator::ScmpCmpEq).build())
}

/// The machine's own, and the one whose programs it runs as well. Calls of others end the program.
fn architectures() -> Vec<Arch> {
    match std::env::consts::ARCH {
        "x86_64" => vec![Arch::ScmpArchX86_64, Arch::ScmpArchX86],
        "aarch64" => vec![Arch::ScmpArchAarch64, Arch::ScmpArchArm],
        // The filter is made for the architecture that the OCI runtime is built for.
        _ => Vec::new(),
    }
}
