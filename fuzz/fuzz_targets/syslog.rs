//! Any bytes as a syslog datagram, as a record of the kernel's log and as the greeting of a stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_logd::parse::greeting::{GreetingState, parse_greeting};
use muster_logd::parse::kmsg::parse_kmsg;
use muster_logd::parse::syslog::parse_syslog;

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_syslog(bytes);
    assert!(!parsed.message.contains(&0));
    assert!(parsed.priority.level.number() < 8);
    assert!(parsed.message.len() + parsed.identifier.map_or(0, <[u8]>::len) <= bytes.len());
    if let Some(record) = parse_kmsg(bytes) {
        assert!(record.message.len() <= bytes.len());
    }
    if let GreetingState::Complete(_, length) = parse_greeting(bytes) {
        assert!(length <= bytes.len());
    }
});
