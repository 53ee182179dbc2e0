//! Any bytes from a client, in any pieces, and any text as an interface description.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_varlink::frame::FrameReader;
use muster_varlink::idl::Interface;
use muster_varlink::{Call, Reply};

const LIMIT: usize = 4096;
const DEPTH: usize = 16;

/// The messages that these pieces give, until one is too long.
fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut reader = FrameReader::new(LIMIT);
    let mut found = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some((_, message))) => found.push(message.to_vec()),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = input;
    let whole = messages(std::iter::once(bytes));
    let split = messages(bytes.chunks(usize::from(step) + 1));
    // A message that is too long is noticed at its end at the latest.
    assert_eq!(whole, split);
    for message in &whole {
        if let Ok(call) = Call::decode(message, DEPTH) {
            let _ = call.parameters.read::<serde_json::Value>();
        }
        if let Ok(reply) = Reply::decode(message, DEPTH) {
            let encoded = reply.encode();
            let again = Reply::decode(&encoded[..encoded.len() - 1], DEPTH + 1).expect("it was a reply");
            assert_eq!(again.error, reply.error);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(interface) = Interface::parse(text)
    {
        let printed = interface.to_string();
        assert_eq!(Interface::parse(&printed).as_ref(), Ok(&interface), "{printed}");
    }
});
