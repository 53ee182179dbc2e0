//! The programs, run by the shell of this machine.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output, Stdio};

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

/// Runs a program as it is run in a container, with another input than its own text.
fn run(program: Program, input: &[u8]) -> Output {
    let text = String::from_utf8(program.into_text()).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", &text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn succeed(program: Program, input: &[u8]) -> Vec<u8> {
    let output = run(program, input);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    output.stdout
}

#[test]
fn a_name_may_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["-n", "a'b", "$(touch x)", "a\nb", "*", " "] {
        let name = path(name);
        succeed(Program::write(folder.path(), &name, 0), b"hello");
        assert_eq!(succeed(Program::read(folder.path(), &name, 2), b""), b"llo");
        assert_eq!(
            fs::read(folder.path().join(name.as_path())).unwrap(),
            b"hello"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
}

#[test]
fn writing_goes_on_where_it_was_and_ends_where_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, b"0123456789").unwrap();
    succeed(Program::write(folder.path(), &path("f"), 4), b"ab");
    assert_eq!(fs::read(&file).unwrap(), b"0123ab");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = run(Program::write(folder.path(), &path("f"), 7), b"x");
    assert!(String::from_utf8_lossy(&output.stderr).contains("shorter"));
    assert_eq!(fs::read(&file).unwrap(), b"0123ab");
}

#[test]
fn no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), b"theirs").unwrap();
    symlink(outside.path(), folder.path().join("away")).unwrap();
    symlink(outside.path().join("f"), folder.path().join("link")).unwrap();
    let here = folder.path();
    let settle = |path| Change::Settle {
        path,
        mode: 0o777,
        mtime: 1,
    };
    let rename = Change::Rename {
        from: path("away/f"),
        to: path("mine"),
    };
    let programs = [
        Program::read(here, &path("away/f"), 0),
        Program::read(here, &path("link"), 0),
        Program::write(here, &path("away/f"), 0),
        Program::write(here, &path("link"), 0),
        Program::look(here, &path("away/f")),
        Program::change(here, &[Change::Folder(path("away"))]),
        Program::change(here, &[settle(path("link"))]),
        Program::change(here, &[rename]),
        Program::unpack(here, &[&path("away/f")], 5),
        Program::pack(here, &[path("away/f")]),
        Program::digests(here, &[(path("away/f"), 1)]),
    ];
    for program in programs {
        let output = run(program, b"hello");
        assert_eq!(output.status.code(), Some(LINKED), "{output:?}");
    }
    let names: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"theirs");
}

#[test]
fn changes_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("new/folder");
    fs::create_dir_all(folder.path().join("target")).unwrap();
    let changes = [
        Change::Folder(RelPath::root()),
        Change::Folder(path("a")),
        Change::Link {
            path: path("a/l"),
            target: b"-> no'where".to_vec(),
        },
        Change::Settle {
            path: path("a"),
            mode: 0o750,
            mtime: 1_000_000_000,
        },
        Change::Remove {
            path: path("gone"),
            folder: false,
        },
        Change::Remove {
            path: path("gone-too"),
            folder: true,
        },
    ];
    for _ in 0..2 {
        succeed(Program::change(&below, &changes), b"");
        let mode = fs::metadata(below.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        let target = fs::read_link(below.join("a/l")).unwrap();
        assert_eq!(target, Path::new("-> no'where"));
    }
    // A link to a folder is replaced, and does not take the file in.
    fs::write(below.join("f"), b"x").unwrap();
    symlink(folder.path().join("target"), below.join("to")).unwrap();
    let rename = Change::Rename {
        from: path("f"),
        to: path("to"),
    };
    succeed(Program::change(&below, &[rename]), b"");
    assert_eq!(fs::read(below.join("to")).unwrap(), b"x");
}

#[test]
fn an_archive_that_is_cut_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [&path("f")];
    let output = run(Program::unpack(folder.path(), &paths, 1024), &[0; 1023]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn digests_are_of_the_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), b"abcdef").unwrap();
    let files = [(path("f"), 3), (path("f"), 7), (path("g"), 0)];
    let said = succeed(Program::digests(folder.path(), &files), b"");
    let said = String::from_utf8(said).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("ba7816bf8f01cfea"), "{said}");
    assert_eq!(lines[1..], ["-", "-"]);
}

#[test]
fn what_is_missing_is_told_from_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none");
    for program in [
        Program::look(folder.path(), &path("none")),
        Program::look(&missing, &RelPath::root()),
        Program::look(&missing, &path("f")),
        Program::read(&missing, &path("f"), 0),
    ] {
        assert_eq!(run(program, b"").status.code(), Some(MISSING));
    }
    fs::write(&missing, b"now a file").unwrap();
    let said = succeed(Program::look(&missing, &RelPath::root()), b"");
    assert!(String::from_utf8(said).unwrap().contains(" 10 "));
}
