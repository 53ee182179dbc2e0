//! `security`: what services can do, beside what `systemd-analyze` says of the same files.

use serde_json::Value;

use crate::common::{Outcome, Root, run};

const OPEN: &str = "[Service]\nExecStart=/bin/true\n";
const SHUT: &str = "[Service]\nExecStart=/bin/true\nDynamicUser=yes\nPrivateDevices=yes\nPrivateNetwork=yes\n\
                    ProtectKernelTunables=yes\nProtectHome=yes\nCapabilityBoundingSet=\nRestrictNamespaces=yes\n\
                    RestrictAddressFamilies=AF_UNIX\nSystemCallFilter=@system-service\nSystemCallArchitectures=native\n";

fn services() -> Root {
    let root = Root::new();
    root.write("usr/lib/systemd/system/open.service", OPEN)
        .write("usr/lib/systemd/system/shut.service", SHUT)
        .write("usr/lib/systemd/system/each@.service", OPEN)
        .write("usr/lib/systemd/system/some.target", "[Unit]\n")
        .link("etc/systemd/system/masked.service", "/dev/null");
    root
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[test]
fn without_a_unit_every_service_is_in_a_table() {
    let root = services();
    let table = root.sctl(&["security"]);
    assert_eq!(table.code, 0, "{table:?}");
    let lines: Vec<Vec<&str>> = table
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["UNIT", "EXPOSURE", "PREDICATE"]);
    assert_eq!(lines[1], ["open.service", "9.6", "UNSAFE"]);
    assert_eq!(lines[2][0], "shut.service");
    assert_eq!(lines[2][2], "OK");
    assert_eq!(lines.len(), 5, "{table:?}");
    assert!(table.stdout.ends_with(
        "\nWhether 2 of them could be given all that they ask for here is unknown: no manager is asked, or there was no run yet.\n"
    ));
    let rows = json(&root.sctl(&["security", "--json"]));
    assert_eq!(rows[0]["unit"], "open.service");
    assert_eq!(rows[0]["exposure"], 9.6);
    assert_eq!(rows[1]["predicate"], "OK");
}

#[test]
fn what_is_misspelt_is_named_with_and_without_a_unit() {
    let root = services();
    let text = "[Service]\nExecStart=/bin/true\nSystemCallFilter=~moutn swapon\nSystemCallErrorNumber=EPRM\n";
    root.write("usr/lib/systemd/system/typo.service", text);
    for words in [&["security"][..], &["security", "typo"]] {
        let shown = root.sctl(words);
        assert_eq!(shown.code, 0, "{shown:?}");
        let section = shown.stdout.find("Ignored, since it cannot be read:");
        let section = &shown.stdout[section.unwrap_or_else(|| panic!("{shown:?}"))..];
        assert!(
            section.contains("typo.service:3: in SystemCallFilter=: \"moutn\" is not a known"),
            "{section}"
        );
        assert!(section.contains("typo.service:4: SystemCallErrorNumber= is ignored"));
    }
    let rows = json(&root.sctl(&["security", "--json"]));
    let rows = rows.as_array().unwrap();
    let row = |unit: &str| rows.iter().find(|row| row["unit"] == unit).unwrap();
    assert_eq!(row("typo.service")["ignored"].as_array().unwrap().len(), 2);
    assert_eq!(row("open.service")["ignored"], Value::Null);
}

#[test]
fn a_protection_that_nobody_knows_is_named_with_and_without_a_unit() {
    let root = services();
    let text = "[Unit]\nProtectClock=yes\n[Service]\nExecStart=/bin/true\nNoNewPrivilege=yes\nPrivateBPF=yes\nX-Mine=yes\n\
                [Servcie]\nProtectHome=yes\n";
    root.write("usr/lib/systemd/system/strange.service", text);
    for words in [&["security"][..], &["security", "strange"]] {
        let shown = root.sctl(words);
        assert_eq!(shown.code, 0, "{shown:?}");
        let section = shown.stdout.find("Asked for, but not understood:");
        let section = &shown.stdout[section.unwrap_or_else(|| panic!("{shown:?}"))..];
        for name in [
            "ProtectClock=",
            "NoNewPrivilege=",
            "PrivateBPF=",
            "[Servcie]",
        ] {
            assert!(section.contains(name), "{name}: {section}");
        }
        assert!(section.contains("strange.service:5:"), "{section}");
        assert!(!section.contains("X-Mine"), "{section}");
    }
    let rows = json(&root.sctl(&["security", "--json"]));
    let rows = rows.as_array().unwrap();
    let row = |unit: &str| rows.iter().find(|row| row["unit"] == unit).unwrap();
    assert_eq!(
        row("strange.service")["unknown"].as_array().unwrap().len(),
        4
    );
    assert_eq!(row("open.service")["unknown"], Value::Null);
    let value = json(&root.sctl(&["security", "--json", "strange"]));
    assert_eq!(value[0]["unknown"].as_array().unwrap().len(), 4);
}

