//! Filters of file systems, as the kernel carries them out.
//!
//! Few kernels take such programs, so all of it runs in a guest whose kernel does ([`guest`]); on the machine itself the same is
//! tried, and what is missing has to be said.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod guest;
mod rig;

use std::os::fd::AsFd;

use muster_exec::{ExecContext, FileAccess, Namespaces, Sandbox, Step, Stream, bpf};

use guest::is_inside;
use rig::{Rig, shell};

/// Says which of three files can be opened: one on the tmpfs that everything in the guest lies on, one on a ramfs, one of proc.
const LOOK: &str = "for file in /tmp/file /ram/file /proc/self/status; do
    if (: <$file) 2>/dev/null; then echo -n 'yes '; else echo -n 'no '; fi
done";

#[test]
fn only_listed_file_systems_are_open_to_programs() {
    if !is_inside() {
        return;
    }
    let rig = Rig::new();
    assert_eq!(rig.say(&shell(LOOK)), "yes yes yes ");
    assert!(bpf::exemptions(rig.group.as_fd()).is_none());
    for (is_allow_list, names, expected) in [
        (true, &["tmpfs"][..], "yes no no "),
        (true, &["tmpfs", "proc"], "yes no yes "),
        (false, &["ramfs", "ext4"], "yes no yes "),
        (false, &["@basic-api", "@network"], ""),
        (false, &["proc"], "yes yes no "),
    ] {
        // One filter takes the place of the other.
        rig.restrict(is_allow_list, names).unwrap();
        if expected.is_empty() {
            // The shell lies on what is refused.
            let failed = rig.start(&shell(LOOK)).unwrap_err();
            assert_eq!(failed.step, Step::Exec);
            assert_eq!(failed.errno, libc::EPERM);
        } else {
            assert_eq!(rig.say(&shell(LOOK)), expected, "{names:?}");
        }
    }
    rig.open();
    assert_eq!(rig.say(&shell(LOOK)), "yes yes yes ");
    assert!(bpf::exemptions(rig.group.as_fd()).is_none());
}

#[test]
fn what_sets_a_process_up_may_open_everything() {
    if !is_inside() {
        return;
    }
    let rig = Rig::new();
    rig.restrict(true, &["tmpfs"]).unwrap();
    let input = Stream::File {
        path: "/ram/file".into(),
        access: FileAccess::Read,
    };
    let look_only = ExecContext {
        stdin: input,
        ..shell(&format!("cat; {LOOK}"))
    };
    assert_eq!(rig.say(&look_only), "content\nyes no no ");
    // Through the helper, with a number that is written to one of the kernel's, which the program finds in place.
    let sandbox = Sandbox {
        oom_score_adjust: Some(321),
        ..Sandbox::default()
    };
    let context = ExecContext {
        sandbox: Some(Box::new(sandbox)),
        argv: shell(&format!("cat; {LOOK}; read wait </tmp/never")).argv,
        ..look_only.clone()
    };
    rustix::fs::mknodat(
        rustix::fs::CWD,
        "/tmp/never",
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let mut running = rig.start(&context).unwrap();
    assert_eq!(running.read("no no "), "content\nyes no no ");
    let score = format!("/proc/{}/oom_score_adj", running.pid());
    assert_eq!(std::fs::read_to_string(score).unwrap(), "321\n");
    std::fs::write("/tmp/never", "\n").unwrap();
    running.end();
    // The same where the helper makes namespaces and two more processes on the way.
    let sandbox = Sandbox {
        namespaces: Namespaces {
            users: true,
            pids: true,
            ..Namespaces::default()
        },
        ..Sandbox::default()
    };
    let look_only = ExecContext {
        sandbox: Some(Box::new(sandbox)),
        ..look_only
    };
    assert_eq!(rig.say(&look_only), "content\nyes no no ");
}

#[test]
fn few_descriptors_do_not_leave_a_program_unrestricted() {
    if !is_inside() {
        return;
    }
    let rig = Rig::new();
    rig.restrict(true, &["tmpfs"]).unwrap();
    let limit = muster_exec::Limit {
        resource: 7,
        // Fewer than the manager has open, and as many as a shell takes.
        soft: 12,
        hard: 12,
    };
    for sandbox in [None, Some(Box::default())] {
        let context = ExecContext {
            limits: vec![limit],
            sandbox,
            ..shell(LOOK)
        };
        assert_eq!(rig.say(&context), "yes no no ");
    }
}

#[test]
fn a_kernel_that_cannot_do_it_says_why() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::new();
    // Whatever the machine can do, it is done or a reason is given, and nothing is left of what failed.
    match rig.restrict(true, &["@known"]) {
        Ok(()) => {
            assert!(bpf::exemptions(rig.group.as_fd()).is_some());
            rig.open();
        }
        Err(reason) => {
            assert!(!is_inside(), "{reason}");
            println!("not applied: {reason}");
            let named = [
                "the kernel has no",
                "cannot tell",
                "cannot load",
                "cannot make",
            ];
            assert!(named.iter().any(|name| reason.contains(name)), "{reason}");
        }
    }
    assert!(bpf::exemptions(rig.group.as_fd()).is_none());
}
