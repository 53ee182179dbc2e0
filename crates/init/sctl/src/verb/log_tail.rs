//! The last lines of a unit's log, for `status` and for jobs that failed.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use muster_journal::{Journal, Matches};

use super::logs::{Record, Shape, folders, matches_of_run};
use crate::cli::LogFormat;
use crate::manager::{Manager, remote_command};
use crate::render::Style;

/// Reads the end of logs. What cannot be read is left out: it is an addition to the answer, not the answer.
pub(super) struct LogTail {
    place: Place,
}

enum Place {
    Here(Vec<PathBuf>),
    /// On another machine.
    Host(String),
}

impl LogTail {
    /// The log of the machine that the manager is on.
    pub(super) fn new(manager: &mut Manager) -> Self {
        let place = match manager.host() {
            Some(host) => Place::Host(host.to_owned()),
            None => Place::Here(folders(manager)),
        };
        Self { place }
    }

    /// The last lines of and about a run of a unit; of any run if there is none.
    pub(super) fn of_run(&self, unit: &str, invocation: &str, lines: usize) -> Vec<String> {
        if lines == 0 {
            return Vec::new();
        }
        match &self.place {
            Place::Here(folders) => {
                last(folders, matches_of_run(unit, invocation), lines).unwrap_or_default()
            }
            Place::Host(host) => from_host(host, unit, lines).unwrap_or_default(),
        }
    }
}

fn last(folders: &[PathBuf], matches: Matches, lines: usize) -> Option<Vec<String>> {
    let folders: Vec<&std::path::Path> = folders.iter().map(PathBuf::as_path).collect();
    let mut journal = Journal::open_dirs(&folders).ok()?;
    journal.set_matches(matches);
    journal.seek_tail().ok()?;
    let shape = Shape {
        format: LogFormat::Short,
        zone: TimeZone::system(),
        hostname: true,
        all: false,
        fields: Vec::new(),
        style: Style::default(),
    };
    let mut found = Vec::new();
    while found.len() < lines {
        let Ok(Some(entry)) = journal.previous_entry() else {
            break;
        };
        let mut text = Vec::new();
        shape.print(&Record::of(&entry), &mut text);
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        if !text.is_empty() {
            found.push(text);
        }
    }
    found.reverse();
    Some(found)
}

fn from_host(host: &str, unit: &str, lines: usize) -> Option<Vec<String>> {
    let count = lines.to_string();
    let words = ["sctl", "logs", "--quiet", "--unit", unit, "--lines", &count];
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let output = remote_command(host, &words).ok()?.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().map(str::to_owned).collect())
}
