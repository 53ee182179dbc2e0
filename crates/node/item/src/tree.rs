//! JSON as a tree, built within limits.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::Limits;

/// A JSON value. Unlike `serde_json::Value` it has been counted, and no object had a key twice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Unsigned(u64),
    /// Every number that is no unsigned integer.
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
}

impl Tree {
    /// Reads a whole document. The text of the error says where it is wrong.
    pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, serde_json::Error> {
        let values = Cell::new(limits.values);
        let seed = Seed {
            values: &values,
            nesting: limits.nesting,
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let tree = seed.deserialize(&mut json)?;
        json.end()?;
        Ok(tree)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Unsigned(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// What is left of the limits.
#[derive(Clone, Copy)]
struct Seed<'b> {
    values: &'b Cell<usize>,
    nesting: usize,
}

impl Seed<'_> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let nesting = self.nesting.checked_sub(1);
        let nesting = nesting.ok_or_else(|| E::custom("more nesting than is read"))?;
        Ok(Self { nesting, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        let left = self.values.get().checked_sub(1);
        let left = left.ok_or_else(|| D::Error::custom("more values than are read"))?;
        self.values.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a negative number is only ever refused, and shown"
        )]
        Ok(u64::try_from(value).map_or(Tree::Float(value as f64), Tree::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let inner = self.inner()?;
        let mut fields = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            match fields.entry(key) {
                Entry::Vacant(vacant) => vacant.insert(map.next_value_seed(inner)?),
                Entry::Occupied(_) => return Err(A::Error::custom("a key stands twice")),
            };
        }
        Ok(Tree::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str, limits: &Limits) -> String {
        Tree::read(json.as_bytes(), limits).unwrap_err().to_string()
    }

    #[test]
    fn limits_hold_exactly() {
        let limits = Limits {
            nesting: 3,
            values: 5,
            ..Limits::default()
        };
        assert!(Tree::read(b"[[[1, 2]]]", &limits).is_ok());
        assert!(problem("[[[1, 2, 3]]]", &limits).contains("more values"));
        assert!(problem("[[[[]]]]", &limits).contains("more nesting"));
        // Far below the depth at which a recursive reader would run out of stack.
        assert!(problem(&"[".repeat(100_000), &Limits::default()).contains("more nesting"));
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for json in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "a": 2}}]"#] {
            assert!(problem(json, &Limits::default()).contains("a key stands twice"));
        }
    }

    #[test]
    fn what_follows_the_document_is_refused() {
        assert!(problem("{} {}", &Limits::default()).contains("trailing"));
    }
}
