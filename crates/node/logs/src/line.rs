//! How an entry looks in an answer: `TIME PRIORITY UNIT NAME[PID]: MESSAGE`. Pure.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use muster_api::domain::Timestamp;

use crate::fields::Fields;

/// The fields that a line shows.
pub(crate) const SHOWN: &[&str] = &[
    "MESSAGE",
    "PRIORITY",
    "SYSLOG_IDENTIFIER",
    "_COMM",
    "_PID",
    "_SYSTEMD_UNIT",
    "UNIT",
];
const PRIORITIES: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];
/// Further lines of a message stand under its first.
const INDENT: &str = "\n    ";
/// Stands for what an entry does not say.
const UNKNOWN: &str = "-";
/// A name of a unit or program is cut here; the kernel's and the init system's are shorter.
const NAME_BYTES: usize = 256;

/// A line with its line break, at most `max` bytes of it.
pub(crate) fn render(realtime: u64, fields: &Fields, max: usize) -> String {
    let mut line = time_text(realtime);
    let priority = fields
        .text("PRIORITY")
        .and_then(|text| text.parse::<usize>().ok())
        .and_then(|number| PRIORITIES.get(number));
    let name = |name: &str| fields.text(name).map(plain);
    // Process 1 speaks of others: those are looked for.
    let unit = name("UNIT").or_else(|| name("_SYSTEMD_UNIT"));
    let program = name("SYSLOG_IDENTIFIER").or_else(|| name("_COMM"));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        " {} {} {}",
        priority.copied().unwrap_or(UNKNOWN),
        or_unknown(unit),
        or_unknown(program)
    );
    if let Some(pid) = name("_PID") {
        let _ = write!(line, "[{pid}]");
    }
    line.push_str(": ");
    if let Some(message) = fields.get("MESSAGE") {
        let end = match message.left_out {
            0 => String::new(),
            left_out => format!(" ... ({left_out} bytes more)"),
        };
        let room = max.saturating_sub(line.len() + end.len() + 1);
        push_message(&mut line, &message.bytes, room);
        line.push_str(&end);
    }
    line.truncate(line.floor_char_boundary(max.saturating_sub(1)));
    line.push('\n');
    line
}

/// Adds a message, at most `room` bytes of it.
fn push_message(line: &mut String, bytes: &[u8], room: usize) {
    let end = line.len() + room;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let escaped;
            let shown: &str = match character {
                '\n' => INDENT,
                '\t' => "\t",
                character if character.is_control() => {
                    escaped = character.escape_unicode().to_string();
                    &escaped
                }
                character => character.encode_utf8(&mut buffer),
            };
            if line.len() + shown.len() > end {
                return;
            }
            line.push_str(shown);
        }
        if !chunk.invalid().is_empty() {
            let shown = chunk.invalid().escape_ascii().to_string();
            if line.len() + shown.len() > end {
                return;
            }
            line.push_str(&shown);
        }
    }
}

/// A name without what would break the line.
fn plain(name: &str) -> String {
    let cut = &name[..name.floor_char_boundary(NAME_BYTES)];
    cut.replace(
        |character: char| character.is_control() || character == ' ',
        "_",
    )
}

/// Microseconds since 1970 as RFC 3339 in UTC.
pub(crate) fn time_text(realtime: u64) -> String {
    UNIX_EPOCH
        .checked_add(Duration::from_micros(realtime))
        .and_then(|time| Timestamp::try_from(time).ok())
        .map_or_else(|| UNKNOWN.to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::Fields;

    const TIME: u64 = 1_700_000_000_000_001;

    #[test]
    fn a_line_says_when_how_bad_who_and_what() {
        let fields = Fields::of(&[
            ("MESSAGE", "it broke\nin two"),
            ("PRIORITY", "3"),
            ("SYSLOG_IDENTIFIER", "prog"),
            ("_COMM", "other"),
            ("_PID", "12"),
            ("_SYSTEMD_UNIT", "a.service"),
        ]);
        assert_eq!(
            render(TIME, &fields, 1000),
            "2023-11-14T22:13:20.000001Z err a.service prog[12]: it broke\n    in two\n"
        );
        assert_eq!(
            render(TIME, &Fields::default(), 1000),
            "2023-11-14T22:13:20.000001Z - - -: \n"
        );
        assert!(render(u64::MAX, &fields, 1000).starts_with("- err "));
    }

    #[test]
    fn nothing_in_a_line_acts_on_a_terminal() {
        let fields = Fields::of(&[
            ("MESSAGE", "a\u{1b}[2J\0\r"),
            ("SYSLOG_IDENTIFIER", "x\ny z"),
        ]);
        assert!(render(TIME, &fields, 1000).ends_with(" - - x_y_z: a\\u{1b}[2J\\u{0}\\u{d}\n"));
    }

    proptest! {
        #[test]
        fn a_line_is_one_and_bounded(message: Vec<u8>, name in ".{0,20}", max in 200_usize..400) {
            let mut fields = Fields::default();
            fields.insert("MESSAGE", &message);
            fields.insert("SYSLOG_IDENTIFIER", name.as_bytes());
            let line = render(TIME, &fields, max);
            prop_assert!(line.len() <= max);
            prop_assert!(line.ends_with('\n'));
            // Every further line is indented, so nobody can write an entry of somebody else.
            prop_assert!(line.trim_end_matches('\n').split('\n').skip(1).all(|rest| rest.starts_with("    ")));
            prop_assert!(!line.trim_end_matches('\n').chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
