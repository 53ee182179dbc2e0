//! Every verb, end to end: the real program on real folders.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Outcome, Root, SCTL, run, sample};

/// Asserts the exit code and gives the answer.
#[track_caller]
fn ok(outcome: Outcome) -> String {
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.stdout
}

#[track_caller]
fn fails(outcome: Outcome, code: i32, remark: &str) {
    assert_eq!(outcome.code, code, "{outcome:?}");
    assert!(outcome.stderr.contains(remark), "{outcome:?}");
}

#[test]
fn enabling_is_idempotent_and_undone_by_disabling() {
    let root = sample();
    let before = root.tree();
    let first = root.sctl(&["enable", "a", "aliased", "required", "d@", "t@x"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(
        first.stderr.matches("Created symlink").count(),
        7,
        "{first:?}"
    );
    let link = root.at("etc/systemd/system/multi-user.target.wants/a.service");
    assert_eq!(
        fs::read_link(link).unwrap(),
        Path::new("/lib/systemd/system/a.service")
    );
    let enabled = root.tree();
    let second = root.sctl(&["enable", "a", "aliased", "required", "d@", "t@x"]);
    assert_eq!((second.code, second.stderr.as_str()), (0, ""));
    assert_eq!(root.tree(), enabled);
    ok(root.sctl(&["disable", "a", "aliased", "required", "d@", "t@x"]));
    assert_eq!(root.tree(), before);
    let again = root.sctl(&["disable", "a"]);
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
}

/// Many at once in one folder, which comes and goes with its last link.
#[test]
fn commands_at_the_same_time_do_not_disturb_each_other() {
    let root = Root::new();
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=x.target\n";
    root.write("lib/systemd/system/x.target", "[Unit]\n");
    for n in 0..4 {
        root.write(&format!("lib/systemd/system/u{n}.service"), text);
    }
    std::thread::scope(|scope| {
        for n in 0..4 {
            let root = &root;
            scope.spawn(move || {
                let unit = format!("u{n}.service");
                for _ in 0..25 {
                    ok(root.sctl(&["enable", &unit]));
                    ok(root.sctl(&["disable", &unit]));
                }
                ok(root.sctl(&["enable", &unit]));
            });
        }
    });
    let links = fs::read_dir(root.at("etc/systemd/system/x.target.wants")).unwrap();
    assert_eq!(links.count(), 4);
}

#[test]
fn a_refused_request_changes_nothing() {
    let root = sample();
    root.link("etc/systemd/system/other.service", "/dev/null");
    let before = root.tree();
    for words in [
        &["enable", "a", "missing"][..],
        &["enable", "a", "t@"],
        &["enable", "a", "aliased"],
        &["enable", "a", "vendor-masked"],
        &["enable", "--now", "a"],
        &["mask", "a", "local"],
        &["add-wants", "missing.target", "a"],
        &["add-requires", "multi-user.target", "a", "missing"],
        &["set-default", "missing.target"],
        &["set-default", "a.service"],
        &["link", "/opt/elsewhere.service", "/opt/missing.service"],
        &["preset", "a", "missing"],
        &["reenable", "a", "missing"],
    ] {
        let outcome = root.sctl(words);
        assert_eq!(outcome.code, 1, "{words:?}: {outcome:?}");
        assert!(!outcome.stderr.is_empty(), "{words:?}");
        assert_eq!(root.tree(), before, "{words:?}");
    }
}

#[test]
fn states_and_their_exit_codes() {
    let root = sample();
    ok(root.sctl(&["enable", "a", "aliased"]));
    ok(root.sctl(&["mask", "required"]));
    ok(root.sctl(&["mask", "--runtime", "nowhere"]));
    ok(root.sctl(&["enable", "--runtime", "local"]));
    ok(root.sctl(&["link", "/opt/elsewhere.service"]));
    for (unit, state, code) in [
        ("a", "enabled", 0),
        ("local", "enabled-runtime", 0),
        ("plain", "static", 0),
        ("other", "alias", 0),
        ("also", "indirect", 0),
        ("elsewhere", "linked", 1),
        ("d@", "disabled", 1),
        ("required", "masked", 1),
        ("nowhere", "masked-runtime", 1),
        ("missing", "not-found", 4),
    ] {
        let outcome = root.sctl(&["is-enabled", unit]);
        assert_eq!(
            (outcome.stdout.trim(), outcome.code),
            (state, code),
            "{unit}"
        );
        let quiet = root.sctl(&["is-enabled", "--quiet", unit]);
        assert_eq!((quiet.stdout.as_str(), quiet.code), ("", code), "{unit}");
    }
    // One enabled unit is enough; one that exists makes it an ordinary failure.
    assert_eq!(root.sctl(&["is-enabled", "missing", "a"]).code, 0);
    assert_eq!(root.sctl(&["is-enabled", "missing", "d@"]).code, 1);
}

#[test]
fn masks_links_and_reverts() {
    let root = sample();
    ok(root.sctl(&["mask", "a"]));
    let mask = root.at("etc/systemd/system/a.service");
    assert_eq!(fs::read_link(&mask).unwrap(), Path::new("/dev/null"));
    assert_eq!(ok(root.sctl(&["mask", "a"])), "");
    fails(root.sctl(&["enable", "a"]), 1, "is masked");
    ok(root.sctl(&["revert", "a"]));
    assert!(fs::symlink_metadata(&mask).is_err());
    assert!(!root.at("etc/systemd/system/a.service.d").exists());
    assert_eq!(root.sctl(&["revert", "a"]).stderr, "");

    ok(root.sctl(&["enable", "/opt/elsewhere.service"]));
    let listed = ok(root.sctl(&["list-unit-files", "--no-legend", "elsewhere*"]));
    assert!(listed.starts_with("elsewhere.service enabled"), "{listed}");
    ok(root.sctl(&["disable", "elsewhere"]));
    assert_eq!(root.sctl(&["is-enabled", "elsewhere"]).code, 4);
    fails(
        root.sctl(&["link", "opt/elsewhere.service"]),
        1,
        "Non-absolute",
    );
}

#[test]
fn force_replaces_links_but_never_files() {
    let root = sample();
    ok(root.sctl(&["link", "/opt/elsewhere.service"]));
    fails(root.sctl(&["mask", "elsewhere"]), 1, "already exists");
    let forced = root.sctl(&["mask", "--force", "elsewhere"]);
    assert!(forced.stderr.contains("Removed") && forced.stderr.contains("Created"));
    let place = root.at("etc/systemd/system/elsewhere.service");
    assert_eq!(fs::read_link(place).unwrap(), Path::new("/dev/null"));
    fails(
        root.sctl(&["mask", "--force", "local"]),
        1,
        "already exists",
    );
    assert!(root.at("etc/systemd/system/local.service").is_file());
}

#[test]
fn the_default_target() {
    let root = sample();
    assert_eq!(ok(root.sctl(&["get-default"])), "graphical.target\n");
    ok(root.sctl(&["set-default", "rescue"]));
    assert_eq!(ok(root.sctl(&["get-default"])), "rescue.target\n");
    assert_eq!(root.sctl(&["set-default", "rescue"]).stderr, "");
    let bare = Root::new();
    fails(
        bare.sctl(&["get-default"]),
        1,
        "Failed to get default target",
    );
}

#[test]
fn presets_in_all_modes() {
    let root = sample();
    ok(root.sctl(&["enable", "aliased"]));
    ok(root.sctl(&["preset-all", "--preset-mode=enable-only"]));
    assert_eq!(root.sctl(&["is-enabled", "aliased"]).code, 0);
    assert_eq!(root.sctl(&["is-enabled", "a"]).code, 0);
    assert_eq!(root.sctl(&["is-enabled", "d@x"]).code, 0);
    ok(root.sctl(&["preset-all", "--preset-mode=disable-only"]));
    assert_eq!(root.sctl(&["is-enabled", "aliased"]).code, 1);
    let tree = root.tree();
    ok(root.sctl(&["preset-all"]));
    ok(root.sctl(&["preset", "a", "d@"]));
    assert_eq!(root.tree(), tree);
}

#[test]
fn a_unit_in_the_way_does_not_keep_others_from_their_presets() {
    let root = sample();
    let rival = "[Service]\nExecStart=/bin/true\n[Install]\nAlias=shared.service\nWantedBy=multi-user.target\n";
    root.write("lib/systemd/system/rival-1.service", rival);
    root.write("lib/systemd/system/rival-2.service", rival);
    root.write("etc/systemd/system-preset/00.preset", "enable rival-*\n");
    let outcome = root.sctl(&["preset-all"]);
    fails(
        outcome.clone(),
        1,
        "shared.service\" already exists and is a symlink to",
    );
    assert_eq!(
        root.sctl(&["is-enabled", "rival-1", "a"]).stdout,
        "enabled\nenabled\n"
    );
    // The loser is not half enabled.
    assert_eq!(root.sctl(&["is-enabled", "rival-2"]).stdout, "disabled\n");
    let tree = root.tree();
    assert_eq!(root.sctl(&["preset-all"]).code, 1);
    assert_eq!(root.tree(), tree);
}

#[test]
fn lists_can_be_narrowed_and_read_by_programs() {
    let root = sample();
    let all = ok(root.sctl(&["list-unit-files"]));
    assert!(all.starts_with("UNIT FILE"), "{all}");
    assert!(all.ends_with("unit files listed.\n"), "{all}");
    assert!(!all.contains('\u{1b}'), "no colours but on terminals");
    let sockets = ok(root.sctl(&["--no-legend", "-t", "socket", "list-unit-files"]));
    assert_eq!(sockets, "also.socket disabled enabled\n");
    let json = ok(root.sctl(&["list-unit-files", "-o", "json", "plain.service"]));
    assert_eq!(
        json,
        "[{\"unit_file\":\"plain.service\",\"state\":\"static\",\"preset\":null}]\n"
    );
    let pretty = ok(root.sctl(&["list-unit-files", "-o", "json-pretty", "plain.service"]));
    assert!(pretty.lines().count() > 3 && pretty.contains("\"state\": \"static\""));
    assert_eq!(root.sctl(&["list-unit-files", "--state=enabled"]).code, 1);
    fails(
        root.sctl(&["list-unit-files", "-t", "x"]),
        1,
        "Unknown unit type",
    );
    assert!(ok(root.sctl(&["list-unit-files", "--state=help"])).contains("masked-runtime"));
}

#[test]
fn files_are_printed_with_their_drop_ins() {
    let root = sample();
    let text = ok(root.sctl(&["cat", "a"]));
    let expected = "# ROOT/lib/systemd/system/a.service\n[Service]\nExecStart=/bin/true\n[Install]\n\
        WantedBy=multi-user.target\n\n# ROOT/etc/systemd/system/a.service.d/local.conf\n[Unit]\nDescription=x\n";
    assert_eq!(text, expected);
    assert!(ok(root.sctl(&["cat", "t@", "plain"])).contains("t@.service\n"));
    assert!(ok(root.sctl(&["cat", "vendor-masked"])).contains("is masked"));
    fails(
        root.sctl(&["cat", "missing"]),
        1,
        "No files found for missing.service.",
    );
}

#[test]
fn properties_of_units() {
    let root = sample();
    ok(root.sctl(&["enable", "a"]));
    let chosen = ok(root.sctl(&["show", "a", "-p", "Id,UnitFileState", "--property=WantedBy"]));
    let mut lines: Vec<&str> = chosen.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "Id=a.service",
            "UnitFileState=enabled",
            "WantedBy=multi-user.target"
        ]
    );
    let value = ok(root.sctl(&["show", "a", "-p", "Description", "--value"]));
    assert_eq!(value, "x\n");
    assert_eq!(
        ok(root.sctl(&["show", "-P", "LoadState", "a", "missing"])),
        "loaded\n\nnot-found\n"
    );
    let (some, all) = (
        ok(root.sctl(&["show", "a"])),
        ok(root.sctl(&["show", "-a", "a"])),
    );
    assert!(some.lines().count() > 100 && all.lines().count() > some.lines().count());
    fails(root.sctl(&["show", "t@"]), 1, "is a template");
    assert!(ok(root.sctl(&["show", "t@x", "-p", "Names"])).contains("t@x.service"));
}

