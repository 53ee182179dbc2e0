//! Namespaces of the network, of queues, of the host's name and of users.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_exec::{
    CapabilitySets, ExecContext, Identity, KnownUsers, Namespace, Sandbox, Step, delegate,
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

use crate::rig::{
    HELPER, Ran, Running, failure, field, is_root, mask, output, sandboxed, start_with, without,
};

fn link(name: &str) -> String {
    let link = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
    format!("{}\n", link.display())
}

fn show(name: &str) -> String {
    format!("readlink /proc/self/ns/{name}")
}

#[test]
fn a_network_of_its_own_has_a_loopback_that_works() {
    if !is_root("a_network_of_its_own_has_a_loopback_that_works") {
        return;
    }
    let script = "readlink /proc/self/ns/net; ip -o link; ip -o addr show dev lo";
    let text = output(&sandboxed(script, |sandbox| {
        sandbox.namespaces.network = Namespace::Own;
    }));
    assert!(!text.starts_with(&link("net")), "{text}");
    assert!(text.contains("127.0.0.1/8"), "{text}");
    let links: Vec<&str> = text.lines().filter(|line| line.contains("mtu")).collect();
    assert!(
        links.iter().any(|line| line.contains("<LOOPBACK,UP")),
        "{text}"
    );
    let up = links.iter().filter(|line| line.contains("UP,"));
    assert_eq!(up.count(), 1, "nothing leads outside: {text}");
}

