//! Any text as a duration and as a size: what is read is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_config::{ByteSize, Duration};

fuzz_target!(|text: &str| {
    if let Ok(duration) = text.parse::<Duration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration));
    }
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
});
