//! systemd's file syntax: sections, assignments, continuation lines, comments.
//!
//! [`parse`] turns the bytes of a file into [`Entry`] values that borrow from them. It knows nothing
//! about directives. Whatever it cannot use becomes a diagnostic with file and line; a broken section
//! header, text that is not UTF-8 and an over-long line make the rest of the file unusable
//! ([`ParsedFile::broken`]), as they do for systemd.

mod words;

use std::borrow::Cow;
use std::sync::Arc;

pub use words::{WordError, WordRules, Words};

use crate::diagnostic::{Diagnostic, Diagnostics, Problem, Severity};

/// The longest line, continuation included.
pub const MAX_LINE: usize = 1 << 20;

/// One `key=value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The section, without brackets.
    pub section: Cow<'t, str>,
    /// The key, trimmed.
    pub key: Cow<'t, str>,
    /// The value, trimmed, continuation lines joined.
    pub value: Cow<'t, str>,
    /// The line on which the assignment ends, from 1; systemd reports the same one.
    pub line: u32,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedFile<'t> {
    /// The assignments in their order.
    pub entries: Vec<Entry<'t>>,
    /// The section headers in their order, with their lines.
    pub sections: Vec<(Cow<'t, str>, u32)>,
    /// Parsing stopped early; the reason is among the diagnostics.
    pub broken: bool,
}

/// Parses a file. `file` is the name used in diagnostics.
pub fn parse<'t>(
    bytes: &'t [u8],
    file: &Arc<str>,
    diagnostics: &mut Diagnostics,
) -> ParsedFile<'t> {
    let mut parser = Parser {
        file,
        diagnostics,
        parsed: ParsedFile::default(),
        section: None,
    };
    parser.run(bytes);
    parser.parsed
}

struct Parser<'a, 't> {
    file: &'a Arc<str>,
    diagnostics: &'a mut Diagnostics,
    parsed: ParsedFile<'t>,
    section: Option<Cow<'t, str>>,
}

/// Why the rest of a file cannot be used; already reported.
struct Broken;

impl<'t> Parser<'_, 't> {
    fn run(&mut self, bytes: &'t [u8]) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut joined: Option<Vec<u8>> = None;
        let lines = Lines { rest: bytes };
        let mut number = 0u32;
        let mut broken = false;
        for line in lines {
            number = number.saturating_add(1);
            // Blanks before a comment do not count; in a continued value they do.
            if matches!(trim_start(line).first(), Some(b'#' | b';')) {
                continue;
            }
            if line.len() + joined.as_ref().map_or(0, Vec::len) > MAX_LINE {
                self.report(
                    Severity::Error,
                    number,
                    "the line is longer than 1 MiB",
                    None,
                );
                broken = true;
                break;
            }
            if ends_with_continuation(line) {
                let part = joined.get_or_insert_default();
                part.extend_from_slice(&line[..line.len() - 1]);
                part.push(b' ');
                continue;
            }
            let result = match joined.take() {
                Some(mut part) => {
                    part.extend_from_slice(line);
                    self.joined_line(part, number)
                }
                None => self.line(line, number),
            };
            if result.is_err() {
                broken = true;
                break;
            }
        }
        if let Some(part) = joined.filter(|_| !broken) {
            broken = self.joined_line(part, number).is_err();
        }
        self.parsed.broken = broken;
    }

    fn joined_line(&mut self, line: Vec<u8>, number: u32) -> Result<(), Broken> {
        match String::from_utf8(line) {
            Ok(text) => self.text_line(Cow::Owned(text), number),
            Err(_) => self.not_utf8(number),
        }
    }

    fn line(&mut self, line: &'t [u8], number: u32) -> Result<(), Broken> {
        match std::str::from_utf8(line) {
            Ok(text) => self.text_line(Cow::Borrowed(text), number),
            Err(_) => self.not_utf8(number),
        }
    }

    fn not_utf8(&mut self, number: u32) -> Result<(), Broken> {
        self.report(Severity::Error, number, "the line is not valid UTF-8", None);
        Err(Broken)
    }

    fn text_line(&mut self, line: Cow<'t, str>, number: u32) -> Result<(), Broken> {
        let line = map_part(line, trim);
        if line.is_empty() {
            return Ok(());
        }
        if line.starts_with('[') {
            return self.section_header(line, number);
        }
        let Some(section) = self.section.clone() else {
            let message = "the assignment stands outside of a section, ignored";
            self.report(
                Severity::Warning,
                number,
                message,
                Some("begin with a line like [Unit]"),
            );
            return Ok(());
        };
        let Some(equals) = line.find('=') else {
            let message = "there is no '=' in this line, ignored";
            let hint = "a line that goes on must end in a backslash";
            self.report(Severity::Warning, number, message, Some(hint));
            return Ok(());
        };
        let key = map_part(line.clone(), |line| trim(&line[..equals]));
        if key.is_empty() {
            self.report(
                Severity::Warning,
                number,
                "there is no key before '=', ignored",
                None,
            );
            return Ok(());
        }
        let value = map_part(line, |line| trim(&line[equals + 1..]));
        self.parsed.entries.push(Entry {
            section,
            key,
            value,
            line: number,
        });
        Ok(())
    }

    fn section_header(&mut self, line: Cow<'t, str>, number: u32) -> Result<(), Broken> {
        let inner = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'));
        let Some(name) = inner.filter(|name| is_safe(name)) else {
            let message = format!("invalid section header {:?}", truncate(&line));
            self.report(
                Severity::Error,
                number,
                &message,
                Some("write it as [Name]"),
            );
            return Err(Broken);
        };
        let length = name.len();
        let name = map_part(line, |line| &line[1..=length]);
        self.parsed.sections.push((name.clone(), number));
        self.section = Some(name);
        Ok(())
    }

    fn report(&mut self, severity: Severity, line: u32, message: &str, hint: Option<&str>) {
        self.diagnostics.push(Diagnostic {
            severity,
            problem: Problem::Syntax,
            file: self.file.clone(),
            line,
            message: message.into(),
            hint: hint.map(Into::into),
        });
    }
}

