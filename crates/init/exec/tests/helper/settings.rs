//! What a program finds that nothing was taken from, and what belongs to it alone.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use muster_exec::variables::EnvironmentFile;
use muster_exec::{
    ExecContext, Keyring, Limit, NumaPolicy, PassedFd, Step, Stream, WorkingDirectory, delegate,
};

use crate::rig::{
    HELPER, failure, field, is_root, output, run, sandboxed, shell, start_with, without,
};

const RLIMIT_FSIZE: u32 = 1;
const RLIMIT_NPROC: u32 = 6;
const RLIMIT_NOFILE: u32 = 7;
const RLIMIT_AS: u32 = 9;

fn limit(resource: u32, soft: u64, hard: u64) -> Limit {
    Limit {
        resource,
        soft,
        hard,
    }
}

#[test]
fn an_empty_sandbox_changes_nothing() {
    let context = ExecContext {
        umask: 0o027,
        nice: Some(3),
        working_directory: Some(WorkingDirectory {
            path: "/usr".into(),
            optional: false,
        }),
        pid_variables: vec!["OWN".into()],
        ..shell("echo $$ $OWN; umask; nice; pwd; ls /proc/self/fd; env | sort")
    };
    let text = output(&context);
    let lines: Vec<&str> = text.lines().collect();
    let (shown, own) = lines[0].split_once(' ').unwrap();
    assert_eq!(shown, own);
    assert_eq!(&lines[1..4], ["0027", "3", "/usr"]);
    // The standard streams, and that with which the folder is read.
    assert_eq!(&lines[4..8], ["0", "1", "2", "3"]);
    let names: Vec<&str> = lines[8..]
        .iter()
        .map(|v| v.split('=').next().unwrap())
        .collect();
    assert_eq!(names, ["OWN", "PATH", "PWD"], "{text}");
}

#[test]
fn a_score_is_that_of_the_new_process_alone() {
    let own = || std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let before = own();
    let of = |score| {
        sandboxed("cat /proc/self/oom_score_adj", |sandbox| {
            sandbox.oom_score_adjust = Some(score);
        })
    };
    assert_eq!(output(&of(321)), "321\n");
    assert_eq!(own(), before);
    let (step, failed) = failure(&of(2000));
    assert_eq!((step, failed.errno), (Step::OomAdjust, libc::EINVAL));
}

#[test]
fn variables_come_from_files_that_the_manager_does_not_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, optional| EnvironmentFile {
        path: folder.path().join(name).to_str().unwrap().into(),
        optional,
    };
    std::fs::write(folder.path().join("a.env"), "A=first\nB='b b'\n").unwrap();
    std::fs::write(folder.path().join("b.env"), "A=second\n").unwrap();
    let with = |files: Vec<EnvironmentFile>| {
        let mut context = sandboxed("", |sandbox| {
            sandbox.environment_files = files;
            sandbox.expands_arguments = true;
        });
        context.environment.push("A=unit".into());
        ExecContext {
            program: "/bin/echo".into(),
            argv: vec!["echo".into(), "${A}".into(), "$B".into()],
            ..context
        }
    };
    let text = output(&with(vec![file("*.env", false), file("none", true)]));
    assert_eq!(text, "second b b\n");
    let (step, failed) = failure(&with(vec![file("none", false)]));
    assert_eq!(step, Step::Exec);
    assert!(failed.detail.contains("none"), "{failed:?}");
}

#[test]
fn passed_descriptors_arrive_and_are_counted() {
    let file = std::fs::File::open("/etc/hostname").unwrap();
    let script = "echo $LISTEN_FDS $LISTEN_FDNAMES; test $LISTEN_PID = $$ && echo own; \
                  readlink /proc/self/fd/3; ls /proc/self/fd | wc -l";
    let context = ExecContext {
        passed: vec![PassedFd {
            fd: 1,
            name: "web".into(),
            nonblocking: None,
        }],
        ..shell(script)
    };
    let delegated = delegate(&context, HELPER, 2).unwrap();
    let ran = start_with(delegated, &[file.as_fd()]).finish();
    assert_eq!(ran.output, "1 web\nown\n/etc/hostname\n5\n");
}

#[test]
fn limits_hold_for_the_program_and_not_for_the_helper() {
    let context = ExecContext {
        limits: vec![
            limit(RLIMIT_NOFILE, 10, 12),
            limit(RLIMIT_AS, 100 << 20, 200 << 20),
            limit(RLIMIT_FSIZE, 0, 0),
            limit(RLIMIT_NPROC, 5000, 6000),
        ],
        ..shell("ulimit -Sn; ulimit -Hn; ulimit -Sv; ulimit -Hv; ulimit -f; ulimit -p")
    };
    assert_eq!(output(&context), "10\n12\n102400\n204800\n0\n5000\n");
}

/// No memory is to be had for saying what went wrong.
#[test]
fn a_failure_is_told_where_memory_is_limited() {
    let context = ExecContext {
        program: "/no/such/program".into(),
        limits: vec![limit(RLIMIT_AS, 4096, 4096)],
        ..shell("")
    };
    let (step, failed) = failure(&context);
    assert_eq!((step, failed.errno), (Step::Exec, libc::ENOENT));
    assert_eq!(&*failed.detail, "cannot execute /no/such/program");
}

