//! JSON out of bytes, with an end to depth and number of values.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects and lists within each other.
const DEPTH: usize = 32;

/// Reads a document of at most so many values.
pub(super) fn read(bytes: &[u8], values: usize) -> Result<Value, serde_json::Error> {
    let left = Cell::new(values);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Bounded {
        depth: DEPTH,
        left: &left,
    };
    let value = value.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Bounded<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Bounded<'_> {
    fn below<E: de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| E::custom("nested too deeply"))?;
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1);
        let left = left.ok_or_else(|| de::Error::custom("too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(below)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(below)?;
            if object.insert(key, value).is_some() {
                return Err(de::Error::custom("a key stands twice in an object"));
            }
        }
        Ok(Value::Object(object))
    }
}
