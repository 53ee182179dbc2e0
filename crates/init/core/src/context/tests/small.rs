//! Small rules of single directives.

use super::rig::{Fake, START, built_by, context, failure, unit, variable};
use crate::context::terminal_restorer;

#[test]
fn files_of_streams_have_the_mode_that_the_mask_leaves() {
    assert_eq!(context("").stream_mode, 0o644);
    assert_eq!(context("UMask=0077").stream_mode, 0o600);
    assert_eq!(context("UMask=0002").stream_mode, 0o664);
}

#[test]
fn processors_follow_memory_nodes() {
    let mut fake = Fake::default();
    let node = |number| format!("/sys/devices/system/node/node{number}/cpulist");
    fake.files.insert(node(0), b"0-1,4\n".to_vec());
    fake.files.insert(node(1), b"2-3\n".to_vec());
    let lines = "ExecStart=/bin/x\nNUMAPolicy=bind\nNUMAMask=0-1\nCPUAffinity=numa";
    let built = built_by(&mut fake, lines, START, |_| {}).unwrap();
    assert_eq!(built.context.processors, [0, 1, 2, 3, 4]);
    let error = failure("NUMAPolicy=bind\nNUMAMask=7\nCPUAffinity=numa");
    assert!(error.step.contains("node7/cpulist"), "{}", error.step);
    assert_eq!(error.exit_code, 215);
}

#[test]
fn a_folder_with_several_links_is_named_once() {
    let context = context("RuntimeDirectory=foo:bar foo:baz other");
    assert_eq!(
        variable(&context, "RUNTIME_DIRECTORY"),
        Some("/run/foo:/run/other")
    );
}

#[test]
fn a_login_is_somebodys() {
    assert_eq!(context("PAMName=login").sandbox, None);
    let login = context("PAMName=login\nUser=web").sandbox.unwrap().login;
    assert_eq!(&*login.unwrap().user, "web");
}

#[test]
fn a_user_that_is_lent_never_runs_without_its_view() {
    let of = |lines| context(lines).sandbox.unwrap().insists_on_view;
    assert!(of("DynamicUser=yes"));
    assert!(!of("ProtectSystem=strict"));
}

#[test]
fn a_priority_is_one_that_its_policy_has() {
    let of = |lines| context(lines).scheduler.unwrap().priority;
    assert_eq!(of("CPUSchedulingPolicy=rr"), 1);
    assert_eq!(of("CPUSchedulingPolicy=fifo\nCPUSchedulingPriority=99"), 99);
    assert_eq!(of("CPUSchedulingPolicy=batch\nCPUSchedulingPriority=5"), 0);
}

#[test]
fn what_may_never_answer_is_left_to_the_helper() {
    let of = |lines: &str| {
        let mut fake = Fake::default();
        fake.distant = Some("/far/");
        let context = built_by(&mut fake, lines, START, |_| {}).unwrap().context;
        (context.sandbox.is_some(), context.waits_for_files)
    };
    assert_eq!(
        of("ExecStart=/bin/x\nWorkingDirectory=/near"),
        (false, false)
    );
    assert_eq!(
        of("ExecStart=/bin/x\nWorkingDirectory=/far/x"),
        (true, false)
    );
    assert_eq!(of("ExecStart=/far/x"), (true, false));
    assert_eq!(
        of("ExecStart=/bin/x\nStandardOutput=append:/far/x"),
        (true, true)
    );
    assert_eq!(
        of("ExecStart=/bin/x\nStandardInput=file:/near/x"),
        (false, false)
    );
}

#[test]
fn a_terminal_that_was_lent_is_given_back() {
    let owner = |lines: &str| {
        let config = unit(&format!("ExecStart=/bin/x\nTTYPath=/dev/tty9\n{lines}"));
        let restorer = terminal_restorer(&config, "/helper")?;
        Some(restorer.identity.map(|identity| identity.uid))
    };
    assert_eq!(owner("StandardInput=tty"), None);
    assert_eq!(owner("StandardInput=tty\nTTYReset=yes"), Some(None));
    assert_eq!(owner("StandardInput=tty\nUser=web"), Some(Some(0)));
    assert_eq!(
        owner("StandardOutput=tty\nUser=web"),
        None,
        "it only writes"
    );
}
