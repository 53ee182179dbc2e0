//! Commands as lines of text.

use std::io::{self, BufRead, Read as _};

/// Longer lines are refused; a bus name has at most 255 bytes.
pub const LONGEST_LINE: u64 = 1024;

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Report the owner of a name, now and whenever it changes.
    Watch(String),
    /// Report it no longer.
    Unwatch(String),
}

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It begins with something else, or has no name.
    #[error("{line:?} is not `watch NAME` or `unwatch NAME`")]
    Unknown {
        /// The line.
        line: String,
    },
    /// The name cannot be one.
    #[error("{name:?} is not a well-known bus name")]
    NotAName {
        /// The name.
        name: String,
    },
    /// It is longer than [`LONGEST_LINE`].
    #[error("a command is longer than {LONGEST_LINE} bytes")]
    TooLong,
}

impl Command {
    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, CommandError> {
        let (verb, name) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let name = name.trim();
        let command = match verb {
            "watch" => Self::Watch(name.to_owned()),
            "unwatch" => Self::Unwatch(name.to_owned()),
            _ => {
                return Err(CommandError::Unknown {
                    line: line.to_owned(),
                });
            }
        };
        if zbus::names::WellKnownName::try_from(name).is_err() {
            return Err(CommandError::NotAName {
                name: name.to_owned(),
            });
        }
        Ok(command)
    }
}

/// The next line; none at the end. A line that is too long is read to its end, and an error.
pub fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, CommandError>>> {
    let mut bytes = Vec::new();
    if input
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut bytes)?
        == 0
    {
        return Ok(None);
    }
    if bytes.ends_with(b"\n") || (bytes.len() as u64) < LONGEST_LINE {
        return Ok(Some(Ok(String::from_utf8_lossy(&bytes)
            .trim_end()
            .to_owned())));
    }
    input.skip_until(b'\n')?;
    Ok(Some(Err(CommandError::TooLong)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_name_a_name() {
        let watch = Command::Watch("org.example.A".to_owned());
        assert_eq!(Command::parse("watch org.example.A"), Ok(watch.clone()));
        assert_eq!(Command::parse("  watch   org.example.A \n"), Ok(watch));
        assert_eq!(
            Command::parse("unwatch org.example.A"),
            Ok(Command::Unwatch("org.example.A".to_owned()))
        );
    }

    #[test]
    fn everything_else_is_refused() {
        for line in [
            "",
            "watch",
            "watch ",
            "watch :1.7",
            "watch a",
            "watch a..b",
            "watch a.b c",
        ] {
            assert!(Command::parse(line).is_err(), "{line:?}");
        }
        assert_eq!(
            Command::parse("observe a.b").unwrap_err().to_string(),
            "\"observe a.b\" is not `watch NAME` or `unwatch NAME`"
        );
    }

    #[test]
    fn long_lines_are_skipped_whole() {
        let text = format!("watch a.b\n{}\nunwatch a.b", "x".repeat(5000));
        let mut input = text.as_bytes();
        let mut next = || next_line(&mut input).unwrap();
        assert_eq!(next(), Some(Ok("watch a.b".to_owned())));
        assert_eq!(next(), Some(Err(CommandError::TooLong)));
        assert_eq!(next(), Some(Ok("unwatch a.b".to_owned())));
        assert_eq!(next(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_to_the_end(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..4000)
        ) {
            let mut input = bytes.as_slice();
            while let Some(line) = next_line(&mut input).unwrap() {
                if let Ok(line) = line {
                    let _ = Command::parse(&line);
                }
            }
            prop_assert!(input.is_empty());
        }
    }
}
