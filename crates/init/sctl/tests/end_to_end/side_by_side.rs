//! The same command lines for `sctl` and for the real tools, on equal roots.
//!
//! `commands.txt` has the command lines: a line in brackets starts a scenario with fresh
//! roots, in which the commands build on each other. What they print and leave behind must be equal
//! but for `accepted-differences.txt`; a difference that is listed there and no longer
//! exists is an error as well.

use std::collections::BTreeMap;

use crate::common::{Outcome, Root, SCTL, have_real_tools, run, run_in_zone, sample};

const COMMANDS: &str = include_str!("commands.txt");
const ACCEPTED: &str = include_str!("accepted-differences.txt");

/// Words of a command line; single quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in line.split('\'').enumerate() {
        if n % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Lines in no particular order: the real tools follow the order of folders on disk.
fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// After a wrong command line sctl also says what a right one looks like.
fn without_usage(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with("Usage: "))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// How the real tools call themselves in hints.
fn without_program(text: &str) -> String {
    text.replace("systemd-analyze ", "sctl ")
        .replace("systemd-escape", "sctl escape")
        .replace("using systemctl", "using sctl")
}

/// Which real tool has a verb, and how it is called there.
fn real(root: &Root, words: &[String], zone: &str) -> Outcome {
    let verb = words.iter().find(|word| !word.starts_with('-'));
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    match verb.map(String::as_str) {
        Some("calendar" | "timespan" | "timestamp") => {
            run_in_zone("systemd-analyze", &all, root.path(), zone)
        }
        Some("escape") => run("systemd-escape", &all[1..], root.path()),
        _ => {
            let folder = format!("--root={}", root.path().display());
            let mut with_root = vec![folder.as_str()];
            with_root.extend(all);
            root.hide(run("systemctl", &with_root, root.path()))
        }
    }
}

fn ours(root: &Root, words: &[String], zone: &str) -> Outcome {
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let verb = words.iter().find(|word| !word.starts_with('-'));
    match verb.map(String::as_str) {
        Some("calendar" | "timespan" | "timestamp" | "escape") => {
            run_in_zone(SCTL, &all, root.path(), zone)
        }
        _ => root.sctl(&all),
    }
}

/// Moments that have passed while the second program was started.
fn without_distance(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains("From now:"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn differences(real: &Outcome, ours: &Outcome) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if real.code != ours.code {
        found.push(("exit", format!("{} became {}", real.code, ours.code)));
    }
    let (a, b) = (
        without_distance(&real.stdout),
        without_distance(&ours.stdout),
    );
    if a != b {
        found.push(("stdout", format!("\n{a}--- became\n{b}---")));
    }
    let a = sorted_lines(&without_program(&real.stderr));
    let b = sorted_lines(&without_usage(&ours.stderr));
    if a != b {
        found.push(("stderr", format!("\n{a}\n--- became\n{b}\n---")));
    }
    found
}

/// Accepted differences: command line and field, to reason.
fn accepted() -> BTreeMap<(String, String), String> {
    ACCEPTED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
            let [command, field, reason] = parts[..] else {
                panic!("{line:?} is not `command | field | reason`");
            };
            assert!(!reason.is_empty(), "{line:?} gives no reason");
            ((command.to_owned(), field.to_owned()), reason.to_owned())
        })
        .collect()
}

#[test]
fn same_answers_as_the_real_tools() {
    if !have_real_tools() {
        println!("same_answers_as_the_real_tools: skipped, systemd 252's tools are not installed");
        return;
    }
    let accepted = accepted();
    let mut used = std::collections::BTreeSet::new();
    let (mut failures, mut compared) = (Vec::new(), 0);
    let mut scenario = "";
    let mut roots = (sample(), sample());
    for line in COMMANDS.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            scenario = line;
            roots = (sample(), sample());
            if line.contains("dangling") {
                for root in [&roots.0, &roots.1] {
                    root.link("lib/systemd/system/dangling.service", "gone.service");
                }
            }
            continue;
        }
        compared += 1;
        let words = words(line);
        let zone = if scenario.contains("Berlin") {
            "Europe/Berlin"
        } else {
            "UTC"
        };
        let mut found = differences(&real(&roots.0, &words, zone), &ours(&roots.1, &words, zone));
        let (a, b) = (roots.0.tree(), roots.1.tree());
        if a != b {
            let missing: Vec<_> = a.iter().filter(|(k, v)| b.get(*k) != Some(v)).collect();
            let extra: Vec<_> = b.iter().filter(|(k, v)| a.get(*k) != Some(v)).collect();
            found.push((
                "tree",
                format!("\n  missing {missing:?}\n  extra {extra:?}"),
            ));
            // One difference is reported once: what follows starts from the same again.
            roots.1.copy_changes_of(&roots.0);
        }
        for (field, text) in found {
            let key = [line.to_owned(), format!("{scenario} {line}")]
                .map(|line| (line, field.to_owned()))
                .into_iter()
                .find(|key| accepted.contains_key(key));
            if let Some(key) = key {
                used.insert(key);
            } else {
                failures.push(format!("{scenario} {line}: {field}: {text}"));
            }
        }
    }
    for key in accepted.keys().filter(|key| !used.contains(*key)) {
        failures.push(format!(
            "{} | {}: listed, but there is no difference",
            key.0, key.1
        ));
    }
    assert!(compared >= 60, "only {compared} command lines");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
    println!(
        "{compared} command lines compared, {} accepted differences",
        used.len()
    );
}
