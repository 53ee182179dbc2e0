//! One value of the tree as serde reads it.

use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::Context;
use super::access::{EnumReader, ListReader, TableReader};
use super::error::ReadError;
use crate::redact::is_secret;
use crate::tree::{Entry, Node, Value, join};

#[derive(Clone)]
pub(super) struct NodeReader<'a> {
    pub(super) node: &'a Node,
    pub(super) context: &'a Context,
    pub(super) path: String,
    /// This value, or one around it, stands under a key that holds a secret.
    pub(super) secret: bool,
}

impl<'a> NodeReader<'a> {
    pub(super) fn root(node: &'a Node, context: &'a Context) -> Self {
        Self {
            node,
            context,
            path: String::new(),
            secret: false,
        }
    }

    /// The value of `entry`, whose key the reader calls `name`.
    pub(super) fn child(&self, entry: &'a Entry, name: &str) -> Self {
        Self {
            node: &entry.node,
            context: self.context,
            path: join(&self.path, name),
            secret: self.secret || is_secret(name),
        }
    }

    pub(super) fn element(&self, node: &'a Node, index: usize) -> Self {
        Self {
            node,
            context: self.context,
            path: format!("{}[{index}]", self.path),
            secret: self.secret,
        }
    }

    fn noted(&self, error: ReadError) -> ReadError {
        error.at(self.node, &self.path, self.secret)
    }

    /// Reads the value as what it is: text from a flag as the JSON scalar it looks like.
    fn any<V: Visitor<'a>>(&self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visit_integer(*value, visitor),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Text(text) => match parse_text(text) {
                Some(Value::Bool(value)) => visitor.visit_bool(value),
                Some(Value::Integer(value)) => visit_integer(value, visitor),
                Some(Value::Float(value)) => visitor.visit_f64(value),
                _ => visitor.visit_borrowed_str(text),
            },
            Value::List(items) => visitor.visit_seq(ListReader::new(self, items)),
            Value::Table(table) => visitor.visit_map(TableReader::any_keys(self, table)),
        }
    }
}

fn visit_integer<'a, V: Visitor<'a>>(value: i128, visitor: V) -> Result<V::Value, ReadError> {
    if let Ok(value) = u64::try_from(value) {
        visitor.visit_u64(value)
    } else if let Ok(value) = i64::try_from(value) {
        visitor.visit_i64(value)
    } else {
        visitor.visit_i128(value)
    }
}

fn parse_text(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => text.parse().map(Value::Integer).ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            number.is_finite().then_some(Value::Float(number))
        }),
    }
}

impl<'a> Deserializer<'a> for NodeReader<'a> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.any(visitor).map_err(|error| self.noted(error))
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            _ => self.any(visitor),
        }
        .map_err(|error| self.noted(error))
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Null => visitor.visit_none().map_err(|error| self.noted(error)),
            _ => {
                let site = self.clone();
                visitor.visit_some(self).map_err(|error| site.noted(error))
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let site = self.clone();
        visitor
            .visit_newtype_struct(self)
            .map_err(|error| site.noted(error))
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Table(table) => visitor.visit_map(TableReader::of_fields(&self, table, fields)),
            _ => Err(ReadError::unfit("a table")),
        }
        .map_err(|error| self.noted(error))
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Table(table) => visitor.visit_map(TableReader::any_keys(&self, table)),
            _ => Err(ReadError::unfit("a table")),
        }
        .map_err(|error| self.noted(error))
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::List(items) => visitor.visit_seq(ListReader::new(&self, items)),
            _ => Err(ReadError::unfit("a list")),
        }
        .map_err(|error| self.noted(error))
    }

    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::String(text) | Value::Text(text) => {
                visitor.visit_enum(text.as_str().into_deserializer())
            }
            Value::Table(table) => EnumReader::new(&self, table, variants)
                .and_then(|reader| visitor.visit_enum(reader)),
            _ => Err(ReadError::unfit(format!("one of {}", variants.join(", ")))),
        }
        .map_err(|error| self.noted(error))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 bytes byte_buf unit unit_struct
        identifier ignored_any
    }
}
