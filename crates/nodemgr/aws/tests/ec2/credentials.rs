//! Where credentials are found: everywhere that other tools of AWS look, in programs that have nothing else.

use std::path::Path;
use std::process::{Command, Stdio};

use muster_aws::testing::{ACCESS_KEY, FakeEc2, FakeSettings, SECRET_KEY, SESSION_TOKEN};
use muster_fault::test_program;

use crate::rig::REGION;

/// A manager that has nothing from our environment.
pub(crate) fn keeper(folder: &Path, fake: &FakeEc2, steps: &[&str]) -> Command {
    let mut command = Command::new(test_program("ec2_keeper"));
    command
        .arg(folder)
        .arg(fake.url())
        .args(steps)
        .env_clear()
        .env("HOME", folder)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// Gives it credentials and a region by variables.
pub(crate) fn with_environment(command: &mut Command) -> &mut Command {
    command
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_REGION", REGION)
}

/// What it says when it looks, and what the fake was sent.
fn looks(prepare: impl FnOnce(&mut Command, &Path, &FakeEc2)) -> (String, FakeEc2) {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = FakeEc2::start(FakeSettings::default());
    let mut command = keeper(folder.path(), &fake, &["look"]);
    prepare(&mut command, folder.path(), &fake);
    let output = command.output().expect("the keeper starts");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}");
    (said, fake)
}

fn session_of(fake: &FakeEc2) -> Option<String> {
    let request = fake.requests().pop().expect("a request");
    request.headers.get("x-amz-security-token").cloned()
}

#[test]
fn variables_are_used() {
    let (said, fake) = looks(|command, _, _| {
        with_environment(command);
    });
    assert!(said.contains("found 0"), "{said}");
    assert_eq!(session_of(&fake), None);
}

#[test]
fn a_profile_is_used() {
    let (said, _) = looks(|command, folder, _| {
        let profile = format!(
            "[farm]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        );
        std::fs::create_dir(folder.join(".aws")).expect("a folder");
        std::fs::write(folder.join(".aws/credentials"), profile).expect("written");
        let region = format!("[profile farm]\nregion = {REGION}\n");
        std::fs::write(folder.join(".aws/config"), region).expect("written");
        command.env("AWS_PROFILE", "farm");
    });
    assert!(said.contains("found 0"), "{said}");
}

#[test]
fn a_credential_process_is_used() {
    let (said, fake) = looks(|command, folder, _| {
        let keys = serde_json::json!({
            "Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "SessionToken": SESSION_TOKEN,
        });
        let file = folder.join("keys.json");
        std::fs::write(&file, keys.to_string()).expect("written");
        let profile = format!(
            "[default]\nregion = {REGION}\ncredential_process = /bin/cat {}\n",
            file.display()
        );
        std::fs::create_dir(folder.join(".aws")).expect("a folder");
        std::fs::write(folder.join(".aws/config"), profile).expect("written");
        command.env("PATH", "/usr/bin:/bin");
    });
    assert!(said.contains("found 0"), "{said}");
    assert_eq!(session_of(&fake).as_deref(), Some(SESSION_TOKEN));
}

#[test]
fn a_container_s_credentials_are_used() {
    let (said, fake) = looks(|command, _, fake| {
        let url = format!("{}/container", fake.url());
        command
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
            .env("AWS_REGION", REGION);
    });
    assert!(said.contains("found 0"), "{said}");
    assert_eq!(session_of(&fake).as_deref(), Some(SESSION_TOKEN));
}

#[test]
fn a_machine_s_own_role_and_region_are_used() {
    let (said, fake) = looks(|command, _, fake| {
        command
            .env_remove("AWS_EC2_METADATA_DISABLED")
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", fake.url());
    });
    assert!(said.contains("found 0"), "{said}");
    assert_eq!(session_of(&fake).as_deref(), Some(SESSION_TOKEN));
}

#[test]
fn without_credentials_it_is_said_where_they_were_looked_for() {
    let (said, fake) = looks(|command, _, _| {
        command.env("AWS_REGION", REGION);
    });
    assert!(said.contains("there are no credentials for AWS"), "{said}");
    assert!(fake.requests().is_empty());
}

#[test]
fn refused_credentials_are_named_by_where_they_came_from() {
    let (said, _) = looks(|command, _, _| {
        with_environment(command).env("AWS_SECRET_ACCESS_KEY", "not-this-one");
    });
    let expected = "refused with the credentials from environment variables, key ...FAKE";
    assert!(said.contains(expected), "{said}");
    assert!(!said.contains("not-this-one"), "{said}");
}
