//! Any bytes as a message about a device.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_activation::devices::Uevent;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(event) = Uevent::parse(bytes) {
        assert!(event.device.starts_with('/'));
        assert_eq!(event.get("DEVPATH"), Some(event.device));
    }
});