#[test]
fn dependencies_are_drawn() {
    let root = sample();
    root.write(
        "lib/systemd/system/top.target",
        "[Unit]\nWants=mid.target leaf.service\n",
    );
    root.write(
        "lib/systemd/system/mid.target",
        "[Unit]\nRequires=deep.service top.target\nAfter=deep.service\n",
    );
    for name in ["leaf", "deep"] {
        root.write(
            &format!("lib/systemd/system/{name}.service"),
            "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/true\nSlice=-.slice\n",
        );
    }
    let lines = |words: &[&str]| -> Vec<String> {
        ok(root.sctl(words)).lines().map(str::to_owned).collect()
    };
    assert_eq!(
        lines(&["list-dependencies", "top.target"]),
        [
            "top.target",
            "  \u{251c}\u{2500}leaf.service",
            "  \u{2514}\u{2500}mid.target",
            "    \u{251c}\u{2500}deep.service",
            "    \u{2514}\u{2500}top.target",
            "      \u{2514}\u{2500}...",
        ]
    );
    assert_eq!(
        lines(&["list-dependencies", "--plain", "top.target"]),
        [
            "top.target",
            "  leaf.service",
            "  mid.target",
            "  deep.service"
        ]
    );
    let reverse = lines(&["list-dependencies", "--reverse", "deep"]);
    assert_eq!(
        reverse[..2],
        ["deep.service", "  \u{2514}\u{2500}mid.target"]
    );
    assert!(
        lines(&["list-dependencies", "--after", "mid.target"])
            .iter()
            .any(|line| line.ends_with("deep.service"))
    );
    assert!(
        lines(&["list-dependencies", "--before", "deep"])
            .iter()
            .any(|line| line.ends_with("mid.target"))
    );
    assert_eq!(lines(&["list-dependencies"])[0], "graphical.target");
    fails(
        root.sctl(&["list-dependencies", "--before", "--after", "a"]),
        1,
        "Only one of",
    );
    fails(
        Root::new().sctl(&["list-dependencies"]),
        1,
        "no default target",
    );
}

