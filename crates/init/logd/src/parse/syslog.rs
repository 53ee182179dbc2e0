//! Datagrams of syslog clients, as libc's `syslog(3)` and `logger` write them.
//!
//! `<PRI>Mmm dd hh:mm:ss identifier[pid]: message`, where everything but the message may be missing.
//! RFC 5424 headers are not taken apart; such a datagram is stored with its header as the message, as
//! journald does.

use super::priority::{Level, Priority, split_priority};

/// The longest identifier that is believed; more than this is text.
const IDENTIFIER_MAX: usize = 256;
/// `Mmm dd hh:mm:ss ` with its blank.
const STAMP_LEN: usize = 16;

/// What a datagram says. Everything in it is the client's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogMessage<'a> {
    /// Severity and facility; a datagram without them is `user.info`.
    pub priority: Priority,
    /// The time stamp as it stands there.
    pub timestamp: Option<&'a [u8]>,
    /// Who speaks.
    pub identifier: Option<&'a [u8]>,
    /// The process that it claims to be, as it stands there.
    pub pid: Option<&'a [u8]>,
    /// The text.
    pub message: &'a [u8],
    /// The whole datagram, where its parts do not say all of it: something was cut off, or is missing.
    pub raw: Option<&'a [u8]>,
}

/// Takes a datagram apart.
#[must_use]
pub fn parse_syslog(datagram: &[u8]) -> SyslogMessage<'_> {
    let text = trim(datagram);
    let (priority, rest) = split_priority(text);
    let (timestamp, rest) = split_timestamp(rest);
    let (identifier, pid, message) = split_identifier(rest);
    let is_whole = text.len() == datagram.len() && priority.is_some() && timestamp.is_some();
    SyslogMessage {
        priority: priority.unwrap_or(Priority {
            level: Level::INFO,
            facility: 1,
        }),
        timestamp,
        identifier,
        pid,
        message,
        raw: (!is_whole).then_some(datagram),
    }
}

/// Cuts white space off both ends, and everything from the first zero byte.
fn trim(datagram: &[u8]) -> &[u8] {
    let end = datagram.iter().position(|byte| *byte == 0);
    datagram[..end.unwrap_or(datagram.len())].trim_ascii()
}

/// Takes `Mmm dd hh:mm:ss ` off the beginning.
fn split_timestamp(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    // L letter, S space, N digit, O digit or space; the rest as it is.
    const PATTERN: &[u8; STAMP_LEN] = b"LLLSONSNN:NN:NNS";
    let matches = text.len() >= STAMP_LEN
        && text.iter().zip(PATTERN).all(|(byte, kind)| match kind {
            b'L' => byte.is_ascii_alphabetic(),
            b'S' => *byte == b' ',
            b'N' => byte.is_ascii_digit(),
            b'O' => byte.is_ascii_digit() || *byte == b' ',
            exact => byte == exact,
        });
    if matches {
        (Some(&text[..STAMP_LEN - 1]), &text[STAMP_LEN..])
    } else {
        (None, text)
    }
}

/// Takes `identifier[pid]: ` off the beginning; both or only the identifier.
pub(super) fn split_identifier(text: &[u8]) -> (Option<&[u8]>, Option<&[u8]>, &[u8]) {
    let start = text.trim_ascii_start();
    let word = start
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(start.len());
    let Some(name) = start[..word]
        .strip_suffix(b":")
        .filter(|name| !name.is_empty())
    else {
        return (None, None, text);
    };
    // Exactly one blank separates; more of them belong to the text.
    let message = &start[(word + 1).min(start.len())..];
    let (name, pid) = match name.strip_suffix(b"]").and_then(|inner| {
        let open = inner.iter().rposition(|byte| *byte == b'[')?;
        Some((&inner[..open], &inner[open + 1..]))
    }) {
        Some((name, pid)) => (name, Some(pid).filter(|pid| !pid.is_empty())),
        None => (name, None),
    };
    if name.is_empty() || name.len() > IDENTIFIER_MAX {
        return (None, None, text);
    }
    (Some(name), pid, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_datagram_is_taken_apart() {
        let parsed = parse_syslog(b"<30>Feb  3 04:05:06 sshd[42]:  two blanks");
        assert_eq!(
            (parsed.priority.level, parsed.priority.facility),
            (Level::INFO, 3)
        );
        assert_eq!(parsed.timestamp, Some(&b"Feb  3 04:05:06"[..]));
        assert_eq!(parsed.identifier, Some(&b"sshd"[..]));
        assert_eq!(parsed.pid, Some(&b"42"[..]));
        assert_eq!(parsed.message, b" two blanks");
        assert_eq!(parsed.raw, None);
    }

    #[test]
    fn what_is_missing_is_not_made_up() {
        let parsed = parse_syslog(b"just words");
        assert_eq!(
            (parsed.priority.level, parsed.priority.facility),
            (Level::INFO, 1)
        );
        assert_eq!(
            (parsed.identifier, parsed.pid, parsed.timestamp),
            (None, None, None)
        );
        assert_eq!(parsed.message, b"just words");
        let parsed = parse_syslog(b"<11>name: text");
        assert_eq!((parsed.identifier, parsed.pid), (Some(&b"name"[..]), None));
        assert_eq!(parsed.message, b"text");
        assert_eq!(parse_syslog(b"name:").message, b"");
        assert_eq!(parse_syslog(b": text").message, b": text");
        assert_eq!(parse_syslog(b"[7]: text").message, b"[7]: text");
        assert_eq!(parse_syslog(b"a[]: text").pid, None);
    }

    #[test]
    fn the_raw_datagram_is_kept_when_its_parts_do_not_say_all() {
        let whole = b"<13>Feb  3 04:05:06 a: b";
        assert_eq!(parse_syslog(whole).raw, None);
        for text in [
            &b"<13>Feb  3 04:05:06 a: b\n"[..],
            b"<13>Feb  3 04:05:06 a: b\0c",
            b"Feb  3 04:05:06 a: b",
            b"<13>a: b",
        ] {
            let parsed = parse_syslog(text);
            assert_eq!((parsed.raw, parsed.message), (Some(text), &b"b"[..]));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(datagram in proptest::collection::vec(any::<u8>(), 0..300)) {
            let parsed = parse_syslog(&datagram);
            prop_assert!(parsed.message.len() <= datagram.len());
            prop_assert!(!parsed.message.contains(&0));
        }
    }
}
