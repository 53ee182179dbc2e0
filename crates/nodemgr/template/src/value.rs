//! Values of fields, typed as documents type them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a field can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// As a field's value: the field is taken back. Inside lists and maps: `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction.
    Integer(i64),
    /// Any other number.
    Float(Finite),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Value>),
    /// Values by their keys.
    Map(BTreeMap<String, Value>),
}

/// A number that is neither infinite nor none at all, so that it can be compared, and written in JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finite(f64);

// Without the one number that is not itself, equality is complete.
impl Eq for Finite {}

impl Finite {
    /// The number, where it is one.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Value {
    /// The text, where it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// What a pattern is compared with: text itself, and numbers and truth values as they are written. Lists and maps have none.
    #[must_use]
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(Cow::Borrowed(text)),
            Self::Bool(_) | Self::Integer(_) | Self::Float(_) => Some(Cow::Owned(self.to_string())),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// What kind of value it is, with its article.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::String(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// For people: one line, text without quotes. It may hold secrets: see [`show`](crate::show).
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // With its point, also where there is nothing behind it.
            Self::Float(value) => write!(f, "{:?}", value.0),
            Self::String(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (nth, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if nth == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                for (nth, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if nth == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(value.0),
            Self::String(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyValue { depth: 1 }.deserialize(deserializer)
    }
}

/// Lists and maps inside each other, at most: what a file may have too.
const DEEPEST: usize = 32;

#[derive(Clone, Copy)]
struct AnyValue {
    depth: usize,
}

impl AnyValue {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth < DEEPEST {
            true => Ok(Self {
                depth: self.depth + 1,
            }),
            false => Err(E::custom(format_args!(
                "nested deeper than {DEEPEST} lists and maps"
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        let small = i64::try_from(value);
        let small = small.map_err(|_| E::custom(format_args!("{value} is out of range")))?;
        Ok(Value::Integer(small))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let finite = Finite::new(value).ok_or_else(|| E::custom("the number is not finite"))?;
        Ok(Value::Float(finite))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inside)?;
            if entries.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is given twice"));
            }
        }
        Ok(Value::Map(entries))
    }
}