#[test]
fn a_network_of_its_own_is_seen_among_the_kernels_objects() {
    if !is_root("a_network_of_its_own_is_seen_among_the_kernels_objects") {
        return;
    }
    let script = "echo $(ls /sys/class/net); grep -c ' /sys/' /proc/self/mounts; echo 1 >/sys/x";
    let of = |own_network| {
        let text = output(&sandboxed(
            &format!("exec 2>&1; {script} || true"),
            |sandbox| {
                sandbox.namespaces.network = Namespace::Own;
                sandbox.view.own_network = own_network;
                sandbox.view.own_mounts = true;
                sandbox.view.protect_kernel_tunables = true;
            },
        ));
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (machines, own) = (of(false), of(true));
    assert_eq!(own[0], "lo", "the machine has {}", machines[0]);
    assert!(own[2].contains("Read-only"), "{own:?}");
    // Control groups, and whatever else is mounted there, are there as before.
    assert_ne!(own[1], "0");
    let groups = "stat -f -c %T /sys/fs/cgroup; test -w /sys/fs/cgroup && echo open";
    let of = |own_network| {
        output(&sandboxed(groups, |sandbox| {
            sandbox.namespaces.network = Namespace::Own;
            sandbox.view.own_network = own_network;
        }))
    };
    assert_eq!(of(true), of(false));
}

#[test]
fn a_namespace_is_joined_by_its_file() {
    if !is_root("a_namespace_is_joined_by_its_file") {
        return;
    }
    let mut sleeper = std::process::Command::new("unshare")
        .args(["--net", "--ipc", "sh", "-c", "echo; read wait"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 1];
    let stdout = sleeper.stdout.as_mut().unwrap();
    std::io::Read::read_exact(stdout, &mut ready).unwrap();
    let file = |name: &str| format!("/proc/{}/ns/{name}", sleeper.id());
    let their = |name: &str| std::fs::read_link(file(name)).unwrap();
    let expected = format!("{}\n{}\n", their("net").display(), their("ipc").display());
    let script = format!("{}; {}", show("net"), show("ipc"));
    let joins = |sandbox: &mut Sandbox| {
        sandbox.namespaces.network = Namespace::Of(file("net").into());
        sandbox.namespaces.ipc = Namespace::Of(file("ipc").into());
    };
    let joined = output(&sandboxed(&script, joins));
    drop(sleeper.stdin.take());
    sleeper.wait().unwrap();
    assert_eq!(joined, expected);
}

#[test]
fn a_namespace_that_is_not_there_is_refused_or_said() {
    let network = |sandbox: &mut Sandbox| {
        sandbox.namespaces.network = Namespace::Of("/no/such/namespace".into());
    };
    let (step, failed) = failure(&sandboxed("echo ran", network));
    assert_eq!((step, failed.errno), (Step::Network, libc::ENOENT));
    assert!(failed.detail.contains("/no/such/namespace"));
    let (said, dropped) = without(&sandboxed("echo ran", |sandbox| {
        network(sandbox);
        sandbox.best_effort = true;
    }));
    assert_eq!(said, "ran\n");
    assert!(
        dropped[0].starts_with("NetworkNamespacePath: "),
        "{dropped:?}"
    );
    // One of another kind is none.
    let (step, _) = failure(&sandboxed("echo ran", |sandbox| {
        sandbox.namespaces.ipc = Namespace::Of("/proc/self/ns/uts".into());
    }));
    assert_eq!(step, Step::Namespace);
    let (step, _) = failure(&sandboxed("echo ran", |sandbox| {
        sandbox.namespaces.network = Namespace::Of("/dev/null".into());
    }));
    assert_eq!(step, Step::Network);
}

/// What a network and queues can be kept in.
struct Stores([OwnedFd; 4]);

impl Stores {
    fn new() -> Self {
        let pair = || {
            let datagrams = SocketType::DGRAM;
            socketpair(AddressFamily::UNIX, datagrams, SocketFlags::CLOEXEC, None).unwrap()
        };
        let ((a, b), (c, d)) = (pair(), pair());
        Self([a, b, c, d])
    }

    /// A process that has both as its own, and says which they are and what descriptors it has.
    fn start(&self, change: impl FnOnce(&mut Sandbox)) -> Running {
        let script = format!("{}; {}; echo /proc/self/fd/*", show("net"), show("ipc"));
        let mut context = sandboxed(&script, |sandbox| {
            sandbox.namespaces.network = Namespace::Own;
            sandbox.namespaces.ipc = Namespace::Own;
            change(sandbox);
        });
        (context.network_store, context.ipc_store) = (Some([1, 2]), Some([3, 4]));
        let ends: Vec<BorrowedFd<'_>> = self.0.iter().map(AsFd::as_fd).collect();
        start_with(delegate(&context, HELPER, 5).unwrap(), &ends)
    }

    fn seen(&self) -> String {
        let ran = self.start(|_| {}).finish();
        assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
        ran.output
    }
}

#[test]
fn what_is_kept_is_shared_when_its_maker_is_gone() {
    if !is_root("what_is_kept_is_shared_when_its_maker_is_gone") {
        return;
    }
    let stores = Stores::new();
    let first = stores.seen();
    assert!(!first.contains(link("net").trim()) && !first.contains(link("ipc").trim()));
    let streams_only = "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2";
    assert!(
        first.contains(streams_only) && !first.contains("fd/4"),
        "{first}"
    );
    for _ in 0..3 {
        assert_eq!(stores.seen(), first);
    }
    let others = Stores::new().seen();
    let common = others.lines().filter(|line| line.contains(":["));
    assert!(
        !common.into_iter().any(|line| first.contains(line)),
        "{others}"
    );
}

#[test]
fn of_many_at_once_one_is_the_first() {
    if !is_root("of_many_at_once_one_is_the_first") {
        return;
    }
    let stores = Stores::new();
    let running: Vec<Running> = (0..8).map(|_| stores.start(|_| {})).collect();
    let seen: Vec<String> = running.into_iter().map(|one| one.finish().output).collect();
    assert!(seen[0].contains("net:["), "{seen:?}");
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
}

#[test]
fn a_process_that_fails_on_the_way_takes_nothing_away() {
    if !is_root("a_process_that_fails_on_the_way_takes_nothing_away") {
        return;
    }
    let stores = Stores::new();
    let fails = |sandbox: &mut Sandbox| {
        sandbox.view.root = Some(muster_mounts::Root::Folder("/no/such/root".into()));
    };
    let failed = stores.start(fails).finish();
    assert!(failed.report.failed.is_some(), "{failed:?}");
    let first = stores.seen();
    let failed = stores.start(fails).finish();
    assert!(failed.report.failed.is_some(), "{failed:?}");
    assert_eq!(stores.seen(), first);
}

/// A machine that has no such namespaces makes none. One that is kept is there, and its unit is not to run beside it.
#[test]
fn who_cannot_join_what_is_kept_does_not_run_beside_it() {
    if !is_root("who_cannot_join_what_is_kept_does_not_run_beside_it") {
        return;
    }
    for (at, step) in [(1, Step::Network), (3, Step::Namespace)] {
        let stores = Stores::new();
        // What is no namespace is refused as where there is none of the kind: EINVAL.
        let other = std::fs::File::open("/dev/null").unwrap();
        let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let rights = [other.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&rights)));
        let data = [IoSlice::new(b"n")];
        sendmsg(&stores.0[at], &data, &mut control, SendFlags::empty()).unwrap();
        let ran = stores.start(|_| {}).finish();
        let failed = ran.report.failed.unwrap();
        assert_eq!(failed.step(), Some(step), "{failed:?}");
        assert_eq!(failed.errno, libc::EINVAL, "{failed:?}");
        assert_eq!(ran.output, "", "nothing was executed");
        // Unless the unit says that it may.
        let ran = stores.start(|sandbox| sandbox.best_effort = true).finish();
        assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
        assert_eq!(ran.report.dropped.len(), 1, "{ran:?}");
    }
}

