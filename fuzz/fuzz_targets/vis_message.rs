//! Any text as a message of a VIS server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_identifier::message::{self, Answer, Incoming};

fuzz_target!(|text: &str| {
    let Ok(incoming) = message::read(text, |id| (!id.is_empty()).then(|| "A.B".to_owned())) else {
        return;
    };
    let value = match &incoming {
        Incoming::Answer {
            result: Ok(Answer::Value(value)),
            ..
        } => value,
        Incoming::Changed {
            result: Ok(value), ..
        } => value,
        Incoming::Answer {
            result: Err(refusal),
            ..
        }
        | Incoming::Changed {
            result: Err(refusal),
            ..
        } => {
            assert!(refusal.to_string().chars().count() <= 200);
            return;
        }
        _ => return,
    };
    let (texts, others) = message::texts(value);
    let length = value.as_array().map_or(1, Vec::len);
    assert!(texts.len() + others <= length.max(1));
});