#[test]
fn wrong_command_lines_are_explained() {
    let root = sample();
    for (words, remark) in [
        (
            &["enable"][..],
            "Too few arguments.\nUsage: sctl enable [OPTIONS] <UNIT>...",
        ),
        (&["get-default", "x"], "Too many arguments."),
        (&["enabel", "a"], "Did you mean 'enable'?"),
        (&["start", "a"], "no sense together with --root"),
        (&["status"], "no sense together with --root"),
        (&["enable", "--now", "a"], "no sense together with --root"),
        (&["--user", "enable", "a"], "--user is not supported"),
        (&["enable", "--nonsense", "a"], "--nonsense"),
        (&["enable", ""], "Failed to mangle unit name ''"),
        (&["preset", "--preset-mode=x", "a"], "enable-only"),
    ] {
        fails(root.sctl(words), 1, remark);
    }
    let missing = run(
        SCTL,
        &["--root=/nonexistent", "get-default"],
        Path::new("/"),
    );
    fails(
        missing,
        1,
        "Failed to open root folder '/nonexistent': No such file or directory",
    );
}

#[test]
fn hints_follow_what_they_are_about() {
    let here = Path::new("/");
    for verb in ["timespan", "timestamp"] {
        let outcome = run(SCTL, &[verb, "daily"], here);
        fails(
            outcome.clone(),
            1,
            "Hint: this expression is a valid calendar specification.",
        );
        assert!(outcome.stderr.starts_with("Failed to parse"), "{outcome:?}");
    }
}

#[test]
fn help_is_there_for_every_verb() {
    let here = Path::new("/");
    let help = ok(run(SCTL, &["--help"], here));
    assert!(ok(run(SCTL, &["--version"], here)).starts_with("sctl "));
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() >= 22, "{verbs:?}");
    for verb in verbs {
        let text = ok(run(SCTL, &[verb, "--help"], here));
        assert!(text.contains("Usage: sctl"), "{verb}: {text}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let root = sample();
    for n in 0..2000 {
        root.write(&format!("lib/systemd/system/unit-{n}.target"), "[Unit]\n");
    }
    let mut child = Command::new(SCTL)
        .arg(format!("--root={}", root.path().display()))
        .arg("list-unit-files")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_is_told() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(SCTL)
        .args(["escape", "x"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Failed to write the output"));
}
