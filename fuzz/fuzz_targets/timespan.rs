//! Any text as a time span: what is printed is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::timespan::{TimeSpan, parse_nanoseconds};

fuzz_target!(|text: &str| {
    let _ = parse_nanoseconds(text);
    if let Ok(span) = TimeSpan::parse(text) {
        assert_eq!(TimeSpan::parse(&span.to_string()), Ok(span));
    }
});
