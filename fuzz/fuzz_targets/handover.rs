//! Any bytes as a message of either side of the link between init and core, and as the state of an init: what is read
//! is whole, and reading it again gives the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_handover::{MAX_NAME, ToCore, ToInit};
use muster_init::state::State;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(ToInit::Store(names))) = ToInit::decode(bytes) {
        assert_eq!(names.iter().count(), names.len());
        assert!(names.iter().all(|name| (1..=MAX_NAME).contains(&name.len())));
    }
    match ToCore::decode(bytes) {
        Ok(Some(ToCore::Stored(names))) => assert_eq!(names.iter().count(), names.len()),
        Ok(Some(ToCore::Exits(exits))) => assert!(exits.iter().count() * 16 <= bytes.len()),
        _ => {}
    }
    if let (state, None) = State::decode(bytes) {
        assert_eq!(State::decode(&state.encode()), (state, None));
    }
});
