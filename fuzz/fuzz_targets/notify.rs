//! Any bytes as a message of sd_notify, and as the record that a manager recovers from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_core::{notify, record};

fuzz_target!(|input: (u16, &[u8])| {
    let (descriptors, bytes) = input;
    let message = notify::parse(bytes, 7, descriptors);
    let said = &message.notification;
    assert_eq!(said.sender, 7);
    assert!(said.status.as_ref().is_none_or(|status| status.len() <= bytes.len()));
    assert!(said.main_pid.is_none_or(|pid| pid > 1));
    if let Some(stored) = &said.store {
        assert!(stored.count == descriptors && descriptors > 0);
        assert!(!stored.name.contains(':') && !stored.name.is_empty());
    }
    if let Ok(recorded) = record::read(bytes) {
        assert!(recorded.torn <= bytes.len());
    }
});
