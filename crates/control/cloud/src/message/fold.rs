//! Structures out of JSON whose keys may be in any case.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

/// What is wrong with a value, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct InvalidField {
    /// Where: keys and indices, outermost first.
    path: String,
    problem: String,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl de::Error for InvalidField {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self {
            path: String::new(),
            problem: problem.to_string(),
        }
    }

    // The value itself stays out of the message: it may be a secret.
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("expected one of {}", expected.join(", ")))
    }
}

impl InvalidField {
    fn below(mut self, step: &dyn fmt::Display) -> Self {
        self.path = match self.path.as_str() {
            "" => step.to_string(),
            path => format!("{step}.{path}"),
        };
        self
    }
}

/// Reads a structure; keys match in any case, and those that it does not know are left out.
pub(super) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, InvalidField> {
    T::deserialize(Folded(value))
}

struct Folded(Value);

impl<'de> Deserializer<'de> for Folded {
    type Error = InvalidField;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidField> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::String(value) => visitor.visit_string(value),
            Value::Array(values) => visitor.visit_seq(Elements {
                values: values.into_iter(),
                index: 0,
            }),
            Value::Object(object) => visitor.visit_map(Entries::new(object, &[])),
            Value::Number(number) => {
                let text = || de::Error::custom("expected a number that fits");
                match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(value), ..) => visitor.visit_u64(value),
                    (_, Some(value), _) => visitor.visit_i64(value),
                    (.., Some(value)) => visitor.visit_f64(value),
                    _ => Err(text()),
                }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidField> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InvalidField> {
        match self.0 {
            Value::Object(object) => visitor.visit_map(Entries::new(object, fields)),
            _ => Err(de::Error::custom("expected an object")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, InvalidField> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InvalidField> {
        // All enumerations of the protocol are words.
        match self.0 {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            _ => Err(de::Error::custom("expected a word")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Elements {
    values: std::vec::IntoIter<Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Elements {
    type Error = InvalidField;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, InvalidField> {
        let Some(value) = self.values.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let element = seed.deserialize(Folded(value));
        element.map(Some).map_err(|error| error.below(&index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

struct Entries {
    entries: serde_json::map::IntoIter,
    fields: &'static [&'static str],
    value: Option<(String, Value)>,
}

impl Entries {
    fn new(object: Map<String, Value>, fields: &'static [&'static str]) -> Self {
        Self {
            entries: object.into_iter(),
            fields,
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries {
    type Error = InvalidField;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, InvalidField> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        let known = self
            .fields
            .iter()
            .find(|field| field.eq_ignore_ascii_case(&key));
        let name = known.map_or(key.as_str(), |field| *field);
        let found = seed.deserialize(StrDeserializer::<InvalidField>::new(name))?;
        self.value = Some((key, value));
        Ok(Some(found))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, InvalidField> {
        let (key, value) = self
            .value
            .take()
            .expect("a value is asked for after its key");
        seed.deserialize(Folded(value))
            .map_err(|error| error.below(&key))
    }
}
