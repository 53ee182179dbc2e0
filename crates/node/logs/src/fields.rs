//! The fields of an entry that are of interest, without those that are not and without more of them than is shown.

use std::collections::BTreeMap;

use muster_journal::{Entry, ReadError};

/// The start of a field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) bytes: Vec<u8>,
    /// Bytes that are not among them.
    pub(crate) left_out: u64,
}

/// Some fields of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(BTreeMap<&'static str, Value>);

impl Fields {
    /// Reads the first of each of these fields, at most `max` bytes with its name.
    pub(crate) fn read(
        entry: &Entry,
        names: &[&'static str],
        max: usize,
    ) -> Result<Self, ReadError> {
        let mut fields = Self::default();
        entry.each_field_start(max, |field, length| {
            let name = names.iter().find_map(|name| {
                let value = field.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some((*name, value))
            });
            if let Some((name, value)) = name {
                let shown = u64::try_from(field.len()).unwrap_or(u64::MAX);
                let value = Value {
                    bytes: value.to_vec(),
                    left_out: length.saturating_sub(shown),
                };
                fields.0.entry(name).or_insert(value);
            }
            fields.0.len() < names.len()
        })?;
        Ok(fields)
    }

    #[cfg(test)]
    pub(crate) fn of(fields: &[(&'static str, &str)]) -> Self {
        let mut all = Self::default();
        for (name, text) in fields {
            all.insert(name, text.as_bytes());
        }
        all
    }

    #[cfg(test)]
    pub(crate) fn insert(&mut self, name: &'static str, bytes: &[u8]) {
        let value = Value {
            bytes: bytes.to_vec(),
            left_out: 0,
        };
        self.0.insert(name, value);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A field that is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(&self.get(name)?.bytes).ok()
    }
}
