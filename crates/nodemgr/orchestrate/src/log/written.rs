//! What a command wrote, as a record keeps it: text as text, and everything else as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

/// Puts characters together that came in two pieces, so that text stays text.
#[derive(Debug, Default)]
pub(super) struct Characters {
    /// The beginning of one.
    cut: Vec<u8>,
}

impl Characters {
    /// What there is but for the beginning of a character at its end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.cut.extend_from_slice(bytes);
        let whole = whole_characters(&self.cut);
        let rest = self.cut.split_off(whole);
        std::mem::replace(&mut self.cut, rest)
    }

    /// What looked like the beginning of a character.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.cut)
    }
}

/// How many bytes there are without the beginning of a character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let length = match bytes[at] {
            0x00..=0x7f => return bytes.len(),
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
        };
        return match at + length > bytes.len() {
            true => at,
            false => bytes.len(),
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_cut_in_two_are_put_together() {
        let whole = "aé€😀z".as_bytes();
        for cut in 0..=whole.len() {
            let mut characters = Characters::default();
            let (first, second) = whole.split_at(cut);
            let pieces = [characters.take(first), characters.take(second)];
            assert!(
                pieces.iter().all(|it| std::str::from_utf8(it).is_ok()),
                "cut at {cut}"
            );
            assert_eq!(
                [pieces.concat(), characters.rest()].concat(),
                whole,
                "cut at {cut}"
            );
        }
        let mut characters = Characters::default();
        assert_eq!(characters.take(b"a\xff\xe2\x82"), b"a\xff");
        assert_eq!(characters.rest(), b"\xe2\x82");
        assert_eq!(characters.take(b"b"), b"b", "nothing is left over");
    }
}
