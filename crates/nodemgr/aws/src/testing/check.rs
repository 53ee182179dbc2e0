//! Requests, checked by what AWS publishes: the models that its own clients are generated from.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Recorded;

/// The program that checks.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ec2/check_requests.py");

/// The environment of Python that `scripts/lab-python` makes.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let given = std::env::var_os("MUSTER_LAB_PYTHON").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")));
    let folder = given.or_else(|| cache.map(|cache| cache.join("muster/lab-python")))?;
    let complete = folder.join("complete").exists();
    complete.then_some(folder)
}

/// What the checker says about a file of requests; `keys` are those that they must be signed with, if that is to be looked at.
///
/// # Errors
/// With what is wrong with them, or if there are none.
pub fn check_file(python: &Path, file: &Path, keys: &[&str]) -> Result<String, String> {
    check(python, file, keys, &[])
}

/// Fails the test if one of the requests is none of EC2's. Without Python nothing is looked at, unless nothing may be left out.
pub(super) fn check_all(requests: &[Recorded], keys: &[&str]) {
    if requests.is_empty() {
        return;
    }
    let Some(python) = python() else {
        let line = "skipped: the check of requests against the models: there is no Python with moto: run scripts/lab-python";
        let is_strict = std::env::var("MUSTER_LAB_STRICT").is_ok_and(|it| it == "1");
        assert!(!is_strict, "{line} (not allowed with MUSTER_LAB_STRICT=1)");
        eprintln!("{line}");
        return;
    };
    let mut lines = Vec::new();
    for request in requests {
        serde_json::to_writer(&mut lines, request).expect("texts only");
        lines.push(b'\n');
    }
    if let Err(problems) = check(&python, Path::new("/dev/stdin"), keys, &lines) {
        panic!("{problems}");
    }
}

fn check(python: &Path, file: &Path, keys: &[&str], input: &[u8]) -> Result<String, String> {
    let mut child = Command::new(python.join("bin/python"))
        .arg(PROGRAM)
        .arg(file)
        .args(keys)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    // It reads all of it before it says anything. If it ends before that, it says why.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(said + &String::from_utf8_lossy(&output.stderr)),
    }
}