#[test]
fn queues_and_the_hosts_name_are_its_own() {
    if !is_root("queues_and_the_hosts_name_are_its_own") {
        return;
    }
    let before = rustix::system::uname().nodename().to_owned();
    let script = format!(
        "{}; {}; hostname muster-test; hostname",
        show("ipc"),
        show("uts")
    );
    let text = output(&sandboxed(&script, |sandbox| {
        sandbox.namespaces.ipc = Namespace::Own;
        sandbox.namespaces.uts = true;
    }));
    assert!(!text.contains(&link("ipc")) && !text.contains(&link("uts")));
    assert!(text.ends_with("muster-test\n"), "{text}");
    let named = output(&sandboxed("hostname", |sandbox| {
        sandbox.namespaces.uts = true;
        sandbox.host_name = Some("box".into());
    }));
    assert_eq!(named, "box\n");
    assert_eq!(rustix::system::uname().nodename(), &*before);
}

fn with_users(script: &str) -> ExecContext {
    sandboxed(script, |sandbox| sandbox.namespaces.users = true)
}

fn map(text: &str) -> Vec<Vec<u32>> {
    let rows = text.lines();
    rows.map(|row| row.split_whitespace().map(|n| n.parse().unwrap()).collect())
        .collect()
}

#[test]
fn only_root_and_the_user_exist_among_users() {
    if !is_root("only_root_and_the_user_exist_among_users") {
        return;
    }
    assert_eq!(
        map(&output(&with_users("cat /proc/self/uid_map"))),
        [[0, 0, 1]]
    );
    let mut context = with_users("cat /proc/self/uid_map /proc/self/gid_map; exec 1>&-");
    context.identity = Some(Identity {
        uid: 4711,
        gid: 4712,
        groups: vec![4712],
    });
    let expected = [[0, 0, 1], [4711, 4711, 1], [0, 0, 1], [4712, 4712, 1]];
    assert_eq!(map(&output(&context)), expected);
    context.argv[2] = "cat /proc/self/status".into();
    let status = output(&context);
    assert_eq!(field(&status, "Uid"), "4711\t4711\t4711\t4711");
    assert_eq!(field(&status, "Groups"), "4712");
    assert_eq!(mask(&status, "CapEff"), 0);
}

#[test]
fn more_users_exist_where_more_are_asked_for() {
    if !is_root("more_users_exist_where_more_are_asked_for") {
        return;
    }
    let with = |known| {
        let mut context = with_users("cat /proc/self/uid_map /proc/self/gid_map; id -u");
        context.sandbox.as_mut().unwrap().namespaces.known_users = known;
        context.identity = Some(Identity {
            uid: 70_000,
            gid: 7,
            groups: Vec::new(),
        });
        map(&output(&context))
    };
    let first = vec![
        vec![0, 0, 65_536],
        vec![70_000, 70_000, 1],
        vec![0, 0, 65_536],
        vec![70_000],
    ];
    assert_eq!(with(KnownUsers::First), first);
    let whole = [vec![0, 0, 1], vec![1, 1, u32::MAX - 1]];
    let all: Vec<_> = whole.iter().chain(&whole).cloned().collect();
    assert_eq!(with(KnownUsers::All)[..4], all[..]);
}