/// Cuts a part out of a text, keeping the borrow where there is one.
fn map_part<'t>(text: Cow<'t, str>, cut: impl FnOnce(&str) -> &str) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => {
            let part = cut(text);
            // `part` lies inside `text`, so the offsets are valid for the longer borrow as well.
            let from = part.as_ptr().addr() - text.as_ptr().addr();
            Cow::Borrowed(&text[from..from + part.len()])
        }
        Cow::Owned(text) => Cow::Owned(cut(&text).to_owned()),
    }
}

/// Lines end in LF, CR, NUL, or a pair of the first two in either order.
struct Lines<'t> {
    rest: &'t [u8],
}

impl<'t> Iterator for Lines<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self
            .rest
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r' | 0));
        let Some(end) = end else {
            return Some(std::mem::take(&mut self.rest));
        };
        let (line, rest) = self.rest.split_at(end);
        let pair = rest.starts_with(b"\r\n") || rest.starts_with(b"\n\r");
        self.rest = &rest[if pair { 2 } else { 1 }..];
        Some(line)
    }
}

fn ends_with_continuation(line: &[u8]) -> bool {
    let backslashes = line.iter().rev().take_while(|b| **b == b'\\').count();
    backslashes % 2 == 1
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

fn trim_start(line: &[u8]) -> &[u8] {
    let blanks = line
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    &line[blanks..]
}

/// No control characters and nothing that would need escaping.
fn is_safe(name: &str) -> bool {
    !name.is_empty()
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\'))
}

/// A part of a text that is short enough for a message.
pub(crate) fn truncate(text: &str) -> &str {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Section, key, value and line.
    type Row = (String, String, String, u32);

    fn read(text: &[u8]) -> (Vec<Row>, Vec<String>, bool) {
        let mut diagnostics = Diagnostics::default();
        let file: Arc<str> = "a.service".into();
        let parsed = parse(text, &file, &mut diagnostics);
        let entries = parsed.entries.into_iter();
        let entries = entries.map(|e| {
            (
                e.section.into_owned(),
                e.key.into_owned(),
                e.value.into_owned(),
                e.line,
            )
        });
        let shown = diagnostics.iter().map(ToString::to_string).collect();
        (entries.collect(), shown, parsed.broken)
    }

    fn values(text: &str) -> Vec<String> {
        read(text.as_bytes())
            .0
            .into_iter()
            .map(|(_, key, value, _)| format!("{key}={value}"))
            .collect()
    }

    #[test]
    fn sections_keys_and_values() {
        let (entries, diagnostics, broken) =
            read(b"# c\n; c\n\n[Unit]\n Description = a b \nAfter=\n[Service]\nX-Y=1=2\n");
        let expected = [
            ("Unit", "Description", "a b", 5),
            ("Unit", "After", "", 6),
            ("Service", "X-Y", "1=2", 8),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(s, k, v, l)| ((*s).to_owned(), (*k).to_owned(), (*v).to_owned(), *l))
            .collect();
        assert_eq!(entries, expected);
        assert!(diagnostics.is_empty() && !broken);
    }

    #[test]
    fn a_backslash_joins_lines_and_becomes_a_space() {
        assert_eq!(values("[A]\nK=a\\\n  b\n"), ["K=a   b"]);
        assert_eq!(
            values("[A]\nK=a \\\n# not this\n   ; nor this\n b\\\nc\n"),
            ["K=a   b c"]
        );
        // An even number of backslashes is an escaped one.
        assert_eq!(values("[A]\nK=a\\\\\nL=b\n"), ["K=a\\\\", "L=b"]);
        // An empty line ends the continuation; so does the end of the file.
        assert_eq!(values("[A]\nK=a\\\n\nL=b\\"), ["K=a", "L=b"]);
        assert_eq!(values("[A]\nK=a \\ \nL=b"), ["K=a \\", "L=b"]);
    }

    #[test]
    fn a_comment_sign_inside_a_value_is_text() {
        assert_eq!(values("[A]\nK=a # b ; c\n"), ["K=a # b ; c"]);
    }

    #[test]
    fn all_line_ends_are_taken() {
        assert_eq!(
            values("\u{feff}[A]\r\nK=1\rL=2\n\rM=3\0N=4"),
            ["K=1", "L=2", "M=3", "N=4"]
        );
    }

    #[test]
    fn anomalies_name_file_and_line() {
        let (entries, diagnostics, broken) = read(b"K=1\n[A]\nnonsense\n=5\nK=2\n");
        assert_eq!(entries.len(), 1);
        assert!(!broken);
        assert_eq!(
            diagnostics,
            [
                "a.service:1: the assignment stands outside of a section, ignored (begin with a line like [Unit])",
                "a.service:3: there is no '=' in this line, ignored (a line that goes on must end in a backslash)",
                "a.service:4: there is no key before '=', ignored",
            ]
        );
    }

    #[test]
    fn a_broken_file_is_read_up_to_the_damage() {
        for damage in [
            &b"[B\n"[..],
            b"[]\n",
            b"[a\"b]\n",
            b"L=\xff\n",
            b"L=\\\n\xff\n",
        ] {
            let text = [
                b"[A]\nK=1\n# \xff comments may be anything\n",
                damage,
                b"M=2\n",
            ]
            .concat();
            let (entries, diagnostics, broken) = read(&text);
            assert_eq!(entries.len(), 1, "{damage:?}");
            assert_eq!(diagnostics.len(), 1);
            assert!(broken);
        }
        let long = [b"[A]\nK=1\nL=", vec![b'x'; MAX_LINE].as_slice(), b"\n"].concat();
        assert!(read(&long).2);
        let long = [b"[A]\nK=1\n".to_vec(), b"xxxxxxxx\\\n".repeat(MAX_LINE / 8)].concat();
        assert!(read(&long).2);
    }

    #[test]
    fn time_grows_with_the_length_not_its_square() {
        // A quadratic parser needs minutes for this, a linear one well under a second.
        let text = [b"[A]\n".to_vec(), b"K=a\\\nb\\\n#\nc\n".repeat(300_000)].concat();
        let started = std::time::Instant::now();
        assert_eq!(read(&text).0.len(), 300_000);
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn what_is_written_is_read(keys in prop::collection::vec(("[A-Z][a-zA-Z]{0,8}", "[ -Z^-~]{0,20}"), 0..10)) {
            let mut text = String::from("[S]\n");
            for (key, value) in &keys {
                text.push_str(&format!("{key}={value}\n"));
            }
            let expected: Vec<_> = keys.iter().map(|(k, v)| format!("{k}={}", v.trim())).collect();
            prop_assert_eq!(values(&text), expected);
        }
    }
}
