//! Environment assignments and environment files.

use super::words::{escaped_words, list_words};
use super::{AssignError, Setting, ValueContext, ValueError, list::StrList};

/// `NAME=value` assignments. After [`Environment::merge`], which loading ends with, a later one has
/// replaced an earlier one of the same name in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub StrList);

impl Environment {
    /// Lets later assignments replace earlier ones. Once at the end: doing it for every line would take
    /// time that grows with the square of their number.
    pub fn merge(&mut self) {
        let mut list: Vec<&str> = Vec::new();
        let mut position = std::collections::HashMap::new();
        for assignment in self.0.iter() {
            let name = assignment.split('=').next().unwrap_or("");
            match position.get(name) {
                Some(&at) => list[at] = assignment,
                None => {
                    position.insert(name, list.len());
                    list.push(assignment);
                }
            }
        }
        let merged: StrList = list.into_iter().collect();
        self.0 = merged;
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|assignment| assignment.split_once('='))
    }
}

impl Setting for Environment {
    const KIND: &'static str = "environment assignments";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in escaped_words(text, context)? {
            let word = context.expand(&word)?.into_owned();
            match word.split_once('=') {
                Some((name, value)) if is_variable_name(name) && is_variable_value(value) => {
                    self.0.push(&word);
                }
                _ => context.warn(ValueError::invalid(&word, "an assignment NAME=VALUE")),
            }
        }
        Ok(())
    }
}

/// Whether a text can name an environment variable.
#[must_use]
pub fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_variable_value(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\t' | '\n'))
}

/// A file that environment assignments are read from when a process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// The file; may be a pattern.
    pub path: Box<str>,
    /// It may be missing.
    pub optional: bool,
}

/// Environment files in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentFiles(pub Vec<EnvironmentFile>);

impl Setting for EnvironmentFiles {
    const KIND: &'static str = "environment file";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let expanded = context.expand(text).map_err(AssignError::Fatal)?;
        let (optional, path) = match expanded.strip_prefix('-') {
            Some(path) => (true, path),
            None => (false, &*expanded),
        };
        match super::path::check_path(path, false) {
            Ok(path) => self.0.push(EnvironmentFile {
                path: path.into(),
                optional,
            }),
            Err(error) => return Err(AssignError::Ignored(error)),
        }
        Ok(())
    }
}

/// Fields for the journal, `NAME=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFields(pub StrList);

impl Setting for LogFields {
    const KIND: &'static str = "journal fields";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in list_words(text)? {
            let word = context.expand(&word)?.into_owned();
            let usable = word.split_once('=').is_some_and(|(name, _)| {
                is_variable_name(name)
                    && name.len() <= 64
                    && !name.starts_with('_')
                    && !name.bytes().any(|b| b.is_ascii_lowercase())
            });
            if usable {
                self.0.push(&word);
            } else {
                context.warn(ValueError::invalid(&word, "a journal field NAME=VALUE"));
            }
        }
        Ok(())
    }
}

/// What an environment file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedEnvironment {
    /// Names and values in the order of the file; later ones win.
    pub variables: Vec<(String, String)>,
    /// Lines, from 1, on which something was left out: not a name, not UTF-8.
    pub bad_lines: Vec<u32>,
}

/// Reads an environment file: shell-like assignments with quotes, comments and continuation lines,
/// but without any expansion.
#[must_use]
pub fn parse_environment_file(bytes: &[u8]) -> ParsedEnvironment {
    let mut reader = FileReader::default();
    for &byte in bytes {
        reader.take(byte);
    }
    reader.finish()
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    BeforeKey,
    Key,
    BeforeValue,
    Value,
    ValueEscape,
    SingleQuotes,
    DoubleQuotes,
    DoubleQuotesEscape,
    Comment,
    CommentEscape,
}

#[derive(Default)]
struct FileReader {
    state: State,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The value without blanks after its last unquoted character.
    value_end: usize,
    line: u32,
    out: ParsedEnvironment,
}

