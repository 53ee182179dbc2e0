//! `muster node`, against the real identity manager.

use std::fs;

use serde_json::{Value, json};

use super::rig::{Daemon, Site};

fn types(member: &Value) -> Vec<&str> {
    let certificates = member["certificates"].as_array().expect("a list");
    certificates
        .iter()
        .filter_map(|cert| cert["type"].as_str())
        .collect()
}

/// The options for the protected port, with a certificate of this role.
fn remote(site: &Site, daemon: &mut Daemon, node: &str, role: &str) -> Vec<String> {
    let stem = format!("{node}-{role}");
    if !site.path(&format!("{stem}.key.pem")).exists() {
        site.run(&["pki", "issue", "--node", node, "--role", role])
            .ok();
    }
    let address = daemon.protected().to_string();
    let mut options = vec!["--iam".to_owned(), address, "--ca=ca.pem".to_owned()];
    options.extend([
        format!("--cert={stem}.crt.pem"),
        format!("--key={stem}.key.pem"),
    ]);
    options
}

fn with<'a>(command: &[&'a str], options: &'a [String]) -> Vec<&'a str> {
    command
        .iter()
        .copied()
        .chain(options.iter().map(String::as_str))
        .collect()
}

#[test]
fn a_node_becomes_a_member_and_leaves() {
    let site = Site::new();
    let mut daemon = site.iam();
    let before = site.run(&["node", "show", "-o", "json"]).json();
    assert_eq!(
        (&before["id"], &before["state"]),
        (&"main".into(), &"unprovisioned".into())
    );
    site.run(&["node", "pause", "main"])
        .refused(3, &["PauseNode", "main", "not provisioned"]);
    site.run(&["node", "renew"])
        .refused(3, &["main", "unprovisioned", "provision it"]);

    let run = site.run(&["node", "provision", "-o", "json"]).ok();
    assert!(
        run.stderr
            .contains("Node main: iam: certified as spiffe://unit-7/node/main/iam"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("main.plant"),
        "names that are not certified are told: {}",
        run.stderr
    );
    let members = run.json();
    assert_eq!(
        (&members[0]["state"], types(&members[0])),
        (&"provisioned".into(), vec!["iam", "sm"])
    );
    let again = site
        .run(&["node", "provision", "main", "-o", "json"])
        .json();
    assert_eq!(
        (&again[0]["state"], types(&again[0]).len()),
        (&"provisioned".into(), 0)
    );

    // From afar, with what was just certified as the server's certificate.
    let operator = remote(&site, &mut daemon, "desk", "operator");
    let listed = site
        .run(&with(&["node", "list", "-o", "json"], &operator))
        .json();
    assert_eq!(
        (&listed[0]["id"], &listed[0]["state"]),
        (&"main".into(), &"provisioned".into())
    );
    assert!(
        site.run(&with(&["node", "list"], &operator))
            .ok()
            .stdout
            .starts_with("NODE "),
        "a table"
    );
    site.run(&with(&["node", "pause", "main"], &operator)).ok();
    assert_eq!(
        site.run(&["node", "show", "main", "-o", "json"]).json()["state"],
        "paused"
    );
    site.run(&with(&["node", "resume", "main"], &operator)).ok();

    let kept = site
        .run(&["node", "renew", "--all", "--due", "30d", "-o", "json"])
        .json();
    assert_eq!(types(&kept[0]), Vec::<&str>::new(), "a year is left");
    let renewed = site
        .run(&[
            "node",
            "renew",
            "--due",
            "400d",
            "--asked-names",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(types(&renewed[0]), ["iam", "sm"]);
    let list = site
        .run(&["pki", "list", "--node", "main", "-o", "json"])
        .json();
    assert_eq!(list[0]["dns"], json!(["main.plant"]));

    let left = site
        .run(&[
            "node",
            "deprovision",
            "main",
            "--revoke",
            "pki",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(
        (
            &left[0]["state"],
            left[0]["revoked"].as_array().map(Vec::len)
        ),
        (&"unprovisioned".into(), Some(4))
    );
    assert_eq!(
        site.run(&["node", "show", "-o", "json"]).json()["state"],
        "unprovisioned"
    );
    let back = site
        .run(&["node", "provision", "--all", "-o", "json"])
        .json();
    assert_eq!(back[0]["state"], "provisioned");
}

#[test]
fn who_may_not_is_told_so() {
    let site = Site::new();
    let mut daemon = site.iam();
    site.run(&["node", "provision"]).ok();
    let sm = remote(&site, &mut daemon, "main", "sm");
    site.run(&with(&["node", "deprovision", "main"], &sm))
        .refused(3, &["Deprovision", "operator"]);
    site.run(&with(&["node", "show", "nobody"], &sm))
        .refused(4, &["nobody"]);

    let operator = remote(&site, &mut daemon, "desk", "operator");
    site.run(&with(
        &["node", "list", "--insecure", "--iam", &operator[1]],
        &[],
    ))
    .refused(5, &["GetAllNodeIDs"]);
    site.run(&["node", "list", "--iam", &operator[1]])
        .refused(2, &["--ca, --cert and --key"]);
    site.run(&with(&["node", "list", "--server", "name"], &operator))
        .refused(5, &["127.0.0.1"]);

    // The certificate of another authority for a system of the same name.
    let other = Site::new();
    let mut foreign = remote(&other, &mut daemon, "desk", "operator");
    foreign[2] = format!("--ca={}", site.path("ca.pem").display());
    other
        .run(&with(&["node", "list"], &foreign))
        .refused(5, &["GetAllNodeIDs"]);
}

#[test]
fn a_revoked_operator_is_turned_away() {
    let site = Site::new();
    let mut daemon = site.iam();
    site.run(&["node", "provision"]).ok();
    let operator = remote(&site, &mut daemon, "desk", "operator");
    let list = with(&["node", "list"], &operator);
    site.run(&list).ok();
    site.run(&["pki", "revoke", "desk-operator.crt.pem"]).ok();
    // The daemon looks at the list when its folder has changed, which takes a moment.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let run = site.run(&list);
        if run.status.code() == Some(5) {
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "still let in: {run:?}"
        );
    }
}

#[test]
fn the_authority_of_another_system_signs_nothing() {
    let site = Site::new();
    let _daemon = site.iam();
    let other = Site::empty();
    other.run(&["pki", "init", "--system-id", "unit-8"]).ok();
    let folder = other.path("pki");
    let folder = folder.to_str().expect("text");
    site.run(&["node", "provision", "--pki", folder])
        .refused(3, &["unit-7", "unit-8"]);
    assert_eq!(
        site.run(&["node", "show", "-o", "json"]).json()["state"],
        "unprovisioned"
    );
}

#[test]
fn a_failing_hook_is_shown_and_the_next_attempt_succeeds() {
    let site = Site::new();
    let hook = format!(
        "echo the disk is on fire; test -e {}",
        site.path("water").display()
    );
    let _daemon = site.iam_with(json!({ "finishProvisioningCmdArgs": ["/bin/sh", "-c", hook] }));
    site.run(&["node", "provision"])
        .refused(1, &["FinishProvisioning", "main", "the disk is on fire"]);
    fs::write(site.path("water"), "").expect("written");
    assert_eq!(
        site.run(&["node", "provision", "-o", "json"]).json()[0]["state"],
        "provisioned"
    );
}

#[test]
fn a_daemon_that_is_not_there_is_named() {
    let site = Site::new();
    site.run(&["node", "list"])
        .refused(5, &["iam.sock", "is muster-iam running"]);
    let nobody = ["node", "list", "--iam", "127.0.0.1:1", "--insecure"];
    let run = site
        .run(&nobody)
        .refused(5, &["cannot reach 127.0.0.1:1", "Connection refused"]);
    assert!(!run.stderr.contains("ConnectError"), "{}", run.stderr);
    site.run(&["node", "list", "--iam", "nowhere", "--insecure"])
        .refused(2, &["nowhere", "host:port"]);
    fs::write(site.path("password"), "secret").expect("written");
    let open = ["node", "provision", "--password-file", "password"];
    site.run(&open).refused(1, &["password", "chmod 600"]);
    site.run(&["node", "provision", "--password-file", "none"])
        .refused(4, &["none"]);
}
