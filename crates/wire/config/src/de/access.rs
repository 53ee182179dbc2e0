//! The inside of tables, lists and enumerations as serde reads it.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess};
use serde::de::{Deserializer, VariantAccess, Visitor};

use super::error::ReadError;
use super::node::NodeReader;
use crate::load::Setting;
use crate::redact::show;
use crate::tree::{Entry, Node, Table, Value};

/// The entries of a table that are not `null`, not unknown and not set aside.
pub(super) struct TableReader<'a> {
    entries: std::vec::IntoIter<(&'a str, NodeReader<'a>)>,
    value: Option<NodeReader<'a>>,
}

impl<'a> TableReader<'a> {
    /// Only keys that are fields, under the field's own name; the others are reported.
    pub(super) fn of_fields(
        parent: &NodeReader<'a>,
        table: &'a Table,
        fields: &'static [&'static str],
    ) -> Self {
        Self::new(parent, table, |entry| {
            let exact = fields
                .iter()
                .find(|field| entry.key.eq_ignore_ascii_case(field));
            let field = exact.or_else(|| fields.iter().find(|field| entry.means(field)));
            if field.is_none() {
                let child = parent.child(entry, &entry.key);
                parent
                    .context
                    .report_unknown(entry, &child.path, child.secret, fields);
            }
            field.copied()
        })
    }

    /// All keys as they are written.
    pub(super) fn any_keys(parent: &NodeReader<'a>, table: &'a Table) -> Self {
        Self::new(parent, table, |entry| Some(&entry.key))
    }

    fn new(
        parent: &NodeReader<'a>,
        table: &'a Table,
        name_of: impl Fn(&'a Entry) -> Option<&'a str>,
    ) -> Self {
        let mut entries: Vec<(&'a str, NodeReader<'a>)> = Vec::new();
        for entry in table.iter() {
            let Some(name) = name_of(entry) else { continue };
            let child = parent.child(entry, name);
            if matches!(entry.node.value, Value::Null) || parent.context.is_aside(&child.path) {
                continue;
            }
            entries.push((name, child));
        }
        Self {
            entries: entries.into_iter(),
            value: None,
        }
    }
}

impl<'a> MapAccess<'a> for TableReader<'a> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((name, value)) = self.entries.next() else {
            return Ok(None);
        };
        let key = seed
            .deserialize(serde::de::value::BorrowedStrDeserializer::new(name))
            .map_err(|error: ReadError| error.at(value.node, &value.path, value.secret))?;
        self.value = Some(value);
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let value = self
            .value
            .take()
            .ok_or_else(|| ReadError::unfit("a key before its value"))?;
        if !matches!(value.node.value, Value::Table(_)) {
            let setting = Setting {
                key: value.path.clone(),
                value: show(value.node, value.secret),
                origin: value.node.origin.clone(),
            };
            value
                .context
                .settings
                .borrow_mut()
                .insert(value.path.clone(), setting);
        }
        seed.deserialize(value)
    }
}

/// The elements of a list that are not set aside.
pub(super) struct ListReader<'a> {
    elements: std::vec::IntoIter<NodeReader<'a>>,
}

impl<'a> ListReader<'a> {
    pub(super) fn new(parent: &NodeReader<'a>, items: &'a [Node]) -> Self {
        let elements = items
            .iter()
            .enumerate()
            .map(|(index, node)| parent.element(node, index));
        let elements: Vec<_> = elements
            .filter(|element| !parent.context.is_aside(&element.path))
            .collect();
        Self {
            elements: elements.into_iter(),
        }
    }
}

impl<'a> SeqAccess<'a> for ListReader<'a> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        self.elements
            .next()
            .map(|element| seed.deserialize(element))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

/// `{"variant": content}`.
pub(super) struct EnumReader<'a> {
    variant: &'static str,
    content: NodeReader<'a>,
}

impl<'a> EnumReader<'a> {
    pub(super) fn new(
        parent: &NodeReader<'a>,
        table: &'a Table,
        variants: &'static [&'static str],
    ) -> Result<Self, ReadError> {
        let wanted =
            || ReadError::unfit(format!("a table with one key of {}", variants.join(", ")));
        let mut entries = table
            .iter()
            .filter(|entry| !matches!(entry.node.value, Value::Null));
        let (Some(entry), None) = (entries.next(), entries.next()) else {
            return Err(wanted());
        };
        let variant = variants
            .iter()
            .find(|name| entry.means(name))
            .ok_or_else(wanted)?;
        Ok(Self {
            variant,
            content: parent.child(entry, variant),
        })
    }
}

impl<'a> EnumAccess<'a> for EnumReader<'a> {
    type Error = ReadError;
    type Variant = NodeReader<'a>;

    fn variant_seed<V: DeserializeSeed<'a>>(
        self,
        seed: V,
    ) -> Result<(V::Value, NodeReader<'a>), ReadError> {
        let name: StrDeserializer<'_, ReadError> = self.variant.into_deserializer();
        Ok((seed.deserialize(name)?, self.content))
    }
}

impl<'a> VariantAccess<'a> for NodeReader<'a> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        let error = ReadError::unfit("allowed here: this choice has no settings");
        Err(error.at(self.node, &self.path, self.secret))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'a>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_struct("variant", fields, visitor)
    }
}
