//! Which descriptors a process finds.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_exec::{ExecContext, FileAccess, Launch, PassedFd, Stream};
use proptest::prelude::*;

use crate::rig::{output_with, program, shell, spawn, wait};

fn passed(fd: u16, name: &str) -> PassedFd {
    PassedFd {
        fd,
        name: name.into(),
        nonblocking: None,
    }
}

/// A file with a text in it, which a process reads to show that it has this one and no other.
fn marked(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file.into()
}

#[test]
fn passed_descriptors_are_numbered_and_named() {
    let (a, b) = (marked("first"), marked("second"));
    let script = "cat <&3; echo; cat <&4; echo; echo $LISTEN_FDS $LISTEN_FDNAMES $$ $LISTEN_PID";
    let context = ExecContext {
        passed: vec![passed(2, "web.socket"), passed(1, "x")],
        environment: vec!["PATH=/bin".into(), "LISTEN_FDS=77".into()],
        ..shell(script)
    };
    let text = output_with(&context, &[a.as_fd(), b.as_fd()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["second", "first"]);
    let (rest, pids) = lines[2].split_once("web.socket:x ").unwrap();
    assert_eq!(rest, "2 ");
    let (own, told) = pids.split_once(' ').unwrap();
    assert_eq!(own, told);
}

/// More than are handed over through the low part of the table.
#[test]
fn many_descriptors_are_passed_too() {
    let files: Vec<OwnedFd> = (0..60)
        .map(|number| marked(&format!("{number}\n")))
        .collect();
    let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    let context = ExecContext {
        passed: (1..=60).rev().map(|index| passed(index, "f")).collect(),
        ..shell("echo $LISTEN_FDS; cat /proc/self/fd/3 /proc/self/fd/62")
    };
    assert_eq!(output_with(&context, &fds), "60\n59\n0\n");
}

/// Threads that open and close descriptors all the time do not get in the way of a process that is being born.
#[test]
fn several_threads_start_processes_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..15 {
                    let text = format!("{thread}.{round}\n");
                    let file = marked(&text);
                    let context = ExecContext {
                        passed: vec![passed(1, "f")],
                        ..shell("cat <&3; exec /usr/bin/ls /proc/self/fd")
                    };
                    let seen = output_with(&context, &[file.as_fd()]);
                    // The last one is that of the folder that is listed.
                    assert_eq!(seen, format!("{text}0\n1\n2\n3\n4\n"));
                }
            });
        }
    });
}

#[test]
fn nothing_else_is_open() {
    // Neither close-on-exec nor anybody's care protects this one.
    let leaking = rustix::io::dup(std::io::stdin()).unwrap();
    rustix::io::fcntl_setfd(&leaking, rustix::io::FdFlags::empty()).unwrap();
    let a = marked("x");
    let path = "/usr/bin/ls";
    let context = ExecContext {
        argv: vec![path.into(), "/proc/self/fd".into()],
        stdout: Stream::Fd(0),
        passed: vec![passed(1, "a"), passed(1, "again")],
        ..program(path)
    };
    let text = output_with(&context, &[a.as_fd()]);
    // The last one is that of the folder that is listed.
    assert_eq!(text, "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn blocking_is_set_where_it_is_said() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let context = ExecContext {
        passed: vec![PassedFd {
            nonblocking: Some(true),
            ..passed(1, "a")
        }],
        ..shell("grep flags /proc/self/fdinfo/3")
    };
    let text = output_with(&context, &[reader.as_fd()]);
    let flags = text.split_whitespace().nth(1).unwrap();
    let flags = i32::from_str_radix(flags, 8).unwrap();
    assert_eq!(flags & libc::O_NONBLOCK, libc::O_NONBLOCK, "{text}");
}

#[test]
fn files_are_opened_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let write = |access, script: &str| {
        let context = ExecContext {
            stdout: Stream::File {
                path: path.to_str().unwrap().into(),
                access,
            },
            stderr: Stream::Same(1),
            ..shell(script)
        };
        let spawned = spawn(&context, &[], &Launch::default()).unwrap();
        assert_eq!(wait(spawned.pid).exit_status(), Some(0));
        std::fs::read_to_string(&path).unwrap()
    };
    assert_eq!(
        write(FileAccess::Truncate, "echo hello; echo err >&2"),
        "hello\nerr\n"
    );
    assert_eq!(write(FileAccess::Write, "printf J"), "Jello\nerr\n");
    assert_eq!(write(FileAccess::Append, "printf end"), "Jello\nerr\nend");
    assert_eq!(write(FileAccess::Truncate, "printf new"), "new");
    let context = ExecContext {
        stdin: Stream::File {
            path: path.to_str().unwrap().into(),
            access: FileAccess::Read,
        },
        ..shell("cat; grep flags /proc/self/fdinfo/0")
    };
    let text = output_with(&context, &[]);
    assert!(text.starts_with("new"), "{text}");
    let flags = i32::from_str_radix(text.split_whitespace().nth(1).unwrap(), 8).unwrap();
    assert_eq!(flags & libc::O_NONBLOCK, 0, "{text}");
}

/// Whatever the mask of the caller.
#[test]
fn files_that_are_made_have_the_mode_that_is_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o640, 0o666] {
        let path = folder.path().join(format!("{mode:o}"));
        let context = ExecContext {
            stdout: Stream::File {
                path: path.to_str().unwrap().into(),
                access: FileAccess::Append,
            },
            stream_mode: mode,
            ..shell("echo hello")
        };
        let spawned = spawn(&context, &[], &Launch::default()).unwrap();
        assert_eq!(wait(spawned.pid).exit_status(), Some(0));
        let made = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(made & 0o7777, u32::from(mode));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever numbers the caller's descriptors have, and however they are mixed, each arrives where it belongs.
    #[test]
    fn any_arrangement_of_descriptors_arrives(
        order in prop::collection::vec(0u16..6, 0..8),
        low in prop::collection::vec(any::<bool>(), 6),
    ) {
        let texts: Vec<String> = (0..6).map(|number| format!("file{number}")).collect();
        let files: Vec<OwnedFd> = texts
            .iter()
            .zip(&low)
            .map(|(text, low)| {
                let file = marked(text);
                // Some with numbers above those that the process will use, some (likely) within.
                let first = if *low { 3 } else { 40 };
                rustix::io::fcntl_dupfd_cloexec(&file, first).unwrap()
            })
            .collect();
        let script: String = (3..3 + order.len())
            .map(|number| format!("cat /proc/self/fd/{number}; echo; "))
            .collect();
        let context = ExecContext {
            passed: order.iter().map(|index| passed(index + 1, "f")).collect(),
            ..shell(&script)
        };
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let text = output_with(&context, &fds);
        let expected: String = order.iter().map(|index| format!("file{index}\n")).collect();
        prop_assert_eq!(text, expected);
    }
}
