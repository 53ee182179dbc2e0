//! Any bytes as what is said about libvirt's domains: the first byte chooses by whom. What is understood says the same when
//! it is said again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_libvirt::Location;
use muster_libvirt::metadata::Metadata;
use muster_libvirt::protocol::{Hello, Reply, Request, read, write};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(line: &[u8]) {
    let Ok(message) = read::<T>(line) else { return };
    // Escapes may make it longer than it came.
    let Ok(written) = write(&message) else { return };
    assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(read::<T>(&written).expect("it was just written"), message);
}

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    match first % 5 {
        0 => again::<Reply>(bytes),
        1 => again::<Request>(bytes),
        2 => again::<Hello>(bytes),
        3 => {
            if let Some(found) = std::str::from_utf8(bytes).ok().and_then(Metadata::read) {
                assert!(found.mark.labels().iter().all(|(_, value)| !value.is_empty()));
            }
        }
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                let _ = Location::new(text);
            }
        }
    }
});
