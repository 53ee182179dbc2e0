//! Side by side with the systemd tools of the machine. Where they are missing each test says so and
//! passes.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::calendar::CalendarSpec;
use muster_unit_file::config::LoadState;
use muster_unit_file::diagnostic::Problem;
use muster_unit_file::fs::RealFs;
use muster_unit_file::install::{Change, InstallOptions, InstallPaths, Installer, PresetMode};
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType, escape, escape_path};
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::timespan::TimeSpan;

/// The tool's output, if the machine has systemd 252.
fn tool(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let version = Command::new("systemctl").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).starts_with("systemd 252") {
        return None;
    }
    let output = Command::new(program)
        .args(arguments)
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .env("SYSTEMD_LOG_LEVEL", "info")
        .output()
        .ok()?;
    Some((
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    ))
}

macro_rules! tool_or_skip {
    ($program:literal, $arguments:expr) => {
        match tool($program, $arguments) {
            Some(answer) => answer,
            None => {
                println!(
                    "skipped: {} of systemd 252 is not on this machine",
                    $program
                );
                return;
            }
        }
    };
}

#[test]
fn calendar_expressions_elapse_as_systemd_analyze_says() {
    let expressions = [
        "Mon..Fri 9,17:30",
        "*-*~1",
        "*-*~3/1 12:00",
        "Sat,Sun *-1/3-1..7 18:00",
        "*:0/7:0/13",
        "quarterly",
        "*-2-29",
        "2027..2030-*-1 Europe/Berlin",
        "*-*-* 2:30 Europe/Berlin",
        "*:30 America/St_Johns",
        "*-3~1 Asia/Kolkata",
        "Fri *-*-13",
        "*-*-1,11..15/2,31 5:5",
        "12..14/2:00",
        "*:*:59.5",
        "mon",
        "tue..",
        "1-1-1-1",
        "*-0-1",
        "*:60",
        "*-*-31",
        "24:00",
        "weekly UTC",
        "@1893456000",
        "10:00:00.1234567",
        "*~*",
        "*-1..3~2",
        "2026-2-*",
        "Mon Tue",
        "*-*-* *:*:*",
        "70-1-1",
        "00-1-1",
        "hourly America/New_York",
        "*-10-25 2:15 Europe/Paris",
    ];
    for expression in expressions {
        let arguments = [
            "calendar",
            "--base-time=2026-01-01 00:00:00 UTC",
            "--iterations=8",
            expression,
        ];
        let (valid, output) = tool_or_skip!("systemd-analyze", &arguments);
        let parsed = CalendarSpec::parse(expression);
        assert_eq!(parsed.is_ok(), valid, "{expression}: {output}");
        let Ok(spec) = parsed else { continue };
        let mut at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for line in output.lines() {
            let Some((label, value)) = line.trim().split_once(": ") else {
                continue;
            };
            if label == "Normalized form" {
                assert_eq!(spec.to_string(), value, "{expression}");
            } else if label == "Next elapse" || label.starts_with("Iter.") {
                let next = spec.next_elapse(at, &TimeZone::UTC);
                let shown = next.map(|next| {
                    muster_unit_file::timestamp::format_timestamp(next, &TimeZone::UTC)
                });
                assert_eq!(shown.as_deref().unwrap_or("never"), value, "{expression}");
                at = next.unwrap_or(at);
            }
        }
    }
}

#[test]
fn time_spans_are_what_systemd_analyze_says() {
    for text in [
        "5",
        "1.5h",
        "1y 3w",
        "2 h 5 min",
        "3M",
        "3m",
        "7us",
        "0.5ms",
        "1.234567s",
        "infinity",
        "x",
        "5 x",
        "1.5.5",
        "+3",
        "99y",
        "59.9s",
    ] {
        let (valid, output) = tool_or_skip!("systemd-analyze", &["timespan", text]);
        let parsed = TimeSpan::parse(text);
        assert_eq!(parsed.is_ok(), valid, "{text}: {output}");
        let Ok(span) = parsed else { continue };
        let human = output
            .lines()
            .find_map(|line| line.trim().strip_prefix("Human: ").map(str::to_owned))
            .unwrap();
        assert_eq!(span.to_string(), human, "{text}");
    }
}

