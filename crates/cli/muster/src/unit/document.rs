//! The document that `apply` takes: read, checked here, and every mistake shown where it is.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_config::{ConfigError, Format, Limits, Problem};
use muster_control_api::v1::DocumentFormat;
use muster_desired::DesiredStatus;

use super::UnitCommandError;
use crate::console::{Console, Paint, Tone};
use crate::text::shown;

/// A document that makes sense by itself.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) bytes: Vec<u8>,
    pub(super) format: DocumentFormat,
    /// Absolute, because paths in the document are relative to it.
    pub(super) name: String,
}

/// Reads and checks a document; `-` is standard input.
pub(super) fn read(file: &Path, console: &mut Console) -> Result<Checked, UnitCommandError> {
    let limits = Limits::default();
    let standard_input = file == Path::new("-");
    let bytes = match standard_input {
        true => bounded(io::stdin().lock(), &limits),
        false => fs::File::open(file).and_then(|it| bounded(it, &limits)),
    };
    let bytes = bytes.map_err(|source| UnitCommandError::ReadDocument {
        path: file.to_owned(),
        source,
    })?;
    let format = match Format::of(file) {
        Some(Format::Toml) => return Err(UnitCommandError::DocumentFormat(file.to_owned())),
        Some(format) => format,
        None => guess(&bytes),
    };
    let path = match standard_input {
        true => PathBuf::from("standard-input"),
        false => file.to_owned(),
    };
    let absolute = std::path::absolute(&path).unwrap_or(path);
    let name = absolute.to_string_lossy().into_owned();
    match DesiredStatus::read(&name, format, &bytes, limits) {
        Ok(_) => Ok(Checked {
            bytes,
            format: match format {
                Format::Json => DocumentFormat::Json,
                _ => DocumentFormat::Yaml,
            },
            name,
        }),
        Err(ConfigError::Invalid { problems, .. }) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            for problem in &problems {
                console.note(explain(file, &lines, problem, console.error_paint()));
            }
            Err(UnitCommandError::Document {
                path: file.to_owned(),
                problems: problems.len(),
            })
        }
        // The document was handed over, so there is no file to fail at.
        Err(ConfigError::ReadFile { source, .. } | ConfigError::ListDropIns { source, .. }) => {
            Err(UnitCommandError::ReadDocument {
                path: file.to_owned(),
                source,
            })
        }
    }
}

/// One byte more than is allowed is enough to be refused.
fn bounded(source: impl io::Read, limits: &Limits) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limits.file_bytes).unwrap_or(u64::MAX);
    source
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Without a name that tells: JSON begins with a brace.
fn guess(bytes: &[u8]) -> Format {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'{') => Format::Json,
        _ => Format::Yaml,
    }
}

/// A mistake with its place, the line it is in, and a mark below.
fn explain(file: &Path, lines: &[&str], problem: &Problem, paint: Paint) -> String {
    let key = match problem.key.as_str() {
        "" => String::new(),
        key => format!("{}: ", shown(key)),
    };
    let file = file.display();
    let number = problem.origin.line.and_then(|it| usize::try_from(it).ok());
    let found = number.and_then(|number| Some((number, *lines.get(number.checked_sub(1)?)?)));
    let error = paint.tone(Tone::Bad, "error");
    let message = shown(&problem.message);
    // The column stands before it, where there is a line.
    let words = match stopped_at(&message) {
        Some((_, words)) => words,
        None => message.as_str(),
    };
    let Some((number, line)) = found else {
        return format!("{file}: {error}: {key}{message}");
    };
    let (column, length) = place(line, &problem.key, &problem.message);
    let gutter = " ".repeat(number.to_string().len());
    let before = " ".repeat(column - 1);
    let mark = paint.tone(Tone::Bad, &"^".repeat(length));
    format!(
        "{file}:{number}:{column}: {error}: {key}{words}\n {gutter} |\n {number} | {}\n {gutter} | {before}{mark}",
        shown(line).trim_end()
    )
}

/// The column, from 1, and the length of what is meant in a line: where the parser stopped, else the value of the key, else
/// the key, else everything.
fn place(line: &str, key: &str, message: &str) -> (usize, usize) {
    let width = line.chars().count();
    if let Some((column, _)) = stopped_at(message) {
        return (column.clamp(1, width + 1), 1);
    }
    let word = key.rsplit('.').next().unwrap_or_default();
    let word = word.split('[').next().unwrap_or_default();
    if let Some((at, after)) = key_in(line, word) {
        let value = value_in(&line[after..]);
        // Of a key that nobody knows, the value is not what is wrong.
        if value.is_empty() || message.starts_with("unknown key") {
            return (column_of(line, at), word.chars().count());
        }
        let start = line.len() - line[after..].trim_start().len();
        return (column_of(line, start), value.chars().count());
    }
    let text = line.trim_start().trim_start_matches("- ").trim_start();
    let start = line.len() - text.len();
    (
        column_of(line, start),
        text.trim_end().chars().count().max(1),
    )
}

/// Where a parser stopped, if a message begins with that, and the rest of the message.
fn stopped_at(message: &str) -> Option<(usize, &str)> {
    let (column, words) = message.strip_prefix("column ")?.split_once(": ")?;
    Some((column.parse().ok()?, words))
}

/// The value at the beginning of a text: a list or a table up to its end, anything else up to the next one or a remark.
fn value_in(text: &str) -> &str {
    let text = text.trim_start();
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' if depth > 1 => depth -= 1,
            ']' | '}' if depth == 1 => return &text[..=at],
            ',' | ']' | '}' | '#' if depth == 0 => return text[..at].trim_end(),
            _ => {}
        }
    }
    text.trim_end()
}

fn column_of(line: &str, at: usize) -> usize {
    line[..at].chars().count() + 1
}

/// Where a key stands in a line, and where what follows its colon begins.
fn key_in(line: &str, word: &str) -> Option<(usize, usize)> {
    if word.is_empty() {
        return None;
    }
    // Keys are the same in upper and lower case; letters of keys are ASCII.
    let lower = line.to_ascii_lowercase();
    let wanted = word.to_ascii_lowercase();
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == '-';
    lower.match_indices(&wanted).find_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = line[at + wanted.len()..].trim_start_matches(['"', '\'']);
        let colon = rest.trim_start().strip_prefix(':')?;
        let alone = before.is_none_or(|it| !is_part(it));
        alone.then(|| (at, line.len() - colon.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_below_what_is_meant() {
        for (line, key, message, marked) in [
            ("  version: ''", "items[0].version", "", "''"),
            ("- id: a/b # no", "items[0].id", "", "a/b"),
            ("- {item: web, count: -2}", "instances[0].count", "", "-2"),
            ("  \"Count\" : 7, ", "instances[0].count", "", "7"),
            ("  image:", "items[0].image", "", "image"),
            ("- web", "items[0]", "", "web"),
            ("  version: [1] # no", "items[0].version", "", "[1]"),
            (
                "  verion: 1",
                "items[0].verion",
                "unknown key (value `1`)",
                "verion",
            ),
            ("  - gpu", "instances[0].labels[0]", "", "gpu"),
            ("naïve: {id: x}", "naïve.id", "", "x"),
            (
                "a: b: c",
                "",
                "column 5: mapping values are not allowed",
                ":",
            ),
        ] {
            let (column, length) = place(line, key, message);
            let at: String = line.chars().skip(column - 1).take(length).collect();
            assert_eq!(at, marked, "{line}");
        }
        assert_eq!(place("", "x", "column 9: y"), (1, 1));
        assert_eq!(place("", "x", "y"), (1, 1));
    }
}
