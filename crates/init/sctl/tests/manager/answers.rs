//! What `sctl` prints, and with which exit code it ends, for what a manager says.

use serde_json::{Value, json};

use crate::fake::{Answer, Fake, Seen};

fn row(name: &str, active: &str, sub: &str) -> Value {
    json!({"name": name, "description": format!("About {name}"), "load": "loaded", "active": active, "sub": sub})
}

/// A manager with some units.
fn some_units(call: &mut Seen) -> Answer {
    let unit = call.parameters["unit"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let rows = [
        row("a.service", "active", "running"),
        row("b.service", "failed", "failed"),
        row("c.timer", "active", "waiting"),
    ];
    Answer::Replies(vec![match call.name() {
        "ListUnits" => {
            let patterns = call.parameters["patterns"].as_array().unwrap().clone();
            let wanted = |row: &&Value| {
                let name = row["name"].as_str().unwrap();
                patterns.is_empty()
                    || patterns.iter().any(|pattern| {
                        let pattern = pattern.as_str().unwrap().trim_end_matches('*');
                        name.starts_with(pattern)
                    })
            };
            // In two parts, as a manager with many units answers.
            let rows: Vec<&Value> = rows.iter().filter(wanted).collect();
            let (one, two) = rows.split_at(rows.len() / 2);
            return Answer::Replies(vec![json!({"units": one}), json!({"units": two})]);
        }
        "Status" => match rows.iter().find(|row| row["name"] == unit.as_str()) {
            Some(row) => json!({"row": row, "main_pid": 0, "outcome": "success"}),
            None => return Answer::Error("NoSuchUnit", "Unit is not loaded."),
        },
        "Machine" => {
            json!({"state": "degraded", "version": "9.9", "units": 3, "journal": ["/nonexistent"]})
        }
        "ListJobs" => {
            json!({"jobs": [{"id": 4, "unit": "a.service", "kind": "stop", "state": "waiting"}]})
        }
        "Show" => json!({"properties": [["Id", unit], ["ActiveState", "active"]]}),
        "Why" => {
            json!({"unit": unit, "state": "failed", "lines": ["It ended."], "advice": ["Look."]})
        }
        "Environment" => json!({"variables": ["A=b c", "LANG=C"]}),
        "Reload" => json!({"read": 1, "remarks": ["/x:1: strange"]}),
        _ => json!({}),
    }])
}

#[test]
fn questions_have_the_exit_codes_of_systemctl() {
    let fake = Fake::new(some_units);
    for (words, code, answer) in [
        (&["is-active", "a"][..], 0, "active\n"),
        (&["is-active", "b"], 3, "failed\n"),
        (&["is-active", "b", "a"], 0, "failed\nactive\n"),
        (&["is-active", "-q", "a"], 0, ""),
        (&["is-active", "zzz"], 3, "inactive\n"),
        (&["is-failed", "b"], 0, "failed\n"),
        (&["is-failed", "a"], 1, "active\n"),
        (&["is-system-running"], 1, "degraded\n"),
        (
            &["show", "-p", "Id", "a"],
            0,
            "Id=a.service\nActiveState=active\n",
        ),
        (&["show", "--value", "a"], 0, "a.service\nactive\n"),
        (
            &["show", "-o", "json", "a"],
            0,
            "{\"ActiveState\":\"active\",\"Id\":\"a.service\"}\n",
        ),
        (
            &["why", "b"],
            0,
            "b.service is failed\n  It ended.\nWhat to do\n  Look.\n",
        ),
        (&["show-environment"], 0, "A=$'b c'\nLANG=C\n"),
        (
            &["list-jobs", "--no-legend"],
            0,
            "4 a.service stop waiting\n",
        ),
        (&["list-jobs", "--no-legend", "z*"], 0, ""),
        (
            &["list-units", "--no-legend", "--plain", "a*"],
            0,
            "a.service loaded active running About a.service\n",
        ),
    ] {
        let (got, stdout, stderr) = fake.sctl(words);
        assert_eq!(
            (got, stdout.as_str()),
            (code, answer),
            "{words:?}: {stderr}"
        );
    }
}

#[test]
fn status_says_what_is_missing_and_what_is_down() {
    let fake = Fake::new(some_units);
    let (code, stdout, _) = fake.sctl(&["status", "a"]);
    assert_eq!(code, 0);
    assert!(
        stdout.starts_with("\u{25cf} a.service - About a.service\n"),
        "{stdout}"
    );
    assert_eq!(fake.sctl(&["status", "b"]).0, 3);
    assert_eq!(fake.sctl(&["status", "a", "b"]).0, 3);
    let (code, _, stderr) = fake.sctl(&["status", "zzz"]);
    assert_eq!(code, 4);
    assert_eq!(stderr, "Unit zzz.service could not be found.\n");
    let (code, stdout, _) = fake.sctl(&["status", "-o", "json", "a"]);
    assert_eq!(code, 0);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(value[0]["row"]["name"], "a.service");
    let (code, stdout, _) = fake.sctl(&["status"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("State: degraded\n"), "{stdout}");
}

#[test]
fn lists_come_in_parts_and_are_filtered_by_the_manager() {
    let fake = Fake::new(some_units);
    let (code, stdout, _) = fake.sctl(&["list-units", "-o", "json"]);
    assert_eq!(code, 0);
    let rows: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    fake.sctl(&[
        "list-units",
        "--all",
        "--state=failed",
        "-t",
        "service,loaded",
        "x*",
    ]);
    let call = fake.calls_of("ListUnits").pop().unwrap();
    assert_eq!(
        call,
        json!({"patterns": ["x*"], "states": ["failed", "loaded"], "types": ["service"], "all": true})
    );
    let (code, _, stderr) = fake.sctl(&["list-units", "-t", "nonsense"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("Unknown unit type"), "{stderr}");
}

#[test]
fn colours_come_only_when_they_are_asked_for() {
    let fake = Fake::new(some_units);
    let (_, plain, _) = fake.sctl(&["list-units"]);
    assert!(!plain.contains('\u{1b}'));
    let (_, coloured, _) = fake.sctl(&["--color=always", "list-units"]);
    assert!(coloured.contains('\u{1b}'));
}

#[test]
fn without_a_manager_everybody_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nobody");
    let run = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sctl"))
            .args(words)
            .env("MUSTER_CONTROL", &socket)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), text)
    };
    for words in [
        &["start", "a"][..],
        &["stop", "a"],
        &["status"],
        &["list-units"],
        &["daemon-reload"],
        &["run", "true"],
        &["why", "a"],
        &["poweroff"],
        &["show-environment"],
    ] {
        let (code, stderr) = run(words);
        assert_eq!(code, 1, "{words:?}");
        assert!(stderr.contains("is not running"), "{words:?}: {stderr}");
        assert!(stderr.contains("nobody"), "{words:?}: {stderr}");
    }
    assert_eq!(run(&["is-system-running"]).0, 1);
}

