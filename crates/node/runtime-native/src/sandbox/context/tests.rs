use muster_seccomp::Purpose;

use super::*;
use crate::plan::{Bind as Granted, Limits};

const ROOT: Rights = Rights {
    uid: 0,
    open_files: 10,
    is_strict: false,
};

fn plan() -> Plan {
    Plan {
        args: vec!["/bin/a".into()],
        env: vec!["A=b".into()],
        cwd: "/w".into(),
        hostname: "box".into(),
        uid: 5001,
        gid: 5002,
        groups: vec![44],
        layers: Vec::new(),
        beside: Vec::new(),
        binds: Vec::new(),
        network: Network::Empty,
        tmp_size: 4096,
        open_files: 64,
        limits: Limits::default(),
        user_namespace: false,
    }
}

fn made(plan: &Plan, rights: Rights) -> (ExecContext, Sandbox, Vec<(String, String)>) {
    let (mut context, lacking) = context(plan, Path::new("/f/rootfs"), rights);
    let sandbox = *context.sandbox.take().expect("a sandbox");
    (context, sandbox, lacking)
}

#[test]
fn root_gives_everything_up_and_lacks_nothing() {
    let (context, sandbox, lacking) = made(&plan(), ROOT);
    assert_eq!(lacking, []);
    let identity = Identity {
        uid: 5001,
        gid: 5002,
        groups: vec![44],
    };
    assert_eq!(context.identity, Some(identity));
    assert!(context.no_new_privileges && !context.ignore_sigpipe);
    let none = CapabilitySets {
        bounding: 0,
        ambient: 0,
    };
    assert_eq!(sandbox.capabilities, Some(none));
    let limit = context.limits[0];
    assert_eq!((limit.soft, limit.hard), (64, 64));
    assert_eq!(sandbox.namespaces.network, Namespace::Own);
    assert_eq!(sandbox.namespaces.ipc, Namespace::Own);
    assert!(sandbox.namespaces.uts && !sandbox.namespaces.users && !sandbox.namespaces.pids);
    assert_eq!(sandbox.host_name.as_deref(), Some("box"));
    assert!(sandbox.best_effort);
    let strict = Rights {
        is_strict: true,
        ..ROOT
    };
    assert!(!made(&plan(), strict).1.best_effort);
}

#[test]
fn whoever_is_not_root_is_told_what_that_costs() {
    let somebody = Rights { uid: 4242, ..ROOT };
    let (context, sandbox, lacking) = made(&plan(), somebody);
    let lacking: Vec<String> = lacking
        .into_iter()
        .map(|(part, why)| format!("{part}: {why}"))
        .collect();
    assert_eq!(
        lacking,
        [
            "its user 5001: without root it runs as 4242",
            "its groups 44: not without root",
            "the limit of 64 open files: without root it is 10",
        ]
    );
    assert_eq!(context.identity, None);
    assert_eq!(context.limits[0].hard, 10);
    assert!(sandbox.namespaces.users);
    let own = Plan {
        uid: 4242,
        groups: Vec::new(),
        open_files: 9,
        ..plan()
    };
    assert_eq!(made(&own, somebody).2, []);
}

#[test]
fn a_user_namespace_that_is_asked_for_is_had_or_named() {
    let asks = Plan {
        user_namespace: true,
        uid: 4242,
        groups: Vec::new(),
        open_files: 9,
        ..plan()
    };
    let (_, sandbox, lacking) = made(&asks, ROOT);
    assert!(!sandbox.namespaces.users);
    let parts: Vec<&str> = lacking.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(parts, ["its user namespace"]);
    let (_, sandbox, lacking) = made(&asks, Rights { uid: 4242, ..ROOT });
    assert!(sandbox.namespaces.users);
    assert_eq!(lacking, []);
}

#[test]
fn each_network_is_asked_for_as_planned() {
    for (network, namespace) in [
        (Network::Host, Namespace::Shared),
        (Network::Empty, Namespace::Own),
        (
            Network::Namespace("/run/netns/a".into()),
            Namespace::Of("/run/netns/a".into()),
        ),
    ] {
        let plan = Plan { network, ..plan() };
        assert_eq!(made(&plan, ROOT).1.namespaces.network, namespace);
    }
}

#[test]
fn of_two_that_are_granted_at_one_place_the_last_is_seen() {
    let granted = |source: &str, read_only| Granted {
        source: source.into(),
        target: "/dev/null".into(),
        read_only,
        is_device: false,
    };
    let plan = Plan {
        binds: vec![granted("/b", true), granted("/a", false)],
        ..plan()
    };
    let view = made(&plan, ROOT).1.view;
    let there: Vec<_> = view
        .binds
        .iter()
        .filter(|bind| &*bind.destination == "/dev/null")
        .map(|bind| (&*bind.source, bind.read_only))
        .collect();
    assert_eq!(there, [("/a", false)]);
    assert!(view.plain);
}

#[test]
fn what_was_ever_denied_is_denied_by_a_name_that_is_known() {
    let listed = system_calls()
        .calls
        .expect("a filter")
        .listed(Purpose::Refuse);
    assert_eq!(listed.unknown, []);
    let ever = "unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick \
                mount_setattr ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp bpf perf_event_open userfaultfd \
                io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key init_module finit_module \
                delete_module kexec_load reboot swapon swapoff settimeofday clock_settime acct quotactl syslog \
                open_by_handle_at fanotify_init lookup_dcookie nfsservctl vhangup";
    for call in ever.split_whitespace() {
        assert!(listed.calls.contains_key(call), "{call}");
    }
    // What every program needs is not among them.
    for call in [
        "clone",
        "clone3",
        "execve",
        "personality",
        "setuid",
        "chown",
    ] {
        assert!(!listed.calls.contains_key(call), "{call}");
    }
}
