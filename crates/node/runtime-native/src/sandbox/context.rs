//! What the execution environment is asked for. Pure: a plan and facts about the process in, a context out.

use std::path::Path;

use muster_exec::{
    CapabilitySets, ExecContext, Identity, Limit, Namespace, Namespaces, Sandbox, WorkingDirectory,
};
use muster_mounts::{Bind, Place, ProcOthers, Propagation, Root, Temporary, View};
use muster_seccomp::{CallFilter, CallRule, Kinds, Policy, Refusal};

use crate::plan::{Network, Plan};

/// System calls that fail with `EPERM`, by name or by systemd's group of them: those by which one leaves a sandbox (mounts, other
/// processes), those that are rich in holes (`bpf`, `io_uring`, `userfaultfd`, key rings, emulation), and those that are
/// about the machine. Beside them, no namespace is made or joined. A deny list, not an allow list: programs come with the
/// host's libraries, of any age, and the kernel already keeps most of these from a program without capabilities. It is
/// one more wall, not the only one.
pub const DENIED_CALLS: &[&str] = &[
    "@clock",
    "@cpu-emulation",
    "@debug",
    "@keyring",
    "@module",
    "@mount",
    "@obsolete",
    "@raw-io",
    "@reboot",
    "@swap",
    "acct",
    "bpf",
    "fanotify_init",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "nfsservctl",
    "open_by_handle_at",
    "process_vm_readv",
    "process_vm_writev",
    "quotactl",
    "quotactl_fd",
    "setdomainname",
    "sethostname",
    "setns",
    "syslog",
    "unshare",
    "userfaultfd",
    "vhangup",
];

/// Devices that every program may count on.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Bytes of `/dev`, `/dev/shm` and `/run`.
const MEMORY_SIZE: u64 = 16 << 20;

/// What has to be known of the process that becomes the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rights {
    /// Whose it is; root may become any other user.
    pub(super) uid: u32,
    /// So many open files may a process of it have.
    pub(super) open_files: u64,
    /// A part that cannot be had is a failure.
    pub(super) is_strict: bool,
}

impl Rights {
    fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// How a program is run whose root is put together at `root`, and what of the plan cannot be had with these rights: part and
/// reason. The program's path is found later, by its name.
pub(super) fn context(
    plan: &Plan,
    root: &Path,
    rights: Rights,
) -> (ExecContext, Vec<(String, String)>) {
    let mut lacking = Vec::new();
    let (namespaces, identity) = if rights.is_root() {
        let identity = Identity {
            uid: plan.uid,
            gid: plan.gid,
            groups: plan.groups.clone(),
        };
        if plan.user_namespace {
            let why = "with root, the native runtime makes none";
            lacking.push(("its user namespace".to_owned(), why.to_owned()));
        }
        (namespaces(&plan.network, false), Some(identity))
    } else {
        if rights.uid != plan.uid {
            let why = format!("without root it runs as {}", rights.uid);
            lacking.push((format!("its user {}", plan.uid), why));
        }
        if !plan.groups.is_empty() {
            let groups: Vec<String> = plan.groups.iter().map(u32::to_string).collect();
            let part = format!("its groups {}", groups.join(", "));
            lacking.push((part, "not without root".to_owned()));
        }
        // Whoever has no rights gets some in a namespace of users, over what is made in it.
        (namespaces(&plan.network, true), None)
    };
    let mut open_files = plan.open_files;
    if !rights.is_root() && open_files > rights.open_files {
        let why = format!("without root it is {}", rights.open_files);
        lacking.push((format!("the limit of {open_files} open files"), why));
        open_files = rights.open_files;
    }
    let context = ExecContext {
        argv: plan.args.iter().map(|text| text.as_str().into()).collect(),
        environment: plan.env.iter().map(|text| text.as_str().into()).collect(),
        working_directory: Some(WorkingDirectory {
            path: text(&plan.cwd),
            optional: false,
        }),
        identity,
        limits: vec![Limit {
            resource: libc::RLIMIT_NOFILE,
            soft: open_files,
            hard: open_files,
        }],
        ignore_sigpipe: false,
        no_new_privileges: true,
        sandbox: Some(Box::new(Sandbox {
            view: view(plan, root),
            namespaces,
            host_name: Some(plan.hostname.as_str().into()),
            capabilities: Some(CapabilitySets {
                bounding: 0,
                ambient: 0,
            }),
            system_calls: system_calls(),
            best_effort: !rights.is_strict,
            ..Sandbox::default()
        })),
        ..ExecContext::default()
    };
    (context, lacking)
}

fn namespaces(network: &Network, users: bool) -> Namespaces {
    Namespaces {
        network: match network {
            Network::Empty => Namespace::Own,
            Network::Namespace(path) => Namespace::Of(text(path)),
            Network::Host => Namespace::Shared,
        },
        ipc: Namespace::Own,
        uts: true,
        users,
        ..Namespaces::default()
    }
}

fn view(plan: &Plan, root: &Path) -> View {
    let devices = DEVICES.map(|name| {
        let path = format!("/dev/{name}");
        bind(path.as_str().into(), path.as_str().into(), false)
    });
    let mut binds = devices.to_vec();
    for granted in &plan.binds {
        let (source, target) = (text(&granted.source), text(&granted.target));
        // What is granted last is what is seen.
        binds.retain(|bind| bind.destination != target);
        binds.push(bind(source, target, granted.read_only));
    }
    View {
        root: Some(Root::Folder(text(root))),
        plain: true,
        read_only: vec![Place {
            path: "/".into(),
            optional: false,
            in_root: true,
        }],
        binds,
        temporary: vec![
            memory("/dev", "mode=0755,ro", MEMORY_SIZE),
            memory("/dev/shm", "mode=1777", MEMORY_SIZE),
            memory("/run", "mode=1777", MEMORY_SIZE),
            memory("/tmp", "mode=1777", plan.tmp_size),
        ],
        others_processes: ProcOthers::Invisible,
        propagation: Some(Propagation::Private),
        ..View::default()
    }
}

/// What the host has at a path and the image has not.
pub(super) fn beside(folder: &Path) -> Bind {
    Bind {
        recursive: false,
        ..bind(text(folder), text(folder), true)
    }
}

fn bind(source: Box<str>, destination: Box<str>, read_only: bool) -> Bind {
    Bind {
        source,
        destination,
        read_only,
        recursive: true,
        optional: false,
    }
}

fn memory(path: &str, options: &str, size: u64) -> Temporary {
    Temporary {
        path: path.into(),
        options: format!("{options},nosuid,nodev,size={size}").into(),
    }
}

fn system_calls() -> Policy {
    let denied = |name: &&str| CallRule {
        name: (*name).into(),
        removed: false,
        refusal: None,
    };
    Policy {
        calls: Some(CallFilter {
            allow: false,
            rules: DENIED_CALLS.iter().map(denied).collect(),
        }),
        refusal: Refusal::Errno(1),
        namespaces: Some(Kinds(0)),
        ..Policy::default()
    }
}

/// Paths of a plan come from JSON, so they are texts.
fn text(path: &Path) -> Box<str> {
    path.to_string_lossy().into()
}

#[cfg(test)]
mod tests;
