//! Rows of the interface table, and how it is read from CSV.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) package: String,
    /// `field`, `message`, `enum` or `rpc`.
    pub(crate) kind: &'static str,
    /// The message, enum or service.
    pub(crate) owner: String,
    /// The field, value or method; empty for an empty message.
    pub(crate) name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.package, self.kind, self.owner)?;
        if self.name.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.name)
        }
    }
}

/// What the entry looks like on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    pub(crate) number: Option<i32>,
    /// A field's type, or a method's request.
    pub(crate) kind: String,
    /// A field's label or oneof, or a method's response.
    pub(crate) label: String,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self
            .number
            .map(|number| number.to_string())
            .unwrap_or_default();
        let parts = [number.as_str(), &self.kind, &self.label];
        let words: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(if words.is_empty() {
            "an empty message"
        } else {
            ""
        })?;
        f.write_str(&words.join(" "))
    }
}

/// Reads the table. Its cells hold neither commas nor quotes, so no CSV dialect is needed.
pub(crate) fn read(text: &str) -> Result<BTreeMap<Key, Shape>, String> {
    let mut entries = BTreeMap::new();
    for (line, row) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let [package, kind, owner, name, number, r#type, label] = cells[..] else {
            return Err(format!("line {}: {} cells, not 7", line + 1, cells.len()));
        };
        let kind = ["field", "message", "enum", "rpc"]
            .into_iter()
            .find(|known| *known == kind)
            .ok_or_else(|| format!("line {}: unknown kind {kind:?}", line + 1))?;
        let number = match number {
            "" => None,
            digits => Some(
                digits
                    .parse()
                    .map_err(|error| format!("line {}: {error}", line + 1))?,
            ),
        };
        let key = Key {
            package: package.into(),
            kind,
            owner: owner.into(),
            name: name.into(),
        };
        match entries.entry(key) {
            Entry::Occupied(taken) => {
                return Err(format!("line {}: {} stands twice", line + 1, taken.key()));
            }
            Entry::Vacant(free) => {
                free.insert(Shape {
                    number,
                    kind: r#type.into(),
                    label: label.into(),
                });
            }
        }
    }
    Ok(entries)
}
