//! `muster pki`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::rig::{Site, mode, run};

#[test]
fn an_authority_is_made_once() {
    let site = Site::empty();
    let made = site
        .run(&["pki", "init", "--system-id", "unit-7", "-o", "json"])
        .json();
    assert_eq!(
        (&made["systemId"], &made["created"]),
        (&"unit-7".into(), &true.into())
    );
    let root = site.text("pki/root.crt.pem");
    let again = site.run(&["pki", "init", "-o", "json"]).json();
    assert_eq!(
        (&again["systemId"], &again["created"]),
        (&"unit-7".into(), &false.into())
    );
    assert_eq!(site.text("pki/root.crt.pem"), root);
    site.run(&["pki", "init", "--system-id", "unit-8"])
        .refused(3, &["unit-7", "unit-8"]);
    site.run(&["pki", "init", "--system-id", "Unit 8"])
        .refused(2, &["--help"]);
}

#[test]
fn without_a_name_a_system_gets_a_random_one() {
    let names: BTreeSet<String> = (0..2)
        .map(|_| {
            let made = Site::empty().run(&["pki", "init", "-o", "json"]).json();
            made["systemId"].as_str().expect("text").to_owned()
        })
        .collect();
    assert_eq!(names.len(), 2);
}

#[test]
fn commands_without_an_authority_say_how_to_make_one() {
    let site = Site::empty();
    for command in [
        ["pki", "list"].as_slice(),
        &["pki", "issue", "--node", "n1", "--role", "sm"],
        &["pki", "crl"],
        &["pki", "revoke", "01020304050607080102030405060708"],
        &["node", "provision"],
    ] {
        site.run(command).refused(
            4,
            &["there is no certificate authority in", "muster pki init"],
        );
    }
    assert!(!site.path("pki").exists(), "nothing is made along the way");
}

#[test]
fn an_operator_gets_a_key_and_a_certificate() {
    let site = Site::new();
    let issue = [
        "pki", "issue", "--node", "desk", "--role", "operator", "--out", "o", "-o", "json",
    ];
    let issued = site.run(&issue).json();
    assert_eq!(issued["identity"], "spiffe://unit-7/node/desk/operator");
    assert_eq!(mode(&site.path("o/desk-operator.key.pem")), 0o600);
    assert_eq!(mode(&site.path("o/desk-operator.crt.pem")), 0o644);
    assert_eq!(site.text("o/ca.pem"), site.text("pki/root.crt.pem"));
    let key = site.text("o/desk-operator.key.pem");
    site.run(&issue).refused(
        3,
        &["o/desk-operator.crt.pem", "muster pki renew", "--force"],
    );
    assert_eq!(
        site.text("o/desk-operator.key.pem"),
        key,
        "it is left alone"
    );

    let shown = site
        .run(&["pki", "show", "o/desk-operator.crt.pem", "-o", "json"])
        .json();
    assert_eq!(shown[0]["serial"], issued["serial"]);
    assert_eq!(shown[0]["purposes"], Value::from(vec!["clientAuth"]));
    assert_eq!(shown[0]["status"], "valid");
    assert_eq!(
        (&shown[1]["ca"], &shown[1]["status"]),
        (&true.into(), &"valid".into())
    );
}

#[test]
fn a_request_gets_what_the_options_say_and_nothing_it_asks_for() {
    let site = Site::new();
    let key = rcgen::KeyPair::generate().expect("a key");
    let asked = rcgen::CertificateParams::new(vec!["evil.example".to_owned()]).expect("a name");
    let csr = asked
        .serialize_request(&key)
        .and_then(|csr| csr.pem())
        .expect("a request");
    fs::write(site.path("n1.csr"), &csr).expect("written");
    let asks = site.run(&["pki", "show", "n1.csr", "-o", "json"]).json();
    assert_eq!(asks[0]["dns"], Value::from(vec!["evil.example"]));

    let names = ["--dns", "N1.plant", "--ip", "10.0.0.7", "--ip", "fd00::7"];
    let issue = [
        &[
            "pki", "issue", "--node", "n1", "--role", "sm", "--csr", "n1.csr",
        ],
        names.as_slice(),
    ]
    .concat();
    site.run(&issue).ok();
    assert!(!site.path("n1-sm.key.pem").exists());
    let shown = site
        .run(&["pki", "show", "n1-sm.crt.pem", "-o", "json"])
        .json();
    assert_eq!(
        shown[0]["uris"],
        Value::from(vec!["spiffe://unit-7/node/n1/sm"])
    );
    assert_eq!(shown[0]["dns"], Value::from(vec!["n1.plant"]));
    assert_eq!(shown[0]["ips"], Value::from(vec!["10.0.0.7", "fd00::7"]));
    assert_eq!(
        shown[0]["purposes"],
        Value::from(vec!["serverAuth", "clientAuth"])
    );

    fs::write(site.path("bad.csr"), csr.replacen("MII", "MIJ", 1)).expect("written");
    let bad = [
        "pki", "issue", "--node", "n2", "--role", "sm", "--csr", "bad.csr",
    ];
    site.run(&bad).refused(1, &["bad.csr", "malformed"]);
    let none = [
        "pki", "issue", "--node", "n2", "--role", "sm", "--csr", "none.csr",
    ];
    site.run(&none).refused(4, &["none.csr", "No such file"]);
    let name = [
        "pki", "issue", "--node", "n2", "--role", "sm", "--dns", "*.plant",
    ];
    site.run(&name).refused(2, &["*.plant", "wildcards"]);
}