impl FileReader {
    fn take(&mut self, byte: u8) {
        let newline = matches!(byte, b'\n' | b'\r');
        let blank = newline || matches!(byte, b' ' | b'\t');
        match self.state {
            State::BeforeKey => match byte {
                b'#' | b';' => self.state = State::Comment,
                _ if blank => {}
                _ => {
                    self.state = State::Key;
                    self.key.push(byte);
                }
            },
            State::Key if newline => {
                self.out.bad_lines.push(self.line + 1);
                self.key.clear();
                self.state = State::BeforeKey;
            }
            State::Key if byte == b'=' => self.state = State::BeforeValue,
            State::Key => self.key.push(byte),
            State::BeforeValue | State::Value if newline => self.push(),
            State::BeforeValue => match byte {
                b'\'' => self.state = State::SingleQuotes,
                b'"' => self.state = State::DoubleQuotes,
                b'\\' => self.state = State::ValueEscape,
                _ if blank => {}
                _ => self.value_byte(byte),
            },
            State::Value if byte == b'\\' => {
                self.value_end = self.value.len();
                self.state = State::ValueEscape;
            }
            State::Value if blank => self.value.push(byte),
            State::Value => self.value_byte(byte),
            State::ValueEscape => {
                self.state = State::Value;
                if !newline {
                    self.value_byte(byte);
                }
            }
            State::SingleQuotes if byte == b'\'' => self.state = State::BeforeValue,
            State::DoubleQuotes if byte == b'"' => self.state = State::BeforeValue,
            State::DoubleQuotes if byte == b'\\' => self.state = State::DoubleQuotesEscape,
            State::SingleQuotes | State::DoubleQuotes => self.quoted_byte(byte),
            State::DoubleQuotesEscape => {
                self.state = State::DoubleQuotes;
                if matches!(byte, b'"' | b'\\' | b'`' | b'$') {
                    self.quoted_byte(byte);
                } else if byte != b'\n' {
                    self.quoted_byte(b'\\');
                    self.quoted_byte(byte);
                }
            }
            State::Comment if byte == b'\\' => self.state = State::CommentEscape,
            State::Comment if newline => self.state = State::BeforeKey,
            State::Comment => {}
            State::CommentEscape => self.state = State::Comment,
        }
        self.line += u32::from(byte == b'\n');
    }

    fn value_byte(&mut self, byte: u8) {
        self.state = State::Value;
        self.quoted_byte(byte);
    }

    fn quoted_byte(&mut self, byte: u8) {
        self.value.push(byte);
        self.value_end = self.value.len();
    }

    fn push(&mut self) {
        let key = String::from_utf8(std::mem::take(&mut self.key));
        let mut value = std::mem::take(&mut self.value);
        value.truncate(self.value_end);
        self.value_end = 0;
        self.state = State::BeforeKey;
        match (key, String::from_utf8(value)) {
            (Ok(key), Ok(value)) if is_variable_name(key.trim_end()) && !value.contains('\0') => {
                self.out.variables.push((key.trim_end().to_owned(), value));
            }
            _ => self.out.bad_lines.push(self.line + 1),
        }
    }

    fn finish(mut self) -> ParsedEnvironment {
        match self.state {
            State::BeforeKey | State::Comment | State::CommentEscape => {}
            State::Key => self.out.bad_lines.push(self.line + 1),
            _ => self.push(),
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    #[test]
    fn assignments_are_quoted_words() {
        let mut env: Environment = read(&["A=1 'B=x y' \"C=\\x41\" D=%i", "A=2"]);
        env.merge();
        assert_eq!(
            env.0.iter().collect::<Vec<_>>(),
            ["A=2", "B=x y", "C=A", "D=c"]
        );
        assert!(read::<Environment>(&["A=1", ""]).0.is_empty());
        let mut env = Environment::default();
        assert_eq!(assign(&mut env, &["1A=1 B C=2", "X='"]).len(), 3);
        assert_eq!(env.iter().collect::<Vec<_>>(), [("C", "2")]);
    }

    #[test]
    fn environment_files_may_be_optional() {
        let files: EnvironmentFiles = read(&["-/etc/default/%p", "/etc/x"]);
        assert_eq!(
            files.0[0],
            EnvironmentFile {
                path: "/etc/default/a-b".into(),
                optional: true
            }
        );
        assert!(!files.0[1].optional);
        let mut files = EnvironmentFiles::default();
        for relative in ["relative", "-relative"] {
            let problems = assign(&mut files, &[relative]);
            assert!(!problems[0].starts_with("fatal"), "{relative}");
        }
    }

    fn parse(text: &str) -> Vec<(String, String)> {
        parse_environment_file(text.as_bytes()).variables
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn files_are_shell_like() {
        let text = "# c\n; c\n A = b c  \nB='x y'\nC=\"a\\\"b\\$c\\d\"\nD=a\\\nb\nE=\nF=\"x\"'y' z\nG=a\\ \nexport H=1\nI='m\nn'\nJ=end";
        let expected = [
            pair("A", "b c"),
            pair("B", "x y"),
            pair("C", "a\"b$c\\d"),
            pair("D", "ab"),
            pair("E", ""),
            pair("F", "xyz"),
            pair("G", "a "),
            pair("I", "m\nn"),
            pair("J", "end"),
        ];
        assert_eq!(parse(text), expected);
        assert_eq!(parse_environment_file(text.as_bytes()).bad_lines, [11]);
    }

    #[test]
    fn a_comment_goes_on_after_a_backslash() {
        assert_eq!(parse("# a\\\nB=1\nC=2"), [pair("C", "2")]);
    }

    #[test]
    fn damaged_lines_are_reported() {
        let parsed = parse_environment_file(b"A=\xff\nnothing\nB=1\n\xff=2\nlast");
        assert_eq!(parsed.variables, [pair("B", "1")]);
        assert_eq!(parsed.bad_lines, [1, 2, 4, 5]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse_environment_file(&bytes);
        }

        #[test]
        fn single_quoted_values_come_back(value in "[^'\0]{0,20}") {
            prop_assert_eq!(parse(&format!("A='{value}'\n")), [pair("A", &value)]);
        }
    }
}
