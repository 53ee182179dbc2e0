//! Requests, checked by what AWS publishes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_aws::testing::{ACCESS_KEY, FakeEc2, Recorded, SECRET_KEY};

use crate::server::{python, skip};

pub(crate) fn check_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ec2/check_requests.py")
}

/// Runs the checker on a file of requests. Gives what it says.
pub(crate) fn check_file(python: &Path, file: &Path, keys: &[&str]) -> String {
    let output = Command::new(python.join("bin/python"))
        .arg(check_script())
        .arg(file)
        .args(keys)
        .output()
        .expect("python starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

fn checked(requests: &[Recorded], keys: &[&str]) -> Option<String> {
    let Some(python) = python() else {
        skip("the check of requests against the models");
        return None;
    };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for request in requests {
        serde_json::to_writer(&mut file, request).expect("written");
        writeln!(file).expect("written");
    }
    file.flush().expect("written");
    Some(check_file(&python, file.path(), keys))
}

/// Every request that the fake was sent is one of EC2's.
pub(crate) fn check(fake: &FakeEc2) {
    checked(&fake.requests(), &[]);
}

/// And is signed as others would sign it.
pub(crate) fn check_with_signatures(fake: &FakeEc2) {
    checked(&fake.requests(), &[ACCESS_KEY, SECRET_KEY]);
}

/// A request that is none is found out, whatever is wrong with it.
#[test]
fn the_checker_finds_what_is_wrong() {
    let Some(python) = python() else {
        return skip("the_checker_finds_what_is_wrong");
    };
    let body = "Action=RunInstances&Version=2016-11-15&MaxCount=one&InstanceType=m1.tiny&SubnetIds.1=s&TagSpecification.2.ResourceType=instance";
    let request = serde_json::json!({
        "method": "POST", "url": "http://127.0.0.1/", "body": body, "headers": { "Authorization": "none" },
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{request}").unwrap();
    let output = Command::new(python.join("bin/python"))
        .arg(check_script())
        .arg(file.path())
        .args([ACCESS_KEY, SECRET_KEY])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "{said}");
    for expected in [
        "RunInstances: MinCount is required",
        "RunInstances.MaxCount: 'one' is no integer",
        "RunInstances.InstanceType: 'm1.tiny' is not among",
        "RunInstances: SubnetIds is not known",
        "RunInstances.TagSpecification: not numbered from one",
        "RunInstances: no signature",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
}

/// Nothing is checked where there is no Python, and where nothing may be left out, that is seen.
#[test]
fn a_missing_checker_fails_where_nothing_may_be_left_out() {
    let checker = |strict: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("model::the_checker_finds_what_is_wrong")
            .env("MUSTER_LAB_PYTHON", "/no/such/python")
            .env("MUSTER_LAB_STRICT", strict)
            .output()
            .unwrap()
    };
    let line = "skipped: the_checker_finds_what_is_wrong: there is no Python";
    for (strict, passes) in [("0", true), ("1", false)] {
        let output = checker(strict);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(line), "{said}");
        assert_eq!(output.status.success(), passes, "{said}");
    }
}
