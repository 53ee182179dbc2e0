//! An entry under construction: fields as `NAME=value`, one behind the other in one buffer.

use std::fmt::Write as _;

use muster_journal::ENTRY_FIELDS_MAX;

/// A value longer than this is cut: one line must not fill a file.
pub const VALUE_MAX: usize = 64 << 20;

/// Fields of one entry, or a part of them that many entries share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a field. `name` is one of the daemon's own, or was checked.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(b'=');
        self.bytes
            .extend_from_slice(&value[..value.len().min(VALUE_MAX)]);
        self.ends.push(self.bytes.len());
    }

    /// Adds a field if there is a value.
    pub fn push_some(&mut self, name: &str, value: Option<impl AsRef<[u8]>>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// Adds a field with a number.
    pub fn push_number(&mut self, name: &str, value: u64) {
        let mut text = NumberText::default();
        // The buffer has room for every number.
        let _ = write!(text, "{value}");
        self.push(name, &text.bytes[..text.length]);
    }

    /// Adds a field that is a `NAME=value` already.
    pub fn push_whole(&mut self, field: &[u8]) {
        self.bytes
            .extend_from_slice(&field[..field.len().min(VALUE_MAX)]);
        self.ends.push(self.bytes.len());
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
    }

    /// The value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find_map(|field| field.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The fields of an entry from its parts, at most as many as a journal takes.
#[must_use]
pub fn joined<'a>(parts: &[&'a Fields]) -> Vec<&'a [u8]> {
    let count = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut fields = Vec::with_capacity(count.min(ENTRY_FIELDS_MAX));
    for part in parts {
        let room = ENTRY_FIELDS_MAX - fields.len();
        fields.extend(part.iter().take(room));
    }
    fields
}

/// Room for the digits of a number, without the heap.
#[derive(Default)]
struct NumberText {
    bytes: [u8; 20],
    length: usize,
}

impl std::fmt::Write for NumberText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self
            .bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_out_as_they_went_in() {
        let mut fields = Fields::default();
        fields.push("MESSAGE", "a=b");
        fields.push_number("N", u64::MAX);
        fields.push_some("NONE", None::<&[u8]>);
        fields.push_whole(b"X=");
        let texts: Vec<_> = fields
            .iter()
            .map(|field| String::from_utf8_lossy(field))
            .collect();
        assert_eq!(texts, ["MESSAGE=a=b", "N=18446744073709551615", "X="]);
        assert_eq!(fields.get("MESSAGE"), Some(&b"a=b"[..]));
        assert_eq!(fields.get("MESS"), None);
        fields.clear();
        assert!(fields.is_empty());
    }

    #[test]
    fn no_more_fields_are_joined_than_a_journal_takes() {
        let mut many = Fields::default();
        for _ in 0..ENTRY_FIELDS_MAX {
            many.push("A", "");
        }
        assert_eq!(joined(&[&many, &many]).len(), ENTRY_FIELDS_MAX);
    }
}
