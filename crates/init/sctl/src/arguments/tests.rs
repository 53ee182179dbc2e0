use clap::CommandFactory;
use proptest::prelude::*;

use super::*;
use crate::cli::Cli;

fn arranged(line: &str) -> Result<String, ArgumentError> {
    let words = line.split_whitespace().map(str::to_owned).collect();
    arrange(&Cli::command(), words).map(|words| words.join(" "))
}

#[test]
fn the_verb_comes_first() {
    for (given, expected) in [
        ("enable a", "enable a"),
        ("--root=/x enable a", "enable --root=/x a"),
        ("--root /x enable a", "enable --root /x a"),
        ("-q enable --runtime a -f", "enable -q --runtime a -f"),
        ("-qf enable a", "enable -q -f a"),
        ("-p Id show a", "show -p Id a"),
        ("-pId show a", "show -pId a"),
        ("-t socket list-unit-files", "list-unit-files -t socket"),
        ("escape -p a", "escape -p a"),
        ("-H box --no-block start a", "start -H box --no-block a"),
        (
            "--socket=/x -t service list-units",
            "list-units --socket=/x -t service",
        ),
        ("run -t --unit=u ls -l --all", "run -t --unit=u ls -l --all"),
        ("run ls --no-pager", "run ls --no-pager"),
        ("--no-pager analyze blame", "analyze blame"),
        (
            "analyze --fuzz 1s critical-chain a",
            "analyze critical-chain --fuzz 1s a",
        ),
        ("-H box analyze", "analyze -H box"),
        (
            "analyze calendar --iterations 3 daily",
            "analyze calendar --iterations 3 daily",
        ),
        ("logs -u a -f", "logs -u a -f"),
        ("logs -b -1 -n 5", "logs --boot=-1 -n 5"),
        ("logs -b -u a", "logs --boot -u a"),
        ("escape -up a", "escape -u -p a"),
        ("timespan -- -1", "timespan -- -1"),
        ("--help", "--help"),
        ("-h", "-h"),
        ("--version", "--version"),
        ("", ""),
    ] {
        assert_eq!(arranged(given).as_deref(), Ok(expected), "{given}");
    }
}

#[test]
fn options_without_a_meaning_for_the_verb_are_dropped() {
    for (given, expected) in [
        ("--no-pager enable a", "enable a"),
        ("enable a --no-ask-password -l", "enable a"),
        ("-n 5 --job-mode fail enable a", "enable a"),
        ("list-units --runtime", "list-units"),
        ("is-enabled --runtime -f a", "is-enabled a"),
        ("is-enabled --preset-mode enable-only a", "is-enabled a"),
        ("calendar --root=/x daily", "calendar daily"),
        // Beginnings of names count like the names, as getopt has it.
        ("enable --no-pag a", "enable a"),
        ("enable --nonsense a", "enable --nonsense a"),
        ("enable -Z a", "enable -Z a"),
    ] {
        assert_eq!(arranged(given).as_deref(), Ok(expected), "{given}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in ["--user enable a", "enable -M box a", "enable --image=x a"] {
        let error = arranged(line).unwrap_err();
        assert!(matches!(error, ArgumentError::Refused { .. }), "{line}");
    }
    assert_eq!(
        arranged("suspend"),
        Err(ArgumentError::Absent { verb: "suspend" })
    );
    for line in [
        "--root=/x start a",
        "stop --root /x a",
        "--root=/x analyze blame",
    ] {
        let error = arranged(line).unwrap_err();
        assert!(matches!(error, ArgumentError::Root { .. }), "{line}");
    }
    let message = |line: &str| arranged(line).unwrap_err().to_string();
    assert_eq!(
        message("enabel a"),
        "Unknown command verb enabel. Did you mean 'enable'?"
    );
    assert_eq!(message("xyzzy"), "Unknown command verb xyzzy.");
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

proptest! {
    /// Whatever is typed: no panic, and words after `--` stay as they are.
    #[test]
    fn any_words_are_taken(words in prop::collection::vec("[a-z=-]{0,6}|--|enable|--root|-p|\u{e9}-\u{e9}", 0..6)) {
        let _ = arrange(&Cli::command(), words.clone());
        let mut line = vec!["enable".to_owned(), "--".to_owned()];
        line.extend(words);
        prop_assert_eq!(arrange(&Cli::command(), line.clone()), Ok(line));
    }
}
