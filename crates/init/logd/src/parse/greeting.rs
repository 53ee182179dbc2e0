//! The lines by which a client of `sd_journal_stream_fd(3)` introduces itself: identifier, unit, level,
//! whether lines may carry a level, and three wishes about forwarding. Then its output follows.

use super::priority::{Level, decimal};

/// How many lines there are.
const LINES: usize = 7;
/// A greeting is not longer than this.
pub const GREETING_MAX: usize = 4096;
/// The longest identifier that is taken.
const IDENTIFIER_MAX: usize = 256;

/// What a client says about its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// How it wants to be called.
    pub identifier: Box<str>,
    /// The level of lines that say none.
    pub level: Level,
    /// The facility of all lines; 0 is none.
    pub facility: u8,
    /// Lines may begin with `<N>`.
    pub level_prefix: bool,
    /// Lines also go to the kernel's log.
    pub to_kmsg: bool,
    /// Lines also go to the console.
    pub to_console: bool,
}

/// What is at the beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetingState {
    /// The greeting and its length.
    Complete(Greeting, usize),
    /// More must come.
    Incomplete,
    /// It is none.
    Wrong,
}

/// Looks for a greeting at the beginning of a stream.
#[must_use]
pub fn parse_greeting(bytes: &[u8]) -> GreetingState {
    let mut lines = [&bytes[..0]; LINES];
    let mut at = 0;
    for line in &mut lines {
        let rest = &bytes[at..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            return match bytes.len() < GREETING_MAX {
                true => GreetingState::Incomplete,
                false => GreetingState::Wrong,
            };
        };
        *line = &rest[..length];
        at += length + 1;
    }
    // The unit, in the second line, is the client's word and not believed.
    let [identifier, _, level, prefix, _, kmsg, console] = lines;
    let parsed = (|| {
        let priority = decimal(level.trim_ascii())?;
        let identifier = std::str::from_utf8(identifier.trim_ascii()).ok()?;
        Some(Greeting {
            identifier: identifier
                .chars()
                .take(IDENTIFIER_MAX)
                .collect::<String>()
                .into(),
            level: Level::new(u8::try_from(priority & 7).ok()?)?,
            facility: u8::try_from(priority >> 3).ok()?,
            level_prefix: flag(prefix)?,
            to_kmsg: flag(kmsg)?,
            to_console: flag(console)?,
        })
    })();
    match parsed {
        Some(greeting) if at <= GREETING_MAX => GreetingState::Complete(greeting, at),
        _ => GreetingState::Wrong,
    }
}

fn flag(text: &[u8]) -> Option<bool> {
    match text.trim_ascii() {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"cat\nx.service\n28\n1\n0\n0\n1\nfirst line\n";

    #[test]
    fn a_greeting_is_seven_lines() {
        let GreetingState::Complete(greeting, length) = parse_greeting(TEXT) else {
            panic!("a greeting");
        };
        assert_eq!(&TEXT[length..], b"first line\n");
        assert_eq!(&*greeting.identifier, "cat");
        assert_eq!((greeting.level, greeting.facility), (Level::WARNING, 3));
        assert!(greeting.level_prefix && greeting.to_console && !greeting.to_kmsg);
    }

    #[test]
    fn what_is_no_greeting_is_refused() {
        assert_eq!(
            parse_greeting(b"a\nb\nc\n0\n0\n0\n0\n"),
            GreetingState::Wrong
        );
        assert_eq!(
            parse_greeting(b"a\nb\n6\n2\n0\n0\n0\n"),
            GreetingState::Wrong
        );
        assert_eq!(parse_greeting(&[b'x'; GREETING_MAX]), GreetingState::Wrong);
    }

    proptest! {
        #[test]
        fn it_is_complete_only_when_it_is_whole(length in 0usize..TEXT.len()) {
            let whole = TEXT.len() - b"first line\n".len();
            let state = parse_greeting(&TEXT[..length]);
            prop_assert_eq!(state == GreetingState::Incomplete, length < whole);
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let GreetingState::Complete(_, length) = parse_greeting(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
