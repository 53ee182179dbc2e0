//! Streams that the helper connects.

use muster_exec::{
    ExecContext, FileAccess, Identity, Step, Stream, TakeControl, Terminal, delegate,
};

use crate::rig::{HELPER, failure, is_root, output, run, shell};

fn file(path: &std::path::Path, access: FileAccess) -> Stream {
    Stream::File {
        path: path.to_str().unwrap().into(),
        access,
    }
}

#[test]
fn files_that_may_never_answer_are_opened_by_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    let (input, result) = (folder.path().join("input"), folder.path().join("result"));
    std::fs::write(&input, "asked\n").unwrap();
    let context = ExecContext {
        waits_for_files: true,
        stdin: file(&input, FileAccess::Read),
        stdout: file(&result, FileAccess::Append),
        stderr: Stream::Same(1),
        stream_mode: 0o640,
        ..shell("cat; echo wrong >&2")
    };
    let outer = delegate(&context, HELPER, 1).unwrap().outer;
    let streams = [outer.stdin, outer.stdout, outer.stderr];
    assert_eq!(
        streams,
        [const { Stream::Null }; 3],
        "the caller opens nothing"
    );
    let ran = run(&context);
    assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&result).unwrap(), "asked\nwrong\n");
    let mode = std::os::unix::fs::MetadataExt::mode(&result.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o640);
    let missing = ExecContext {
        stdout: file(&folder.path().join("no/such"), FileAccess::Write),
        ..context
    };
    let (step, failed) = failure(&missing);
    assert_eq!(step, Step::Stdout);
    assert!(
        failed.detail.contains("no/such for standard output"),
        "{failed:?}"
    );
}

#[test]
fn a_terminal_is_its_readers_own_with_a_helper_too() {
    if !is_root("a_terminal_is_its_readers_own_with_a_helper_too") {
        return;
    }
    let typist = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::grantpt(&typist).unwrap();
    rustix::pty::unlockpt(&typist).unwrap();
    let path = rustix::pty::ptsname(&typist, Vec::new()).unwrap();
    for control in [TakeControl::No, TakeControl::Wait] {
        let context = ExecContext {
            stdin: Stream::Terminal,
            identity: Some(Identity {
                uid: 4711,
                gid: 4712,
                groups: Vec::new(),
            }),
            terminal: Some(Terminal {
                path: path.to_str().unwrap().into(),
                control,
                reset: false,
                hang_up: false,
                clear: false,
                size: None,
            }),
            ..shell("stat -L -c '%u %a' /proc/self/fd/0")
        };
        assert_eq!(output(&context), "4711 620\n", "{control:?}");
        std::os::unix::fs::chown(path.to_str().unwrap(), Some(0), None).unwrap();
    }
}
