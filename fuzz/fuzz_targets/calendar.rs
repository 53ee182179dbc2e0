//! Any text as a calendar expression: the normal form is a fixed point and elapses grow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_unit_file::calendar::CalendarSpec;

fuzz_target!(|input: (&str, u32)| {
    let (text, seconds) = input;
    let Ok(spec) = CalendarSpec::parse(text) else { return };
    let normal = spec.to_string();
    let again = CalendarSpec::parse(&normal).expect("the normal form is valid");
    assert_eq!(again.to_string(), normal);
    let Ok(from) = jiff::Timestamp::from_second(i64::from(seconds)) else { return };
    if let Some(next) = spec.next_elapse(from, &jiff::tz::TimeZone::UTC) {
        assert!(next > from);
    }
});