#[test]
fn names_are_escaped_as_systemd_escape_does() {
    for text in ["a/b", "a-b", ".x", "a b", "\u{e9}:_.", "/", "x\\y", "--"] {
        let (valid, output) = tool_or_skip!("systemd-escape", &["--", text]);
        assert!(valid);
        assert_eq!(escape(text), output.trim_end(), "{text}");
    }
    for path in ["/", "/a//b/", "/.a", "/home/u-1/./x", "/a/../b"] {
        let (valid, output) = tool_or_skip!("systemd-escape", &["--path", "--", path]);
        let escaped = escape_path(path);
        assert_eq!(escaped.is_ok(), valid, "{path}");
        assert_eq!(escaped.unwrap_or_default(), output.trim_end(), "{path}");
    }
    for text in ["x", "x.socket", "/dev/sda", "/srv", "a b", "t@i"] {
        let (_, output) = tool_or_skip!("systemd-escape", &["--mangle", "--", text]);
        assert_eq!(
            UnitName::mangle(text, UnitType::Service).unwrap().as_str(),
            output.trim_end(),
            "{text}"
        );
    }
}

const UNITS: &[(&str, &str)] = &[
    (
        "a.service",
        "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\nAlias=b.service\nAlso=c.socket\n",
    ),
    (
        "c.socket",
        "[Socket]\nListenStream=1\n[Install]\nWantedBy=sockets.target\nRequiredBy=x.target\n",
    ),
    (
        "g@.service",
        "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=getty.target\nDefaultInstance=tty1\n",
    ),
    (
        "n@.service",
        "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n",
    ),
    ("static.service", "[Service]\nExecStart=/bin/a\n"),
    (
        "ind.service",
        "[Service]\nExecStart=/bin/a\n[Install]\nAlso=a.service\n",
    ),
    (
        "spec@.service",
        "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=%i.target\nAlias=other@.service\n",
    ),
    ("multi-user.target", "[Unit]\n"),
    ("graphical.target", "[Unit]\n"),
];

fn make_root(root: &Path) {
    for folder in [
        "etc/systemd/system",
        "run/systemd/system",
        "opt",
        "usr/lib/systemd/system-preset",
    ] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let units = root.join("usr/lib/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    for (name, content) in UNITS {
        std::fs::write(units.join(name), content).unwrap();
    }
    std::fs::write(
        root.join("opt/l.service"),
        UNITS[0].1.replace("Alias=b.service\nAlso=c.socket\n", ""),
    )
    .unwrap();
    std::fs::write(
        root.join("usr/lib/systemd/system-preset/90.preset"),
        "enable a.service\nenable n@.service i j\ndisable *\n",
    )
    .unwrap();
}

