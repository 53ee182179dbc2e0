//! The lines of one unit and how values are written.

use std::fmt::Display;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::timestamp::format_timestamp;

/// What a number that stands for "none" is printed as.
pub(super) const NOT_SET: &str = "[not set]";
pub(super) const INFINITY: &str = "infinity";

/// The properties of one unit in their order. A property with several rows has several lines.
#[derive(Debug)]
pub(super) struct Sheet<'z> {
    pub(super) lines: Vec<(&'static str, String)>,
    all: bool,
    zone: &'z TimeZone,
}

impl<'z> Sheet<'z> {
    pub(super) fn new(all: bool, zone: &'z TimeZone) -> Self {
        Self {
            lines: Vec::with_capacity(if all { 420 } else { 300 }),
            all,
            zone,
        }
    }

    /// A value that systemctl has no format for.
    pub(super) fn unprintable(&mut self, name: &'static str) {
        if self.all {
            self.lines.push((name, "[unprintable]".to_owned()));
        }
    }

    /// A number that is hidden rather than printed as not set.
    pub(super) fn number(&mut self, name: &'static str, value: Option<impl Display>) {
        if self.all || value.is_some() {
            self.number_or(name, value, NOT_SET);
        }
    }

    /// Names that are allowed or, with `~`, denied. To allow nothing is something too.
    pub(super) fn filter(&mut self, name: &'static str, allow: Option<bool>, names: &str) {
        let allow = allow.unwrap_or(false);
        if self.all || allow || !names.is_empty() {
            let mark = if allow { "" } else { "~" };
            self.lines.push((name, format!("{mark}{names}")));
        }
    }

    /// A text; an empty one is hidden.
    pub(super) fn text(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if self.all || !value.is_empty() {
            self.lines.push((name, value));
        }
    }

    /// A text that may be missing.
    pub(super) fn optional(&mut self, name: &'static str, value: Option<impl Display>) {
        self.text(name, value.map(|v| v.to_string()).unwrap_or_default());
    }

    pub(super) fn shown(&mut self, name: &'static str, value: impl Display) {
        self.text(name, value.to_string());
    }

    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        self.text(name, if value { "yes" } else { "no" });
    }

    /// Words, quoted where a shell would need it.
    pub(super) fn list<S: AsRef<str>>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = S>,
    ) {
        let mut text = String::new();
        for value in values {
            if !text.is_empty() {
                text.push(' ');
            }
            push_quoted(&mut text, value.as_ref());
        }
        self.text(name, text);
    }

    /// One line per row; none without rows.
    pub(super) fn rows(&mut self, name: &'static str, rows: impl IntoIterator<Item = String>) {
        self.lines.extend(rows.into_iter().map(|row| (name, row)));
    }

    pub(super) fn span(&mut self, name: &'static str, value: TimeSpan) {
        self.shown(name, value);
    }

    /// A number with a word for its absence.
    pub(super) fn number_or(
        &mut self,
        name: &'static str,
        value: Option<impl Display>,
        absent: &str,
    ) {
        self.text(
            name,
            value.map_or_else(|| absent.to_owned(), |v| v.to_string()),
        );
    }

    /// A number that is shown only when it is known.
    pub(super) fn moment(&mut self, name: &'static str, micros: u64) {
        let text = self.format_moment(micros).unwrap_or_default();
        self.text(name, text);
    }

    pub(super) fn format_moment(&self, micros: u64) -> Option<String> {
        let micros = i64::try_from(micros).ok().filter(|micros| *micros > 0)?;
        let moment = Timestamp::from_microsecond(micros).ok()?;
        Some(format_timestamp(moment, self.zone))
    }
}

/// A word as a shell would have to be given it.
fn push_quoted(out: &mut String, word: &str) {
    const ESCAPED: &str = "\"\\`$";
    const QUOTED: &str = "*?['()<>|&;!";
    let quote = word.is_empty()
        || word
            .chars()
            .any(|c| c.is_ascii_whitespace() || ESCAPED.contains(c) || QUOTED.contains(c));
    if !quote {
        out.push_str(word);
        return;
    }
    out.push('"');
    for c in word.chars() {
        if ESCAPED.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let zone = TimeZone::UTC;
        let mut sheet = Sheet::new(false, &zone);
        sheet.list("A", ["plain", "two words", "HOST=*", "P=$HOME", r"a\x2db"]);
        assert_eq!(
            sheet.lines[0].1,
            r#"plain "two words" "HOST=*" "P=\$HOME" "a\\x2db""#
        );
    }

    #[test]
    fn what_is_empty_is_hidden_unless_everything_is_asked_for() {
        let zone = TimeZone::UTC;
        let mut some = Sheet::new(false, &zone);
        let mut all = Sheet::new(true, &zone);
        for sheet in [&mut some, &mut all] {
            sheet.text("Text", "");
            sheet.list("List", [""; 0]);
            sheet.moment("Moment", 0);
            sheet.rows("Rows", []);
            sheet.flag("Flag", false);
        }
        assert_eq!(some.lines, [("Flag", "no".to_owned())]);
        assert_eq!(all.lines.len(), 4);
    }
}
