//! What goes where when a context is divided.

use super::*;
use crate::context::{IoPriority, Stream, TakeControl, Terminal};

fn context() -> ExecContext {
    ExecContext {
        program: "/bin/x".into(),
        argv: vec!["x".into()],
        environment: vec!["A=1".into(), "LISTEN_FDS=9".into(), "OWN=stale".into()],
        pid_variables: vec!["OWN".into()],
        passed: vec![PassedFd {
            fd: 1,
            name: "web".into(),
            nonblocking: Some(true),
        }],
        identity: Some(Identity {
            uid: 1,
            gid: 2,
            groups: vec![3],
        }),
        limits: vec![Limit {
            resource: 7,
            soft: 1,
            hard: 2,
        }],
        umask: 0o077,
        no_new_privileges: true,
        nice: Some(5),
        io_priority: Some(IoPriority { class: 2, level: 1 }),
        stdout: Stream::Fd(0),
        sandbox: Some(Box::new(Sandbox {
            unit: "x.service".into(),
            ..Sandbox::default()
        })),
        ..ExecContext::default()
    }
}

#[test]
fn rights_and_limits_are_left_to_the_helper() {
    let context = context();
    let delegated = delegate(&context, "/helper", 2).expect("it is small");
    let outer = &delegated.outer;
    assert_eq!(&*outer.program, "/helper");
    assert_eq!((&outer.identity, outer.limits.len()), (&None, 0));
    assert!(!outer.no_new_privileges && outer.sandbox.is_none());
    assert!(
        outer.environment.is_empty(),
        "the program's variables are not the helper's"
    );
    assert_eq!((outer.nice, &outer.stdout), (Some(5), &Stream::Fd(0)));
    assert_eq!(outer.io_priority, context.io_priority);
    let job: Job = serde_json::from_slice(&delegated.job).expect("it was just written");
    assert_eq!(job.identity, context.identity);
    assert_eq!((job.limits.len(), job.umask), (1, 0o077));
    assert_eq!(Some(job.sandbox), context.sandbox.map(|sandbox| *sandbox));
}

#[test]
fn the_job_and_the_pipe_come_behind_what_is_passed() {
    let delegated = delegate(&context(), "/helper", 2).expect("it is small");
    let places: Vec<u16> = delegated.outer.passed.iter().map(|fd| fd.fd).collect();
    assert_eq!(places, [1, 2, 3]);
    assert_eq!(delegated.outer.argv[1], "4".into());
    let job: Job = serde_json::from_slice(&delegated.job).expect("it was just written");
    let variables: Vec<&str> = job.environment.iter().map(|text| &**text).collect();
    assert_eq!(variables, ["A=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=web"]);
    let pids: Vec<&str> = job.pid_variables.iter().map(|text| &**text).collect();
    assert_eq!(pids, ["OWN", "LISTEN_PID"]);
}

#[test]
fn what_namespaces_are_kept_in_comes_last() {
    let mut context = context();
    context.ipc_store = Some([0, 1]);
    let numbers = |context: &ExecContext| {
        let delegated = delegate(context, "/helper", 6).expect("it is small");
        let job: Job = serde_json::from_slice(&delegated.job).expect("it was just written");
        let places: Vec<u16> = delegated.outer.passed.iter().map(|fd| fd.fd).collect();
        (places, job.network_store, job.ipc_store)
    };
    let expected = (vec![1, 6, 7, 0, 1], None, Some([6, 7]));
    assert_eq!(numbers(&context), expected);
    context.network_store = Some([4, 5]);
    let expected = (vec![1, 6, 7, 4, 5, 0, 1], Some([6, 7]), Some([8, 9]));
    assert_eq!(numbers(&context), expected);
}

#[test]
fn the_map_of_exemptions_comes_behind_all_others_and_is_handed_on() {
    let mut context = context();
    context.network_store = Some([4, 5]);
    context.exemptions = Some(0);
    let delegated = delegate(&context, "/helper", 6).expect("it is small");
    let job: Job = serde_json::from_slice(&delegated.job).expect("it was just written");
    let places: Vec<u16> = delegated.outer.passed.iter().map(|fd| fd.fd).collect();
    assert_eq!(places, [1, 6, 7, 4, 5, 0]);
    assert_eq!(
        (job.exemptions, delegated.outer.exemptions),
        (Some(8), Some(0))
    );
}

#[test]
fn what_is_too_much_is_refused() {
    let mut context = context();
    let full = delegate(&context, "/helper", u16::MAX);
    assert!(matches!(
        full,
        Err(DelegateError::TooManyDescriptors { .. })
    ));
    context.argv = vec!["x".repeat(MAX_JOB).into()];
    let large = delegate(&context, "/helper", 2);
    assert!(matches!(large, Err(DelegateError::TooLarge { .. })));
}

#[test]
fn secrets_are_not_printed() {
    let mut context = context();
    context.environment.push("PASSWORD=secret".into());
    let delegated = delegate(&context, "/helper", 2).expect("it is small");
    assert!(!format!("{delegated:?}").contains("secret"));
}

#[test]
fn a_terminal_that_is_waited_for_is_left_to_the_helper_with_its_streams() {
    let mut context = context();
    context.stdin = Stream::Terminal;
    context.stdout = Stream::Same(0);
    context.stderr = Stream::Null;
    context.terminal = Some(Terminal {
        path: "/dev/tty9".into(),
        control: TakeControl::Wait,
        reset: true,
        hang_up: false,
        clear: false,
        size: None,
    });
    let delegated = delegate(&context, "/helper", 2).expect("it is small");
    let outer = &delegated.outer;
    assert_eq!(
        (&outer.stdin, &outer.stdout),
        (&Stream::Null, &Stream::Null)
    );
    assert!(outer.terminal.is_none());
    let job: Job = serde_json::from_slice(&delegated.job).expect("it was just written");
    let awaited = job.terminal.expect("it is waited for");
    assert_eq!(awaited.streams, [0, 1]);
    assert_eq!(Some(awaited.terminal), context.terminal);
    // One that is only taken if it is free needs nobody to wait.
    context.terminal.as_mut().expect("set above").control = TakeControl::IfFree;
    let delegated = delegate(&context, "/helper", 2).expect("it is small");
    assert_eq!(delegated.outer.stdin, Stream::Terminal);
    assert!(delegated.outer.terminal.is_some());
}
