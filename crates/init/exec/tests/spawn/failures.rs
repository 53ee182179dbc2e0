//! Each step that can fail, and what is said about it.

use muster_exec::{
    ExecContext, FileAccess, Identity, Launch, Limit, Scheduler, Step, Stream, TakeControl,
    Terminal, WorkingDirectory,
};

use crate::rig::{is_root, own_descriptors, program, spawn};

/// The step, its exit code, the error number and what is said.
fn failure(change: impl FnOnce(&mut ExecContext)) -> (Step, u8, i32, String) {
    let mut context = program("/usr/bin/true");
    change(&mut context);
    let error = spawn(&context, &[], &Launch::default()).unwrap_err();
    // It is gone already: nobody is left to wait for.
    let pid = error.pid.unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "{error}");
    let code = error.exit_code();
    (error.step, code, error.errno, error.to_string())
}

fn file(path: &str, access: FileAccess) -> Stream {
    Stream::File {
        path: path.into(),
        access,
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_named() {
    let (step, code, errno, text) = failure(|context| context.program = "/no/such".into());
    assert_eq!((step, code, errno), (Step::Exec, 203, libc::ENOENT));
    assert_eq!(text, "cannot execute /no/such");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let (_, _, errno, _) = failure(|context| context.program = path.into());
    assert_eq!(errno, libc::EACCES);
    let (step, _, errno, _) = failure(|context| {
        let long = "x".repeat(200_000);
        context.argv = vec![long.into()];
    });
    assert_eq!((step, errno), (Step::Exec, libc::E2BIG));
}

#[test]
fn folders_and_streams_are_named() {
    let (_, code, errno, text) = failure(|context| {
        context.working_directory = Some(WorkingDirectory {
            path: "/no/folder".into(),
            optional: false,
        });
    });
    assert_eq!((code, errno), (200, libc::ENOENT));
    assert_eq!(text, "cannot enter the working directory /no/folder");
    let (_, code, _, text) = failure(|context| context.stdin = file("/no/in", FileAccess::Read));
    assert_eq!(code, 208);
    assert_eq!(text, "cannot open /no/in for standard input");
    let (_, code, _, _) = failure(|context| context.stdout = file("/no/out", FileAccess::Append));
    assert_eq!(code, 209);
    let (_, code, errno, _) = failure(|context| context.stderr = file("/usr", FileAccess::Write));
    assert_eq!((code, errno), (222, libc::EISDIR));
    let (_, code, _, text) = failure(|context| {
        context.stdin = Stream::Terminal;
        context.terminal = Some(Terminal {
            path: "/dev/null".into(),
            control: TakeControl::Force,
            reset: false,
            hang_up: false,
            clear: false,
            size: None,
        });
    });
    assert_eq!(code, 208);
    assert_eq!(text, "cannot use the terminal /dev/null for standard input");
}

#[test]
fn settings_that_the_kernel_refuses_are_named() {
    let (_, code, errno, _) = failure(|context| {
        context.scheduler = Some(Scheduler {
            policy: 1,
            priority: 0,
            reset_on_fork: false,
        });
    });
    assert_eq!((code, errno), (214, libc::EINVAL));
    let (_, code, _, _) = failure(|context| context.processors = vec![8000]);
    assert_eq!(code, 215);
    let (_, code, errno, text) = failure(|context| {
        context.limits = vec![Limit {
            resource: 99,
            soft: 1,
            hard: 1,
        }];
    });
    assert_eq!((code, errno), (205, libc::EINVAL));
    assert!(text.contains("99"), "{text}");
}

/// The caller waits meanwhile, so opening a fifo without a reader must not wait for one.
#[test]
fn what_would_wait_fails_instead() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let path = fifo.to_str().unwrap();
    let (_, code, errno, _) = failure(|context| context.stdout = file(path, FileAccess::Write));
    assert_eq!((code, errno), (209, libc::ENXIO));
}

#[test]
fn a_step_without_the_right_to_it_is_named() {
    if !is_root("a_step_without_the_right_to_it_is_named") {
        return;
    }
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let folder = tempfile::Builder::new()
        .permissions(closed)
        .tempdir()
        .unwrap();
    let (step, ..) = failure(|context| {
        context.identity = Some(Identity {
            uid: 4711,
            gid: 4711,
            groups: vec![],
        });
        context.working_directory = Some(WorkingDirectory {
            path: folder.path().to_str().unwrap().into(),
            optional: false,
        });
    });
    assert_eq!(
        step,
        Step::Chdir,
        "the folder is entered with the rights of the user"
    );
}

#[test]
fn failures_leave_no_descriptor_behind() {
    let before = own_descriptors();
    for _ in 0..10 {
        failure(|context| context.program = "/no/such".into());
    }
    assert_eq!(own_descriptors(), before);
}
