//! The sd_notify protocol: what a datagram says.

use muster_engine::ids::{Span, Time};
use muster_engine::protocol::{Notification, StoredFds};

/// Longest message that is read; systemd's limit.
pub const MAX_MESSAGE: usize = 4096;
/// Longest STATUS= that is kept.
const MAX_STATUS: usize = 2048;

/// What a datagram says, beside what the engine is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// For the engine.
    pub notification: Notification,
    /// BARRIER=1: the one descriptor that came along is closed, nothing else.
    pub barrier: bool,
}

/// Reads a datagram of `KEY=value` lines. Unknown keys and broken values are passed over: services are newer and older than
/// this program. `descriptors` is how many came along.
#[must_use]
pub fn parse(datagram: &[u8], sender: u32, descriptors: u16) -> Message {
    let mut notification = Notification {
        sender,
        ..Notification::default()
    };
    let (mut store, mut remove, mut barrier) = (false, false, false);
    let mut name: Option<Box<str>> = None;
    let mut keep_on_hangup = false;
    for line in datagram.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else {
            continue;
        };
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        match (key, value) {
            ("READY", "1") => notification.ready = true,
            ("RELOADING", "1") => notification.reloading = true,
            ("STOPPING", "1") => notification.stopping = true,
            ("WATCHDOG", "1") => notification.watchdog = true,
            ("WATCHDOG", "trigger") => notification.watchdog_trigger = true,
            ("FDSTORE", "1") => store = true,
            ("FDSTOREREMOVE", "1") => remove = true,
            ("FDPOLL", "0") => keep_on_hangup = true,
            ("BARRIER", "1") => barrier = true,
            ("MONOTONIC_USEC", _) => notification.monotonic = value.parse().ok().map(Time),
            ("STATUS", _) => notification.status = Some(shortened(value).into()),
            ("ERRNO", _) => notification.errno = value.parse().ok().filter(|n| *n >= 0),
            ("MAINPID", _) => notification.main_pid = value.parse().ok().filter(|pid| *pid > 1),
            ("WATCHDOG_USEC", _) => notification.watchdog_usec = value.parse().ok().map(Span),
            ("EXTEND_TIMEOUT_USEC", _) => {
                notification.extend_timeout = value.parse().ok().map(Span)
            }
            ("FDNAME", _) if is_name(value) => name = Some(value.into()),
            _ => {}
        }
    }
    if store && descriptors > 0 && !barrier {
        notification.store = Some(StoredFds {
            name: name.clone().unwrap_or_else(|| "stored".into()),
            count: descriptors,
            keep_on_hangup,
        });
    }
    if remove {
        notification.remove = name;
    }
    Message {
        notification,
        barrier,
    }
}

fn shortened(status: &str) -> &str {
    let mut end = status.len().min(MAX_STATUS);
    while !status.is_char_boundary(end) {
        end -= 1;
    }
    &status[..end]
}

/// Names of descriptors are printable, short and without a colon, which separates them in LISTEN_FDNAMES.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|b| (b' '..0x7f).contains(&b) && b != b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Notification {
        parse(text.as_bytes(), 7, 0).notification
    }

    #[test]
    fn every_key_of_the_protocol() {
        let all = said(
            "READY=1\nRELOADING=1\nMONOTONIC_USEC=12\nSTOPPING=1\nSTATUS=all is well\nERRNO=2\nMAINPID=42\nWATCHDOG=1\n\
             WATCHDOG_USEC=3000000\nEXTEND_TIMEOUT_USEC=5\n",
        );
        assert!(all.ready && all.reloading && all.stopping && all.watchdog);
        assert_eq!(all.monotonic, Some(Time(12)));
        assert_eq!(all.status.as_deref(), Some("all is well"));
        assert_eq!((all.errno, all.main_pid), (Some(2), Some(42)));
        assert_eq!(all.watchdog_usec, Some(Span(3_000_000)));
        assert_eq!(all.extend_timeout, Some(Span(5)));
        assert_eq!(all.sender, 7);
        assert!(said("WATCHDOG=trigger").watchdog_trigger);
    }

    #[test]
    fn descriptors_are_stored_and_removed_by_name() {
        let stored = parse(b"FDSTORE=1\nFDNAME=conn\nFDPOLL=0", 1, 2).notification;
        let expected = StoredFds {
            name: "conn".into(),
            count: 2,
            keep_on_hangup: true,
        };
        assert_eq!(stored.store, Some(expected));
        let unnamed = parse(b"FDSTORE=1\nFDNAME=a:b", 1, 1).notification;
        assert_eq!(unnamed.store.map(|s| s.name), Some("stored".into()));
        assert_eq!(parse(b"FDSTORE=1", 1, 0).notification.store, None);
        assert_eq!(
            said("FDSTOREREMOVE=1\nFDNAME=conn").remove.as_deref(),
            Some("conn")
        );
        assert!(parse(b"BARRIER=1", 1, 1).barrier);
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(
            said("READY=yes\nMAINPID=1\nMAINPID=x\nERRNO=-3\nno line\n\u{fffd}=1"),
            Notification {
                sender: 7,
                ..Notification::default()
            }
        );
        let long = format!("STATUS={}", "\u{e4}".repeat(3000));
        assert!(said(&long).status.is_some_and(|s| s.len() <= MAX_STATUS));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), n in 0u16..4) {
            let _ = parse(&bytes, 1, n);
        }
    }
}