#[test]
fn a_process_sees_no_control_groups_but_its_own() {
    if !is_root("a_process_sees_no_control_groups_but_its_own") {
        return;
    }
    let seen = |read_only| {
        let script = "cut -d : -f 3 /proc/self/cgroup | sort -u; grep -c . /sys/fs/cgroup/cgroup.procs; \
                      grep ' /sys/fs/cgroup ' /proc/self/mounts | tail -n 1";
        output(&sandboxed(script, |sandbox| {
            sandbox.namespaces.groups = true;
            sandbox.view.own_groups = true;
            sandbox.view.protect_control_groups = read_only;
        }))
    };
    for (read_only, options) in [
        (false, "rw,nosuid,nodev,noexec"),
        (true, "ro,nosuid,nodev,noexec"),
    ] {
        let text = seen(read_only);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "/", "{text}");
        assert_ne!(lines[1], "0", "{text}");
        let mounted = format!("cgroup2 /sys/fs/cgroup cgroup2 {options}");
        assert!(lines[2].starts_with(&mounted), "{text}");
    }
}

#[test]
fn root_among_its_own_users_has_no_power_over_the_machine() {
    if !is_root("root_among_its_own_users_has_no_power_over_the_machine") {
        return;
    }
    let script = "hostname muster-test 2>/dev/null || echo refused; cat /proc/self/status";
    let mut context = with_users(script);
    let sandbox = context.sandbox.as_mut().unwrap();
    sandbox.capabilities = Some(CapabilitySets {
        bounding: 1 << 21,
        ambient: 0,
    });
    let text = output(&context);
    assert!(text.starts_with("refused\n"), "{text}");
    assert_eq!(mask(&text, "CapEff"), 1 << 21, "bounded there too");
}

/// A manager that is nobody in particular.
fn as_nobody(context: &ExecContext) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let helper = folder.path().join("helper");
    // Not by this process: another thread's child would have the copy open for writing for a moment.
    let copied = std::process::Command::new("cp")
        .arg(HELPER)
        .arg(&helper)
        .status();
    assert!(copied.unwrap().success());
    let mut delegated = delegate(context, helper.to_str().unwrap(), 1).unwrap();
    delegated.outer.identity = Some(Identity {
        uid: 4711,
        gid: 4712,
        groups: Vec::new(),
    });
    start_with(delegated, &[]).finish()
}

#[test]
fn a_manager_without_rights_gets_them_among_its_own_users() {
    if !is_root("a_manager_without_rights_gets_them_among_its_own_users") {
        return;
    }
    let ran = as_nobody(&sandboxed(
        "id -u; id -g; readlink /proc/self/ns/net; cat /proc/self/uid_map",
        |sandbox| {
            sandbox.namespaces.users = true;
            sandbox.namespaces.network = Namespace::Own;
        },
    ));
    if !ran.report.dropped.is_empty() {
        assert!(
            ran.report.dropped[0].starts_with("PrivateUsers: "),
            "{ran:?}"
        );
        return;
    }
    let lines: Vec<&str> = ran.output.lines().collect();
    assert_eq!(&lines[..2], ["4711", "4712"], "{ran:?}");
    assert_ne!(lines[2], link("net").trim());
    assert_eq!(map(lines[3]), [[4711, 4711, 1]]);
}

/// systemd documents that these have no effect where namespaces cannot be had.
#[test]
fn what_a_machine_does_not_offer_is_said() {
    if !is_root("what_a_machine_does_not_offer_is_said") {
        return;
    }
    let ran = as_nobody(&sandboxed("echo ran", |sandbox| {
        sandbox.namespaces.network = Namespace::Own;
        sandbox.namespaces.ipc = Namespace::Own;
        sandbox.namespaces.uts = true;
        sandbox.namespaces.pids = true;
    }));
    assert_eq!((ran.status.exit_status(), &*ran.output), (Some(0), "ran\n"));
    let dropped = ran.report.dropped.iter();
    let names: Vec<&str> = dropped
        .map(|text| text.split(':').next().unwrap())
        .collect();
    let expected = [
        "PrivateNetwork",
        "PrivateIPC",
        "PrivatePIDs",
        "ProtectHostname",
    ];
    assert_eq!(names, expected);
}
