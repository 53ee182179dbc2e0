//! Any bytes as a message of the cloud.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_cloud::message::{Body, Envelope, Timestamp, envelope};

const SYSTEM: &str = "unit-1";

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = Envelope::from_cloud(bytes, SYSTEM) else {
        return;
    };
    assert!(!read.txn.is_empty() && read.txn.len() <= 256);
    let Ok(Body::Message(message)) = read.body else {
        return;
    };
    // What is understood can be said again, and means the same.
    let data = message.data(read.correlation.as_deref());
    let text = envelope(SYSTEM, &read.txn, Timestamp::UNIX_EPOCH, &data);
    let again = Envelope::from_cloud(text.as_bytes(), SYSTEM).expect("an envelope");
    assert_eq!(again.correlation, read.correlation);
    assert_eq!(again.body.expect("content"), Body::Message(message));
});