#[test]
fn a_limit_that_the_kernel_does_not_have_is_refused() {
    let context = ExecContext {
        limits: vec![limit(99, 1, 1)],
        ..shell("echo ran")
    };
    let (step, failed) = failure(&context);
    assert_eq!((step, failed.errno), (Step::Limits, libc::EINVAL));
    assert!(failed.detail.contains("99"));
}

#[test]
fn the_personality_is_taken_on() {
    const LINUX32: u32 = 8;
    let native = output(&shell("uname -m"));
    let other = output(&sandboxed("uname -m", |sandbox| {
        sandbox.personality = Some(LINUX32);
    }));
    assert_ne!(native, other);
}

#[test]
fn memory_comes_from_the_nodes_that_are_named() {
    const BIND: u32 = 2;
    let on_node = |node: u16| {
        sandboxed("head -1 /proc/self/numa_maps", |sandbox| {
            sandbox.numa = Some(NumaPolicy {
                policy: BIND,
                nodes: vec![node],
            });
        })
    };
    let ran = run(&on_node(0));
    assert_eq!(ran.status.exit_status(), Some(0));
    if !ran.report.dropped.is_empty() {
        assert!(ran.report.dropped[0].starts_with("NUMAPolicy: "), "{ran:?}");
        return;
    }
    assert!(ran.output.contains("bind:0"), "{}", ran.output);
    let (step, failed) = failure(&on_node(1000));
    assert_eq!((step, failed.errno), (Step::NumaPolicy, libc::EINVAL));
    let mut lenient = on_node(1000);
    lenient.sandbox.as_mut().unwrap().best_effort = true;
    let (_, dropped) = without(&lenient);
    assert!(dropped[0].starts_with("NUMAPolicy: "), "{dropped:?}");
}

#[test]
fn a_keyring_is_the_users_own() {
    if !is_root("a_keyring_is_the_users_own") {
        return;
    }
    let context = |mode| {
        let mut context = sandboxed("grep keyring /proc/keys", |sandbox| sandbox.keyring = mode);
        context.identity = Some(muster_exec::Identity {
            uid: 4711,
            gid: 4711,
            groups: Vec::new(),
        });
        context
    };
    let ran = run(&context(Keyring::Private));
    if !ran.report.dropped.is_empty() {
        assert!(
            ran.report.dropped[0].starts_with("KeyringMode: "),
            "{ran:?}"
        );
        return;
    }
    assert!(ran.output.contains("_ses"), "{}", ran.output);
    assert!(ran.output.lines().all(|line| line.contains(" 4711 ")));
    // Root's key, which the process may read, tells which run it is.
    let told = ExecContext {
        argv: ["sh", "-c", "grep -c 'invocation_id: 16' /proc/keys"]
            .map(Into::into)
            .into(),
        invocation: Some([7; 16]),
        ..context(Keyring::Private)
    };
    assert_eq!(output(&told), "1\n");
    let shared = run(&context(Keyring::Shared));
    assert!(shared.output.contains("_uid.4711"), "{}", shared.output);
}

#[test]
fn a_label_for_a_module_that_does_not_run_is_said_to_have_no_effect() {
    if std::path::Path::new("/sys/fs/smackfs/load2").exists() {
        println!("a_label_for_a_module_that_does_not_run: skipped, the module runs here");
        return;
    }
    let (said, dropped) = without(&sandboxed("echo ran", |sandbox| {
        sandbox.smack_label = Some("label".into());
    }));
    assert_eq!(said, "ran\n");
    let expected = "SmackProcessLabel: this kernel does not run its security module";
    assert_eq!(dropped, [expected]);
}

#[test]
fn signals_and_streams_are_as_the_direct_path_makes_them() {
    let context = ExecContext {
        program: "/usr/bin/cat".into(),
        argv: vec!["cat".into(), "/proc/self/status".into()],
        stderr: Stream::Same(1),
        ..shell("")
    };
    let status = output(&context);
    assert_eq!(field(&status, "SigBlk"), "0000000000000000");
    assert_eq!(field(&status, "SigIgn"), "0000000000001000");
    let heeding = ExecContext {
        ignore_sigpipe: false,
        ..context.clone()
    };
    assert_eq!(field(&output(&heeding), "SigIgn"), "0000000000000000");
    assert_eq!(field(&status, "NoNewPrivs"), "0");
}

/// The folder that it is in has another name for everybody else.
#[test]
fn a_program_is_found_in_what_the_process_sees() {
    if !is_root("a_program_is_found_in_what_the_process_sees") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("tool-of-the-view");
    std::fs::write(&tool, "#!/bin/sh\necho found $0\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = folder.path().to_str().unwrap();
    let context = ExecContext {
        program: "tool-of-the-view".into(),
        ..sandboxed("", |sandbox| {
            sandbox.program_folders = vec!["/usr/bin".into(), "/mnt".into()];
            sandbox.view.binds = vec![muster_mounts::Bind {
                source: source.into(),
                destination: "/mnt".into(),
                read_only: true,
                recursive: false,
                optional: false,
            }];
        })
    };
    assert_eq!(output(&context), "found /mnt/tool-of-the-view\n");
}
