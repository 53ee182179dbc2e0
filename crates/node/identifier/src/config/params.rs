//! Taking known keys out of a table, and saying what was wrong with it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// The keys of `params` that nobody has asked for yet, and the problems so far.
#[derive(Debug)]
pub(super) struct Params {
    /// By lower-case key.
    left: BTreeMap<String, Value>,
    problems: Vec<String>,
}

impl Params {
    pub(super) fn new(params: &Value) -> Self {
        let mut left = BTreeMap::new();
        let mut problems = Vec::new();
        match params {
            Value::Object(table) => {
                for (key, value) in table {
                    if left
                        .insert(key.to_ascii_lowercase(), value.clone())
                        .is_some()
                    {
                        problems.push(format!("identifier.params.{key}: stands twice"));
                    }
                }
            }
            Value::Null => {}
            _ => problems.push("identifier.params: expected a table".to_owned()),
        }
        Self { left, problems }
    }

    pub(super) fn refuse(&mut self, key: &str, reason: &str) {
        self.problems
            .push(format!("identifier.params.{key}: {reason}"));
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let value = self.left.remove(&key.to_ascii_lowercase())?;
        (!value.is_null()).then_some(value)
    }

    /// A text that may be missing.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => {
                self.refuse(key, "expected text");
                None
            }
        }
    }

    /// A text that has to be there.
    pub(super) fn required(&mut self, key: &str) -> Option<String> {
        let before = self.problems.len();
        let text = self.text(key);
        if text.is_none() && self.problems.len() == before {
            self.refuse(key, "is missing");
        }
        text
    }

    /// No, unless it says yes.
    pub(super) fn flag(&mut self, key: &str) -> bool {
        match self.take(key) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(_) => {
                self.refuse(key, "expected true or false");
                false
            }
        }
    }

    /// A duration above zero.
    pub(super) fn duration(&mut self, key: &str) -> Option<Duration> {
        let value = self.take(key)?;
        let parsed = value
            .as_str()
            .and_then(|text| text.parse::<muster_config::Duration>().ok())
            .map(muster_config::Duration::get)
            .filter(|duration| !duration.is_zero());
        if parsed.is_none() {
            self.refuse(key, "expected a duration such as 10s");
        }
        parsed
    }

    /// All problems, with the keys that nobody asked for.
    pub(super) fn finish(mut self) -> Vec<String> {
        let unknown = self.left.into_keys();
        let unknown = unknown.map(|key| format!("identifier.params.{key}: is not known"));
        self.problems.extend(unknown);
        self.problems
    }
}
