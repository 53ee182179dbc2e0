//! Any bytes as a native datagram and as a service's output.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_logd::parse::lines::{LineBreak, More, next_line};
use muster_logd::parse::native::{FIELDS_MAX, is_client_name, parse_native};

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse_native(bytes);
    for entry in &parsed.entries {
        assert!(!entry.is_empty() && entry.len() <= FIELDS_MAX);
        assert!(entry.iter().all(|field| is_client_name(field.name)));
    }
    let mut rest = bytes;
    while let Some(line) = next_line(rest, 16, More::No(LineBreak::Eof)) {
        assert!(line.taken > 0 && line.text.len() <= 16);
        rest = &rest[line.taken..];
    }
    assert!(rest.is_empty());
});