#[test]
fn completions_and_manual_pages_are_there_for_every_verb() {
    let fake = Fake::new(some_units);
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, _) = fake.sctl(&["completions", shell]);
        assert_eq!(code, 0);
        for verb in [
            "start",
            "list-timers",
            "daemon-reexec",
            "enable",
            "logs",
            "why",
        ] {
            assert!(stdout.contains(verb), "{shell}: {verb}");
        }
    }
    let pages = fake.folder().join("man");
    let (code, _, stderr) = fake.sctl(&["man", pages.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
    for page in [
        "sctl.1",
        "sctl-start.1",
        "sctl-logs.1",
        "sctl-analyze-blame.1",
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    let (code, stdout, _) = fake.sctl(&["man"]);
    assert_eq!(code, 0);
    assert!(stdout.contains(".SH NAME"));
}

/// A manager that could not yet try to give a unit what it asks for has nothing to say about it.
#[test]
fn security_does_not_praise_what_nobody_has_tried() {
    let fake = Fake::new(|call: &mut Seen| {
        let unit = call.parameters["unit"].as_str().unwrap().to_owned();
        let runs = match unit.starts_with("ran") {
            true => json!([{"phase": "ExecStart", "command": "/bin/true"}]),
            false => json!([]),
        };
        Answer::Replies(vec![json!({"row": {"name": unit}, "commands": runs})])
    });
    let file = |name: &str| {
        let file = fake.folder().join(name);
        std::fs::write(&file, "[Service]\nExecStart=/bin/true\nPrivateUsers=yes\n").unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (ran, never) = (file("ran.service"), file("never.service"));
    let end = "Whether it could be given all of that here is unknown until it has run.\n";
    let (code, stdout, stderr) = fake.sctl(&["security", &never]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.ends_with(end), "{stdout}");
    let (code, stdout, stderr) = fake.sctl(&["security", &ran]);
    assert_eq!(code, 0, "{stderr}");
    assert!(!stdout.contains("unknown"), "{stdout}");
    let (_, stdout, _) = fake.sctl(&["security", "-o", "json", &never, &ran]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(value[0]["lacking"]["has_run"], false);
    assert_eq!(value[1]["lacking"]["has_run"], true);
}

/// What the files say is assessed here; what the machine could not give is asked for.
#[test]
fn security_says_what_could_not_be_had_here() {
    let fake = Fake::new(|call: &mut Seen| {
        let unit = call.parameters["unit"].clone();
        Answer::Replies(vec![json!({
            "row": {"name": unit},
            "dropped": ["PrivateUsers: not permitted"],
            "not_applied": ["RestrictFileSystems"],
            "setup_failure": "NAMESPACE: no such file",
        })])
    });
    let file = fake.folder().join("a.service");
    std::fs::write(&file, "[Service]\nExecStart=/bin/true\nPrivateUsers=yes\n").unwrap();
    let file = file.to_str().unwrap();
    let (code, stdout, stderr) = fake.sctl(&["security", file]);
    assert_eq!(code, 0, "{stderr}");
    let end = "Asked for, but could not be had here:\n  PrivateUsers: not permitted\n\
               Asked for, but not carried out:\n  RestrictFileSystems\n\
               Could not be set up, so it was not started:\n  NAMESPACE: no such file\n";
    assert!(stdout.ends_with(end), "{stdout}");
    let (_, stdout, _) = fake.sctl(&["security", "-o", "json", file]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        value[0]["lacking"]["dropped"][0],
        "PrivateUsers: not permitted"
    );
    let (code, stdout, stderr) = fake.sctl(&["-H", "elsewhere", "security", file]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
}