#[test]
fn a_unit_is_explained_setting_by_setting() {
    let root = services();
    let shown = root.sctl(&["security", "--no-pager", "shut"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let line = |setting: &str| {
        let line = shown.stdout.lines().find(|line| line.contains(setting));
        line.unwrap_or_else(|| panic!("{setting}: {shown:?}"))
            .to_owned()
    };
    assert!(line("PrivateNetwork=").contains("It cannot use the host's network"));
    assert!(line("PrivateNetwork=").starts_with('\u{2713}'));
    assert!(line("~AF_UNIX").contains("It can open local sockets"));
    assert!(line("~AF_UNIX").starts_with('\u{2717}'));
    assert!(line("Overall exposure of").contains("shut.service: "));
    let end = "Whether it could be given all of that here is unknown where no manager is asked.\n";
    assert!(shown.stdout.ends_with(end), "{shown:?}");
    let same = root.sctl(&["analyze", "security", "shut.service"]);
    assert_eq!(same.stdout, shown.stdout);
    let value = json(&root.sctl(&["security", "-o", "json-pretty", "shut", "each@x"]));
    let findings = value[0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 81);
    let user = findings
        .iter()
        .find(|finding| finding["setting"] == "User=/DynamicUser=");
    let user = user.unwrap();
    assert_eq!(
        (&user["topic"], &user["weight"]),
        (&"user".into(), &2000.into())
    );
    assert_eq!(user["exposure"], 0.0);
    assert_eq!(value[0]["lacking"], Value::Null);
    assert_eq!(value[1]["unit"], "each@x.service");
}

#[test]
fn a_threshold_decides_about_the_exit_code() {
    let root = services();
    assert_eq!(root.sctl(&["security", "--threshold=60", "shut"]).code, 0);
    assert_eq!(root.sctl(&["security", "--threshold=60", "open"]).code, 1);
    assert_eq!(root.sctl(&["security", "--threshold=60"]).code, 1);
    assert_eq!(root.sctl(&["security", "--threshold=600"]).code, 1);
}

#[test]
fn what_cannot_be_assessed_is_said_and_the_rest_is_shown() {
    let root = services();
    let shown = root.sctl(&["security", "missing", "masked", "some.target", "open"]);
    assert_eq!(shown.code, 1);
    let lines: Vec<&str> = shown.stderr.lines().collect();
    assert_eq!(
        lines,
        [
            "Failed to assess missing.service: it is not-found.",
            "Failed to assess masked.service: it is masked.",
            "Failed to assess some.target: it is not a service.",
        ]
    );
    assert!(
        shown
            .stdout
            .contains("Overall exposure of open.service: 9.6 UNSAFE")
    );
}

#[test]
fn figures_are_those_of_systemd() {
    let root = services();
    for unit in ["open.service", "shut.service"] {
        let path = root.at(&format!("usr/lib/systemd/system/{unit}"));
        let path = path.to_str().unwrap();
        let words = ["security", "--offline=true", "--no-pager", path];
        let theirs = run("systemd-analyze", &words, root.path());
        let figure = |text: &str| {
            let line = text.lines().find(|line| line.contains("Overall exposure"));
            let figure = line.and_then(|line| line.split_once(&format!("{unit}: ")));
            let figure = figure.unwrap_or_else(|| panic!("{text}")).1;
            figure
                .split(' ')
                .take(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let ours = root.sctl(&["security", unit]);
        assert_eq!(figure(&ours.stdout), figure(&theirs.stdout), "{unit}");
    }
}
