//! Terminals and sockets as standard streams.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;

use muster_exec::{ExecContext, FileAccess, Identity, Launch, Step, Stream, TakeControl, Terminal};

use crate::rig::{is_root, output, shell, spawn, terminal, wait};

const TIOCGEXCL: libc::Ioctl = 0x8004_5440;

fn reads_from(path: &str, script: &str, reset: bool) -> ExecContext {
    ExecContext {
        stdin: Stream::Terminal,
        terminal: Some(Terminal {
            path: path.into(),
            control: TakeControl::No,
            reset,
            hang_up: false,
            clear: false,
            size: None,
        }),
        ..shell(script)
    }
}

#[test]
fn a_terminal_is_its_readers_own() {
    if !is_root("a_terminal_is_its_readers_own") {
        return;
    }
    let (_typist, path) = terminal();
    let mut context = reads_from(&path, "stat -L -c '%u %a' /proc/self/fd/0", false);
    assert!(output(&context).starts_with("0 "), "nobody else reads");
    let identity = |uid| Identity {
        uid,
        gid: 4712,
        groups: Vec::new(),
    };
    context.identity = Some(identity(4711));
    assert_eq!(output(&context), "4711 620\n");
    context.identity = Some(identity(0));
    assert_eq!(output(&context), "0 620\n", "it is given back");
    // Who only writes to it has no say about it.
    context.identity = Some(identity(4711));
    context.stdin = Stream::Null;
    context.stderr = Stream::Terminal;
    context.argv[2] = "stat -L -c '%u %a' /proc/self/fd/2".into();
    assert_eq!(output(&context), "0 620\n");
}

#[test]
fn a_reset_forgets_what_was_typed_and_who_had_it_alone() {
    let (typist, path) = terminal();
    let line = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let read = "stty -icanon min 0 time 1; cat";
    for (reset, expected) in [(false, "typed\n"), (true, "")] {
        #[expect(unsafe_code, reason = "no safe function asks for this")]
        // SAFETY: no addresses are involved.
        unsafe {
            assert_eq!(libc::ioctl(line.as_raw_fd(), libc::TIOCEXCL), 0);
        }
        rustix::io::write(typist.as_fd(), b"typed\n").unwrap();
        if !reset && !rustix::process::geteuid().is_root() {
            // Only root opens what somebody has alone.
            continue;
        }
        assert_eq!(output(&reads_from(&path, read, reset)), expected);
        let mut alone: libc::c_int = 7;
        #[expect(unsafe_code, reason = "no safe function asks for this")]
        // SAFETY: the request writes one number.
        unsafe {
            let asked = libc::ioctl(line.as_raw_fd(), TIOCGEXCL, &raw mut alone);
            assert_eq!(asked, 0);
        }
        assert_eq!(alone, i32::from(!reset));
    }
}

fn file(path: &std::path::Path, access: FileAccess) -> Stream {
    Stream::File {
        path: path.to_str().unwrap().into(),
        access,
    }
}

#[test]
fn a_stream_that_is_a_socket_is_connected_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut context = shell("echo spoken");
    context.stdout = file(&path, FileAccess::Append);
    let spawned = spawn(&context, &[], &Launch::default()).unwrap();
    let (mut heard, _) = listener.accept().unwrap();
    let mut text = String::new();
    heard.read_to_string(&mut text).unwrap();
    assert_eq!(text, "spoken\n");
    assert!(heard.write_all(b"nobody listens").is_err());
    assert_eq!(wait(spawned.pid).exit_status(), Some(0));

    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut context = shell("cat");
    context.stdin = file(&path, FileAccess::Read);
    let spawned = spawn(&context, &[writer.as_fd()], &Launch::default()).unwrap();
    drop(writer);
    let (mut asked, _) = listener.accept().unwrap();
    asked.write_all(b"answer").unwrap();
    assert_eq!(asked.read(&mut [0]).unwrap(), 0, "it only listens");
    drop(asked);
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
    assert_eq!(wait(spawned.pid).exit_status(), Some(0));

    let mut context = shell("read line; echo $line back");
    context.stdin = file(&path, FileAccess::ReadWrite);
    context.stdout = Stream::Same(0);
    let spawned = spawn(&context, &[], &Launch::default()).unwrap();
    let (mut both, _) = listener.accept().unwrap();
    both.write_all(b"there and\n").unwrap();
    text.clear();
    both.read_to_string(&mut text).unwrap();
    assert_eq!(text, "there and back\n", "one connection is for both");
    assert_eq!(wait(spawned.pid).exit_status(), Some(0));
}

#[test]
fn a_socket_that_nobody_listens_at_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let mut context = shell("true");
    context.stdout = file(&path, FileAccess::Write);
    let error = spawn(&context, &[], &Launch::default()).unwrap_err();
    assert_eq!(
        (error.step, error.errno),
        (Step::Stdout, libc::ECONNREFUSED)
    );
    // A queue that nobody reads is no socket.
    let queue = folder.path().join("queue");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &queue, mode).unwrap();
    context.stdout = file(&queue, FileAccess::Write);
    let error = spawn(&context, &[], &Launch::default()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Stdout, libc::ENXIO));
}