/// Every link below the folders that systemctl changes.
fn links(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![
        root.join("etc/systemd/system"),
        root.join("run/systemd/system"),
    ];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                todo.push(path);
            } else if let Ok(target) = std::fs::read_link(&path) {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.insert(name, target.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn carry_out(root: &Path, changes: &[Change]) {
    let real = |path: &str| root.join(path.trim_start_matches('/'));
    for change in changes {
        match change {
            Change::Link { path, target } => {
                std::fs::create_dir_all(real(path).parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(&**target, real(path)).unwrap();
            }
            Change::Remove { path } => std::fs::remove_file(real(path)).unwrap(),
            Change::RemoveFolder { path } => std::fs::remove_dir_all(real(path)).unwrap(),
        }
    }
}

/// Runs one systemctl command line through the installer; `Err` where systemctl fails.
fn run_ours(root: &Path, line: &str) -> Result<String, String> {
    let fs = RealFs::with_root(root);
    let mut installer = Installer::new(&fs, InstallPaths::default(), HostFacts::default());
    let mut options = InstallOptions::default();
    let mut words = Vec::new();
    for word in line.split(' ') {
        match word {
            "--runtime" => options.runtime = true,
            "--force" => options.force = true,
            _ => words.push(word),
        }
    }
    let verb = words.remove(0);
    let names: Vec<UnitName> = words
        .iter()
        .filter_map(|word| UnitName::mangle(word, UnitType::Service).ok())
        .collect();
    if verb == "is-enabled" {
        let state = installer.state(&names[0]);
        return state
            .map(|state| format!("{state}\n"))
            .ok_or_else(|| "not found".to_owned());
    }
    let plan = match verb {
        "enable" => installer.enable(&names, options),
        "disable" => installer.disable(&names, options),
        "reenable" => installer.reenable(&names, options),
        "mask" => installer.mask(&names, options),
        "unmask" => installer.unmask(&names, options),
        "link" => installer.link_files(&words, options),
        "revert" => installer.revert(&names),
        "preset" => installer.preset(&names, PresetMode::Full, options),
        "preset-all" => installer.preset_all(PresetMode::Full, options),
        "add-wants" => installer.add_dependency(&names[0], &names[1..], false, options),
        "add-requires" => installer.add_dependency(&names[0], &names[1..], true, options),
        "set-default" => installer.set_default(&names[0]),
        "get-default" => {
            return installer
                .default_target()
                .map(|name| format!("{name}\n"))
                .map_err(|e| e.to_string());
        }
        _ => panic!("unknown verb {verb}"),
    };
    let plan = plan.map_err(|error| error.to_string())?;
    carry_out(root, &plan.changes);
    Ok(String::new())
}

#[test]
fn links_are_made_and_removed_as_systemctl_does() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_root(ours.path());
    make_root(theirs.path());
    let root = format!("--root={}", theirs.path().display());
    let script = "\
        enable a\nenable a\nis-enabled a\nis-enabled b\nis-enabled c.socket\nis-enabled static\nis-enabled ind\n\
        is-enabled g@.service\nis-enabled n@.service\nis-enabled nothing\nenable b\ndisable a\nis-enabled a\n\
        enable g@.service\nis-enabled g@.service\nis-enabled g@tty1\nis-enabled g@tty2\nenable n@.service\n\
        enable n@x\nis-enabled n@x\nis-enabled n@.service\nis-enabled n@y\ndisable n@x\ndisable g@.service\n\
        enable static\nenable ind\nis-enabled ind\nis-enabled a\ndisable ind\nis-enabled a\n\
        mask a\nenable a\nis-enabled a\nunmask a\nunmask a\n--runtime mask a\nis-enabled a\n--runtime unmask a\n\
        --runtime enable a\nis-enabled a\n--runtime disable a\nadd-wants multi-user.target static\nis-enabled static\n\
        disable static\nset-default graphical.target\nget-default\nset-default multi-user.target\nget-default\n\
        preset a c.socket\npreset n@.service\nis-enabled n@i\npreset-all\nis-enabled a\nreenable a\ndisable a\n\
        link /opt/l.service\nis-enabled l\nenable l\nis-enabled l\ndisable l\nis-enabled l\nenable nothing\n\
        add-requires multi-user.target a\nis-enabled a\nmask static\nrevert static\nis-enabled static\n\
        enable spec@q\nis-enabled spec@q\nis-enabled other@q\ndisable spec@q\nenable a g@.service n@z\ndisable a n@z";
    for line in script.lines().map(str::trim) {
        let mut arguments: Vec<&str> = vec![&root];
        arguments.extend(line.split(' '));
        let (success, output) = tool_or_skip!("systemctl", &arguments);
        let answer = run_ours(ours.path(), line);
        if line.starts_with("is-enabled") || line.starts_with("get-default") {
            assert_eq!(answer.unwrap_or_default(), output, "{line}");
        } else {
            assert_eq!(answer.is_ok(), success, "{line}: {answer:?}");
        }
        assert_eq!(links(ours.path()), links(theirs.path()), "after {line}");
    }
}

#[test]
fn the_units_of_this_machine_load() {
    let host = HostFacts {
        hostname: Some("h".into()),
        boot_id: Some("0".repeat(32).into()),
        machine_id: Some("0".repeat(32).into()),
        kernel_release: Some("6".into()),
        architecture: Some("x86-64".into()),
        ..HostFacts::default()
    };
    let mut loader = Loader::new(RealFs::host(), SearchPath::system(), host);
    let names: Vec<UnitName> = loader.index().names().cloned().collect();
    if names.is_empty() {
        println!("skipped: this machine has no unit files");
        return;
    }
    for name in names {
        let name = name.with_instance("x").unwrap_or(name);
        let loaded = loader.load(&name);
        let unknown: Vec<_> = loaded
            .diagnostics
            .iter()
            .filter(|d| d.problem == Problem::Syntax)
            .map(ToString::to_string)
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "{name}");
        assert!(
            loader.load_if_changed(&name, loaded.fingerprint).is_none(),
            "{name} did not change"
        );
        let usable = matches!(
            loaded.config.load_state,
            LoadState::Loaded | LoadState::Masked
        );
        assert!(usable, "{name}: {:?}", loaded.diagnostics);
    }
}
