//! Everything at once, as a hardened service asks for it.

use muster_exec::{
    CapabilitySets, ExecContext, Identity, Keyring, Limit, Namespace, Sandbox, Step,
};
use muster_mounts::{Bind, Place, ProtectHome, ProtectSystem, Root, View};
use muster_seccomp::{CallFilter, CallRule, Kinds, Policy};

use crate::rig::{failure, field, is_root, mask, run, sandboxed};

fn hardened(sandbox: &mut Sandbox) {
    let rule = CallRule {
        name: "@system-service".into(),
        removed: false,
        refusal: None,
    };
    sandbox.unit = "whole.service".into();
    sandbox.view = View {
        protect_system: ProtectSystem::Strict,
        protect_home: ProtectHome::Yes,
        private_devices: true,
        protect_kernel_tunables: true,
        protect_control_groups: true,
        own_processes: true,
        own_mounts: true,
        ..View::default()
    };
    sandbox.namespaces.network = Namespace::Own;
    sandbox.namespaces.ipc = Namespace::Own;
    sandbox.namespaces.uts = true;
    sandbox.namespaces.users = true;
    sandbox.namespaces.pids = true;
    sandbox.capabilities = Some(CapabilitySets {
        bounding: 0,
        ambient: 0,
    });
    sandbox.keyring = Keyring::Private;
    sandbox.system_calls = Policy {
        calls: Some(CallFilter {
            allow: true,
            rules: vec![rule],
        }),
        namespaces: Some(Kinds(0)),
        memory_deny_write_execute: true,
        restrict_realtime: true,
        ..Policy::default()
    };
}

fn whole(script: &str) -> ExecContext {
    ExecContext {
        identity: Some(Identity {
            uid: 4711,
            gid: 4712,
            groups: vec![4712],
        }),
        no_new_privileges: true,
        limits: vec![Limit {
            resource: libc::RLIMIT_NOFILE,
            soft: 64,
            hard: 64,
        }],
        ..sandboxed(script, hardened)
    }
}

#[test]
fn all_of_it_holds_together() {
    if !is_root("all_of_it_holds_together") {
        return;
    }
    let script = "cat /proc/self/status; echo ---; echo $$; ulimit -n; hostname; \
                  touch /var/tmp/muster 2>/dev/null || echo read-only; \
                  ls /home >/dev/null 2>&1 || echo closed; \
                  test -e /dev/null && ! test -e /dev/loop0 && echo devices; \
                  ls /proc | grep -c '^[0-9]'; \
                  unshare --uts true 2>/dev/null || echo refused";
    let ran = run(&whole(script));
    assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
    assert_eq!(ran.report.dropped, Vec::<Box<str>>::new());
    let (status, seen) = ran.output.split_once("---\n").unwrap();
    assert_eq!(field(status, "Uid"), "4711\t4711\t4711\t4711");
    assert_eq!(mask(status, "CapBnd"), 0);
    assert_eq!(field(status, "NoNewPrivs"), "1");
    assert_eq!(field(status, "Seccomp"), "2");
    let seen: Vec<&str> = seen.lines().collect();
    assert_eq!(seen[..2], ["2", "64"]);
    assert_eq!(seen[3..6], ["read-only", "closed", "devices"]);
    // The first one, the shell, and the two of the pipe.
    assert_eq!(seen[6..], ["4", "refused"]);
}

#[test]
fn another_root_goes_with_all_the_rest() {
    if !is_root("another_root_goes_with_all_the_rest") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.path(), open).unwrap();
    for name in ["usr", "proc", "sys", "dev", "run", "tmp", "var"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), root.path().join(name)).unwrap();
    }
    let mut context = whole("pwd; ls /; id -u; echo $$");
    context.working_directory = Some(muster_exec::WorkingDirectory {
        path: "/usr".into(),
        optional: false,
    });
    let view = &mut context.sandbox.as_mut().unwrap().view;
    view.root = Some(Root::Folder(root.path().to_str().unwrap().into()));
    view.kernel_file_systems = true;
    view.binds.push(Bind {
        source: "/usr".into(),
        destination: "/usr".into(),
        read_only: true,
        recursive: true,
        optional: false,
    });
    let ran = run(&context);
    assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
    let listing = "bin\ndev\nlib\nlib64\nproc\nrun\nsys\ntmp\nusr\nvar\n";
    assert_eq!(ran.output, format!("/usr\n{listing}4711\n2\n"));
}

#[test]
fn a_path_that_is_missing_is_named_with_its_step() {
    if !is_root("a_path_that_is_missing_is_named_with_its_step") {
        return;
    }
    let mut context = whole("echo ran");
    let view = &mut context.sandbox.as_mut().unwrap().view;
    view.inaccessible.push(Place {
        path: "/no/such/path".into(),
        optional: false,
        in_root: false,
    });
    let (step, failed) = failure(&context);
    assert_eq!((step, failed.errno), (Step::Namespace, libc::ENOENT));
    assert!(failed.detail.contains("/no/such/path"), "{failed:?}");
}
