//! Requests, checked by what AWS publishes.

use std::io::Write as _;
use std::process::Command;

use muster_aws::testing::{ACCESS_KEY, FakeEc2, FakeSettings, SECRET_KEY, check_file, python};

use crate::server::skip;

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
    let said = check_file(&python, file.path(), &[ACCESS_KEY, SECRET_KEY]).unwrap_err();
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

/// No test has to ask for it: a request that EC2 would not understand fails whichever test it is sent in.
#[test]
fn a_fake_that_was_asked_something_else_fails_the_test() {
    if python().is_none() {
        return skip("a_fake_that_was_asked_something_else_fails_the_test");
    }
    let asked = |body: &str| {
        let fake = FakeEc2::start(FakeSettings::default());
        let address = fake.url().trim_start_matches("http://").to_owned();
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        std::io::read_to_string(stream).unwrap();
        assert_eq!(fake.requests().len(), 1);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(fake)))
    };
    assert!(asked("Action=DescribeInstances&Version=2016-11-15").is_ok());
    let failed = asked("Action=DescribeInstances&Version=2016-11-15&Owner=1").unwrap_err();
    let said = failed.downcast_ref::<String>().unwrap();
    assert!(said.contains("Owner is not known"), "{said}");
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
