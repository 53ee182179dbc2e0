//! Templates as values of an interface: written as the documents that they are read from, and read by the same rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_config::{Content, Key, Located, Origin, Source};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Template;
use crate::error::DescriptionError;
use crate::field::{self, LABEL_PREFIX, NAME};
use crate::fields::Fields;
use crate::findings::Findings;
use crate::value::Value;

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(NAME, &self.name)?;
        if let Some(parent) = &self.extends {
            map.serialize_entry("extends", parent)?;
        }
        let mut extra = BTreeMap::new();
        for (name, value) in nested(&self.fields) {
            if name == "labels" || field::common(name).is_some() {
                map.serialize_entry(name, &value)?;
            } else {
                extra.insert(name, value);
            }
        }
        if !extra.is_empty() {
            map.serialize_entry("extra", &extra)?;
        }
        if !self.overrides.is_empty() {
            let overrides: BTreeMap<&str, _> = (self.overrides.iter())
                .map(|(target, fields)| (target.as_str(), nested(fields)))
                .collect();
            map.serialize_entry("overrides", &overrides)?;
        }
        map.end()
    }
}

/// Fields as a document has them, with labels in a table of their own.
fn nested(fields: &Fields) -> BTreeMap<&str, Value> {
    let mut out = BTreeMap::new();
    let mut labels = BTreeMap::new();
    for (name, assigned) in fields.iter() {
        match name.strip_prefix(LABEL_PREFIX) {
            Some(key) => labels.insert(key.to_owned(), assigned.value.clone()),
            None => out.insert(name, assigned.value.clone()),
        };
    }
    if !labels.is_empty() {
        out.insert("labels", Value::Map(labels));
    }
    out
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(value).map_err(serde::de::Error::custom)
    }
}

impl Template {
    /// A template that was handed over as a value. Problems have no place, only the path of their key.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_value(value: Value) -> Result<Self, DescriptionError> {
        let origin = Origin {
            source: Arc::new(Source::Program("template".to_owned())),
            line: None,
            column: None,
        };
        let mut findings = Findings::default();
        let template = Self::read(&locate(value, &origin), &mut findings);
        match template {
            Some(template) if findings.is_empty() => Ok(template),
            _ => Err(DescriptionError::Invalid {
                problems: findings.into_problems(),
            }),
        }
    }
}

fn locate(value: Value, origin: &Origin) -> Located {
    let content = match value {
        Value::Null => Content::Null,
        Value::Bool(value) => Content::Bool(value),
        Value::Integer(value) => Content::Integer(i128::from(value)),
        Value::Float(value) => Content::Float(value.get()),
        Value::String(text) => Content::String(text),
        Value::List(items) => {
            Content::List(items.into_iter().map(|it| locate(it, origin)).collect())
        }
        Value::Map(entries) => {
            let entries = entries.into_iter().map(|(text, value)| {
                let key = Key {
                    text,
                    origin: origin.clone(),
                };
                (key, locate(value, origin))
            });
            Content::Table(entries.collect())
        }
    };
    Located {
        content,
        origin: origin.clone(),
    }
}
