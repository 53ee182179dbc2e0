//! Filters of system calls, as a program meets them.

use muster_exec::{ExecContext, Identity, Step};
use muster_seccomp::{CallFilter, CallRule, Policy, Refusal};

use crate::rig::{failure, field, is_root, output, run, sandboxed, without};

fn denying(name: &str, refusal: Refusal) -> Policy {
    let rule = CallRule {
        name: name.into(),
        removed: false,
        refusal: None,
    };
    Policy {
        calls: Some(CallFilter {
            allow: false,
            rules: vec![rule],
        }),
        refusal,
        ..Policy::default()
    }
}

fn with(script: &str, policy: Policy) -> ExecContext {
    sandboxed(script, |sandbox| sandbox.system_calls = policy)
}

#[test]
fn a_call_that_is_refused_fails_or_kills() {
    let number = u16::try_from(libc::EPERM).unwrap();
    let script = "uname; echo survived";
    let text = output(&with(script, denying("uname", Refusal::Errno(number))));
    assert_eq!(text, "survived\n");
    let mut context = with("", denying("uname", Refusal::Kill));
    context.program = "/usr/bin/uname".into();
    context.argv = vec!["uname".into()];
    let ran = run(&context);
    assert_eq!(ran.status.terminating_signal(), Some(libc::SIGSYS));
    assert_eq!((&*ran.output, ran.report.failed), ("", None));
}

#[test]
fn a_filter_costs_a_user_the_way_to_more_privileges_and_root_not() {
    if !is_root("a_filter_costs_a_user_the_way_to_more_privileges_and_root_not") {
        return;
    }
    let mut context = with("cat /proc/self/status", denying("reboot", Refusal::Kill));
    let status = output(&context);
    assert_eq!(
        (field(&status, "Seccomp"), field(&status, "NoNewPrivs")),
        ("2", "0")
    );
    context.identity = Some(Identity {
        uid: 4711,
        gid: 4711,
        groups: Vec::new(),
    });
    let status = output(&context);
    assert_eq!(
        (field(&status, "Seccomp"), field(&status, "NoNewPrivs")),
        ("2", "1")
    );
}

#[test]
fn a_filter_that_cannot_be_had_is_refused_or_said_by_its_directives() {
    // No error has that number.
    let context = |best_effort| {
        sandboxed("echo ran", |sandbox| {
            sandbox.system_calls = denying("uname", Refusal::Errno(u16::MAX));
            sandbox.system_calls.restrict_realtime = true;
            sandbox.best_effort = best_effort;
        })
    };
    let (step, failed) = failure(&context(false));
    assert_eq!(step, Step::Seccomp);
    assert!(failed.detail.contains("65535"), "{failed:?}");
    let (said, dropped) = without(&context(true));
    assert_eq!(said, "ran\n");
    let start = "RestrictRealtime, SystemCallFilter: ";
    assert!(dropped[0].starts_with(start), "{dropped:?}");
}

/// Everything else is done by then: a filter that allows next to nothing lets the program start.
#[test]
fn the_filter_comes_last() {
    let allowed = ["@system-service"];
    let rules = allowed.map(|name| CallRule {
        name: name.into(),
        removed: false,
        refusal: None,
    });
    let policy = Policy {
        calls: Some(CallFilter {
            allow: true,
            rules: rules.into(),
        }),
        ..Policy::default()
    };
    let mut context = with("echo ran", policy);
    let sandbox = context.sandbox.as_mut().unwrap();
    sandbox.namespaces.uts = true;
    sandbox.namespaces.network = muster_exec::Namespace::Own;
    let ran = run(&context);
    assert_eq!(ran.output, "ran\n", "{ran:?}");
}