#[test]
fn what_is_due_is_listed_and_renewed_in_place() {
    let site = Site::new();
    site.run(&["pki", "issue", "--node", "desk", "--role", "operator"])
        .ok();
    let list = |options: &[&str]| {
        let all = [&["pki", "list", "-o", "json"], options].concat();
        site.run(&all).json().as_array().expect("a list").len()
    };
    assert_eq!(
        (list(&[]), list(&["--due", "30d"]), list(&["--due", "400d"])),
        (1, 0, 1)
    );
    let (cert, key) = (
        site.text("desk-operator.crt.pem"),
        site.text("desk-operator.key.pem"),
    );

    let kept = site
        .run(&[
            "pki",
            "renew",
            "desk-operator.crt.pem",
            "--due",
            "30d",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(kept[0]["renewed"], false);
    assert_eq!(site.text("desk-operator.crt.pem"), cert);

    let same = site
        .run(&[
            "pki",
            "renew",
            "desk-operator.crt.pem",
            "--same-key",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(same[0]["renewed"], true);
    assert_eq!(site.text("desk-operator.key.pem"), key);
    assert_ne!(site.text("desk-operator.crt.pem"), cert);

    site.run(&["pki", "renew", "desk-operator.crt.pem", "--due", "400d"])
        .ok();
    assert_ne!(site.text("desk-operator.key.pem"), key);
    assert_eq!(mode(&site.path("desk-operator.key.pem")), 0o600);
    assert_eq!(
        (list(&[]), list(&["--all"])),
        (1, 4),
        "three and the intermediate"
    );

    fs::remove_file(site.path("desk-operator.key.pem")).expect("removed");
    site.run(&["pki", "renew", "desk-operator.crt.pem"])
        .refused(4, &["desk-operator.key.pem", "--same-key"]);
    site.run(&["pki", "renew", "pki/root.crt.pem"])
        .refused(3, &["not issued by this authority"]);
}

#[test]
fn revoked_certificates_are_on_the_list_at_once() {
    let site = Site::new();
    for role in ["iam", "sm", "cm"] {
        site.run(&["pki", "issue", "--node", "n1", "--role", role])
            .ok();
    }
    let listed = || {
        let lists = site.run(&["pki", "crl", "-o", "json"]).json();
        lists["lists"][1]["revoked"]
            .as_array()
            .expect("a list")
            .len()
    };
    let by_file = site
        .run(&[
            "pki",
            "revoke",
            "n1-sm.crt.pem",
            "--reason",
            "key-compromise",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(
        (by_file[0]["already"].as_bool(), listed()),
        (Some(false), 1)
    );
    let serial = by_file[0]["serial"].as_str().expect("text");
    let again = site.run(&["pki", "revoke", serial, "-o", "json"]).json();
    assert_eq!((again[0]["already"].as_bool(), listed()), (Some(true), 1));
    let all = site.run(&["pki", "list", "--all", "-o", "json"]).json();
    let sm = all
        .as_array()
        .into_iter()
        .flatten()
        .find(|cert| cert["serial"] == serial)
        .expect("listed");
    assert_eq!(
        (&sm["status"], &sm["reason"]),
        (&"revoked".into(), &"key-compromise".into())
    );

    site.run(&["pki", "revoke", "--node", "n1"]).ok();
    assert_eq!(listed(), 3);
    site.run(&["pki", "revoke", "--node", "n1"])
        .refused(4, &["n1"]);
    site.run(&["pki", "revoke", "01020304050607080102030405060708"])
        .refused(4, &["0102030405"]);
    site.run(&["pki", "revoke", "nonsense"])
        .refused(4, &["nonsense", "neither a serial number nor a file"]);
    site.run(&["pki", "revoke"]).refused(2, &["--help"]);
    site.run(&["pki", "renew", "n1-sm.crt.pem"])
        .refused(3, &["revoked"]);

    site.run(&["pki", "revoke", "--intermediate"]).ok();
    site.run(&["pki", "crl", "--refresh", "--out", "copy.pem"])
        .ok();
    assert_eq!(site.text("copy.pem"), site.text("pki/crl.pem"));
}

#[test]
fn the_root_key_may_be_away() {
    let site = Site::new();
    fs::rename(site.path("pki/root.key.pem"), site.path("drawer")).expect("moved");
    site.run(&["pki", "issue", "--node", "desk", "--role", "operator"])
        .ok();
    site.run(&["pki", "revoke", "--intermediate"])
        .refused(1, &["private key of the root", "root.key.pem"]);
}

#[test]
fn exposed_keys_and_damaged_records_stop_everything() {
    let site = Site::new();
    let key = site.path("pki/intermediate-1.key.pem");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("chmod");
    site.run(&["pki", "crl"])
        .refused(1, &["intermediate-1.key.pem", "chmod 600"]);
    let record = site.text("pki/record.jsonl");
    fs::write(site.path("pki/record.jsonl"), record.replacen('{', "[", 1)).expect("damaged");
    site.run(&["pki", "list"])
        .refused(1, &["line 1 of the record", "damaged"]);
}

#[test]
fn a_disk_that_is_full_hands_nothing_out_and_loses_nothing() {
    let site = Site::new();
    let before = site.text("pki/record.jsonl");
    // Files end at 1024 bytes: the next line of the record is torn, as on a full disk.
    assert!((620..1000).contains(&before.len()), "{}", before.len());
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" pki issue --node n1 --role sm";
    let mut command = Command::new("/bin/bash");
    command
        .args(["-c", limited, env!("CARGO_BIN_EXE_muster")])
        .current_dir(site.path(""))
        .env("MUSTER_PKI_DIR", site.path("pki"));
    run(&mut command).refused(1, &["cannot add to the record", "File too large"]);
    assert!(!site.path("n1-sm.crt.pem").exists() && !site.path("n1-sm.key.pem").exists());
    let torn = site.text("pki/record.jsonl");
    assert!(
        torn.len() > before.len() && torn.starts_with(&before),
        "the end is torn"
    );
    let listed = site.run(&["pki", "list", "-o", "json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(0));
    site.run(&["pki", "issue", "--node", "n1", "--role", "sm"])
        .ok();
    assert_eq!(
        site.text("pki/record.jsonl").lines().count(),
        before.lines().count() + 1
    );
}

#[test]
fn many_processes_issue_at_once() {
    let site = Site::new();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let node = format!("n{number}");
            let mut command = site.command(&[
                "pki", "issue", "--node", &node, "--role", "sm", "-o", "json",
            ]);
            command.stdout(Stdio::piped()).spawn().expect("started")
        })
        .collect();
    let mut serials = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{output:?}");
        let issued: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        serials.insert(issued["serial"].as_str().expect("text").to_owned());
    }
    let listed = site.run(&["pki", "list", "-o", "json"]).json();
    let listed: BTreeSet<String> = listed
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cert| cert["serial"].as_str().map(str::to_owned))
        .collect();
    assert_eq!((serials.len(), &listed), (8, &serials));
}

#[test]
fn other_tools_agree_about_certificates_and_lists() {
    let site = Site::new();
    site.run(&[
        "pki", "issue", "--node", "n1", "--role", "sm", "--dns", "n1.plant",
    ])
    .ok();
    let verify = || {
        run(Command::new("openssl")
            .args([
                "verify",
                "-CAfile",
                "pki/root.crt.pem",
                "-CRLfile",
                "pki/crl.pem",
                "-crl_check_all",
            ])
            .args([
                "-untrusted",
                "pki/intermediate-1.crt.pem",
                "-x509_strict",
                "-purpose",
                "sslserver",
                "n1-sm.crt.pem",
            ])
            .current_dir(site.path("")))
    };
    let good = verify();
    assert!(good.status.success(), "{good:?}");
    site.run(&["pki", "revoke", "n1-sm.crt.pem"]).ok();
    let revoked = verify();
    assert!(
        !revoked.status.success() && revoked.stderr.contains("revoked"),
        "{revoked:?}"
    );
}

#[test]
fn tables_are_for_people() {
    let site = Site::new();
    site.run(&["pki", "issue", "--node", "desk", "--role", "operator"])
        .ok();
    let table = site.run(&["pki", "list"]).ok().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("IDENTITY") && lines[0].ends_with("SERIAL"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("spiffe://unit-7/node/desk/operator  valid"),
        "{table}"
    );
    let shown = site
        .run(&["pki", "show", "desk-operator.key.pem"])
        .ok()
        .stdout;
    assert_eq!(shown, "Private key:  (not shown)\n");
    let shown = site
        .run(&["pki", "show", "desk-operator.crt.pem"])
        .ok()
        .stdout;
    let blank = shown.lines().filter(|line| line.is_empty()).count();
    assert_eq!(
        blank, 1,
        "two certificates with a line between them: {shown}"
    );
}
