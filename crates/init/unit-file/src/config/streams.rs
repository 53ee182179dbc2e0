//! Where a process starts, what it reads and where it writes.

use crate::value::path::check_path;
use crate::value::{AssignError, Setting, ValueContext, ValueError};

/// Where a process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkingDirectory {
    /// `None` is the home of the user (`~`).
    pub path: Option<Box<str>>,
    /// `-`: it may be missing.
    pub optional: bool,
}

impl Setting for Option<WorkingDirectory> {
    const KIND: &'static str = "absolute path or ~";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = None;
            return Ok(());
        }
        let (optional, rest) = text
            .strip_prefix('-')
            .map_or((false, text), |rest| (true, rest));
        let failed = |error| {
            if optional {
                AssignError::Ignored(error)
            } else {
                AssignError::Fatal(error)
            }
        };
        let path = if rest == "~" {
            None
        } else {
            let path = context.expand(rest).map_err(failed)?;
            Some(check_path(&path, true).map_err(failed)?.into())
        };
        *self = Some(WorkingDirectory { path, optional });
        Ok(())
    }
}

/// Where a process reads from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExecInput {
    /// Nothing.
    #[default]
    Null,
    /// The terminal.
    Tty,
    /// The terminal, taken by force.
    TtyForce,
    /// The terminal, or fail.
    TtyFail,
    /// The connection of a socket unit.
    Socket,
    /// A descriptor of a socket unit, by name.
    Fd(Option<Box<str>>),
    /// What the unit's file says.
    Data,
    /// A file.
    File(Box<str>),
}

impl Setting for ExecInput {
    const KIND: &'static str = "input";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        *self = match text {
            "null" => Self::Null,
            "tty" => Self::Tty,
            "tty-force" => Self::TtyForce,
            "tty-fail" => Self::TtyFail,
            "socket" => Self::Socket,
            "fd" => Self::Fd(None),
            "data" => Self::Data,
            _ => {
                if let Some(name) = text.strip_prefix("fd:") {
                    Self::Fd(Some(context.expand(name)?.into()))
                } else if let Some(path) = text.strip_prefix("file:") {
                    Self::File(check_path(&context.expand(path)?, true)?.into())
                } else {
                    return Err(ValueError::invalid(
                        text,
                        "an input such as null, socket, file:PATH",
                    )
                    .into());
                }
            }
        };
        Ok(())
    }
}

/// Where a process writes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExecOutput {
    /// Where the previous stream goes.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// The terminal.
    Tty,
    /// The log.
    Journal,
    /// The log and the console.
    JournalConsole,
    /// The kernel's log.
    Kmsg,
    /// The kernel's log and the console.
    KmsgConsole,
    /// The connection of a socket unit.
    Socket,
    /// A descriptor of a socket unit, by name.
    Fd(Option<Box<str>>),
    /// A file, from its beginning.
    File(Box<str>),
    /// A file, at its end.
    Append(Box<str>),
    /// A file, emptied first.
    Truncate(Box<str>),
}

impl Setting for ExecOutput {
    const KIND: &'static str = "output";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let path = |path: &str, context: &ValueContext<'_>| -> Result<Box<str>, ValueError> {
            Ok(check_path(&context.expand(path)?, true)?.into())
        };
        *self = match text {
            "inherit" => Self::Inherit,
            "null" => Self::Null,
            "tty" => Self::Tty,
            "journal" => Self::Journal,
            "journal+console" => Self::JournalConsole,
            "kmsg" => Self::Kmsg,
            "kmsg+console" => Self::KmsgConsole,
            "socket" => Self::Socket,
            "fd" => Self::Fd(None),
            "syslog" => {
                context.warn(ValueError::Obsolete {
                    what: "output to syslog (journal is used)",
                });
                Self::Journal
            }
            "syslog+console" => {
                context.warn(ValueError::Obsolete {
                    what: "output to syslog+console (journal+console is used)",
                });
                Self::JournalConsole
            }
            _ => {
                if let Some(name) = text.strip_prefix("fd:") {
                    Self::Fd(Some(context.expand(name)?.into()))
                } else if let Some(file) = text.strip_prefix("file:") {
                    Self::File(path(file, context)?)
                } else if let Some(file) = text.strip_prefix("append:") {
                    Self::Append(path(file, context)?)
                } else if let Some(file) = text.strip_prefix("truncate:") {
                    Self::Truncate(path(file, context)?)
                } else {
                    return Err(ValueError::invalid(
                        text,
                        "an output such as journal, null, append:PATH",
                    )
                    .into());
                }
            }
        };
        Ok(())
    }
}

/// What `StandardInput=data` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StdinData(pub Vec<u8>);

impl StdinData {
    /// At most so much; systemd has the same limit.
    pub const MAX: usize = 64 << 20;

    /// Takes `StandardInputText=`: a line with C escapes and specifiers.
    ///
    /// # Errors
    /// An escape is broken, or there is too much.
    pub fn add_text(
        &mut self,
        text: &str,
        context: &mut ValueContext<'_>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let quoted = format!("\"{}\"", text.replace('"', "\\\""));
        let word = crate::value::words::escaped_words(&quoted, context)?.concat();
        let line = context.expand(&word)?;
        self.append(line.as_bytes())?;
        self.append(b"\n")
    }

    /// Takes `StandardInputData=`: Base64.
    ///
    /// # Errors
    /// It is not Base64, or there is too much.
    pub fn add_base64(&mut self, text: &str) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        let bytes = decode_base64(text).ok_or_else(|| ValueError::invalid(text, "Base64"))?;
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), AssignError> {
        if self.0.len() + bytes.len() > Self::MAX {
            return Err(ValueError::OutOfRange {
                text: "".into(),
                range: "at most 64 MiB",
            }
            .into());
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0u32, 0u32, 0u32);
    for byte in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                count += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        count += 1;
        if count % 4 != 1 {
            let shift = 6 - 2 * ((count + 3) % 4);
            out.push(u8::try_from((bits >> shift) & 0xff).ok()?);
        }
    }
    (count % 4 == 0 && padding <= 2).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9v YmFy", b"foobar"),
        ] {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg", "Zg=", "=Zg=", "Z!==", "Zg==Zg=="] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }

    #[test]
    fn streams_have_many_forms() {
        assert_eq!(
            read::<ExecInput>(&["file:/a//b"]),
            ExecInput::File("/a/b".into())
        );
        assert_eq!(
            read::<Option<ExecOutput>>(&["append:/x/%i"]),
            Some(ExecOutput::Append("/x/c".into()))
        );
        assert_eq!(
            read::<ExecOutput>(&["fd:a"]),
            ExecOutput::Fd(Some("a".into()))
        );
        let mut output = ExecOutput::Null;
        assert_eq!(assign(&mut output, &["syslog"]).len(), 1);
        assert_eq!(output, ExecOutput::Journal);
        assert_eq!(assign(&mut output, &["nowhere", "file:x"]).len(), 2);
    }

    #[test]
    fn working_directories_may_be_optional_or_home() {
        let mut directory = None;
        assert!(assign(&mut directory, &["-~"]).is_empty());
        assert_eq!(
            directory,
            Some(WorkingDirectory {
                path: None,
                optional: true
            })
        );
        assert!(assign(&mut directory, &["a/b"])[0].starts_with("fatal"));
        assert!(!assign(&mut directory, &["-a/b"])[0].starts_with("fatal"));
    }

    proptest! {
        #[test]
        fn base64_takes_any_text(text in "[A-Za-z0-9+/= !]{0,30}") {
            let _ = decode_base64(&text);
        }
    }
}
