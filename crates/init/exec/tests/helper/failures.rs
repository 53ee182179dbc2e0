//! Jobs that make no sense, and what is never left out.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::Command;

use muster_exec::{Delegated, ExecContext, Step, delegate};
use muster_mounts::{Root, View};

use crate::rig::{HELPER, failure, sandboxed, shell, start_with};

fn with_job(job: &[u8]) -> (Option<i32>, Option<Step>) {
    let delegated = delegate(&shell("echo ran"), HELPER, 1).unwrap();
    let ran = start_with(
        Delegated {
            job: job.to_vec(),
            ..delegated
        },
        &[],
    )
    .finish();
    assert_eq!(ran.output, "");
    let failed = ran.report.failed.unwrap();
    (ran.status.exit_status(), failed.step())
}

#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let refused = (Some(202), Some(Step::Fds));
    assert_eq!(with_job(b""), refused);
    assert_eq!(with_job(b"{}"), refused);
    assert_eq!(with_job(b"{\"program\": 1}"), refused);
    assert_eq!(with_job(&[0xff; 4096]), refused);
    // As deep as one likes.
    assert_eq!(with_job(&[b'['; 1 << 20]), refused);
    assert_eq!(with_job(&vec![b' '; (16 << 20) + 2]), refused);
}

#[test]
fn whoever_starts_it_by_hand_is_told() {
    for arguments in [&[][..], &["x"], &["3", "4"]] {
        let output = Command::new(HELPER).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("started by muster-core"), "{text}");
    }
    // Descriptors that are not there.
    let status = Command::new(HELPER).arg("200").status().unwrap();
    assert_eq!(status.code(), Some(2));
    let status = Command::new(HELPER).arg("0").status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn zero_bytes_are_refused() {
    let context = |change: fn(&mut ExecContext)| {
        let mut context = shell("echo ran");
        change(&mut context);
        failure(&context).0
    };
    let program = context(|context| context.program = "/bin/\0sh".into());
    let argument = context(|context| context.argv.push("a\0b".into()));
    let variable = context(|context| context.environment.push("A=\0".into()));
    assert_eq!([program, argument, variable], [Step::Exec; 3]);
}

/// The kernel takes this number for "leave it as it is", and whoever starts processes is root.
#[test]
fn a_number_that_means_nothing_is_no_way_to_stay_root() {
    for (uid, gid) in [(u32::MAX, 1), (1, u32::MAX)] {
        let context = ExecContext {
            identity: Some(muster_exec::Identity {
                uid,
                gid,
                groups: Vec::new(),
            }),
            ..shell("echo ran")
        };
        let (step, failed) = failure(&context);
        assert_eq!((step, failed.errno), (Step::User, libc::EINVAL));
    }
}

#[test]
fn a_program_is_named_by_its_whole_path() {
    let context = ExecContext {
        program: "bin/sh".into(),
        ..shell("echo ran")
    };
    assert_eq!(failure(&context).0, Step::Exec);
}

#[test]
fn a_program_that_is_in_no_folder_is_said_to_be_missing() {
    let (step, failed) = failure(&ExecContext {
        program: "no-such-program".into(),
        ..sandboxed("", |sandbox| {
            sandbox.program_folders = vec!["/usr/bin".into(), "/bin".into()];
        })
    });
    assert_eq!((step, failed.errno), (Step::Exec, libc::ENOENT));
    assert!(failed.detail.contains("no-such-program"), "{failed:?}");
}

#[test]
fn another_root_is_never_left_out() {
    for best_effort in [false, true] {
        let (step, failed) = failure(&sandboxed("echo ran", |sandbox| {
            sandbox.best_effort = best_effort;
            sandbox.view = View {
                root: Some(Root::Folder("/no/such/root".into())),
                own_mounts: true,
                ..View::default()
            };
        }));
        assert!(matches!(step, Step::Chroot | Step::Namespace), "{failed:?}");
        assert!(failed.detail.contains("/no/such/root"), "{failed:?}");
    }
}

/// A manager that is gone hears nothing, and its service runs all the same.
#[test]
fn nobody_has_to_listen() {
    let context = sandboxed("echo ran", |sandbox| {
        sandbox.smack_label = Some("-label".into());
    });
    let delegated = delegate(&context, HELPER, 1).unwrap();
    let (mut output, output_end) = std::io::pipe().unwrap();
    let job = crate::rig::job_file(&delegated.job);
    let (report, report_end) = std::io::pipe().unwrap();
    drop(report);
    let fds = [output_end.as_fd(), job.as_fd(), report_end.as_fd()];
    let mut outer = delegated.outer;
    outer.ignore_sigpipe = false;
    let mut spawner = muster_exec::Spawner::new().unwrap();
    let (mut slot, _memory) = muster_exec::Slot::create().unwrap();
    let mut prepared = muster_exec::Prepared::new(&outer, &fds).unwrap();
    let launch = muster_exec::Launch::default();
    let spawned = spawner.spawn(&mut prepared, &launch, &mut slot).unwrap();
    drop(output_end);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ran\n");
    assert_eq!(crate::rig::wait(spawned.pid).exit_status(), Some(0));
}
