//! The fields of a template that only this provider knows.

use std::collections::BTreeMap;

use muster_mapping::refusal;
use muster_template::{ProviderId, Value};

/// The fields, typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    /// `instance_type`: one, or several of which the first that is to be had is taken.
    pub(crate) kinds: Vec<String>,
    /// `subnet`
    pub(crate) subnet: Option<String>,
    /// `security_groups`: one or several, by their ids.
    pub(crate) security_groups: Vec<String>,
    /// `iam_profile`: its name or its ARN.
    pub(crate) iam_profile: Option<String>,
    /// `key_name`
    pub(crate) key_name: Option<String>,
    /// `zone`
    pub(crate) zone: Option<String>,
    /// `tenancy`
    pub(crate) tenancy: Option<String>,
    /// `volume_type`
    pub(crate) volume_type: Option<String>,
    /// `encrypted`
    pub(crate) encrypted: Option<bool>,
    /// `hibernation`
    pub(crate) hibernation: bool,
}

/// Values of a list, at most.
const MOST: usize = 32;
/// A value, at most, in bytes.
const LONGEST: usize = 512;

/// A field that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} {problem}")]
pub struct ExtraProblem {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Extra {
    /// Reads all fields; one that is not known is an error.
    pub(crate) fn read(fields: &BTreeMap<String, Value>) -> Result<Self, ExtraProblem> {
        let mut extra = Self::default();
        for (field, value) in fields {
            let taken = extra.take(field, value);
            taken.map_err(|problem| ExtraProblem {
                field: field.clone(),
                problem,
            })?;
        }
        Ok(extra)
    }

    fn take(&mut self, field: &str, value: &Value) -> Result<(), String> {
        match field {
            "instance_type" => self.kinds = texts(value)?,
            "subnet" => self.subnet = Some(text(value)?),
            "security_groups" => self.security_groups = texts(value)?,
            "iam_profile" => self.iam_profile = Some(text(value)?),
            "key_name" => self.key_name = Some(text(value)?),
            "zone" => self.zone = Some(text(value)?),
            "tenancy" => self.tenancy = Some(text(value)?),
            "volume_type" => self.volume_type = Some(text(value)?),
            "encrypted" => self.encrypted = Some(truth(value)?),
            "hibernation" => self.hibernation = truth(value)?,
            other => return Err(format!("is wrong: {}", refusal(ProviderId::Aws, other))),
        }
        Ok(())
    }
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str();
    let text = text.ok_or_else(|| format!("is {}, not text", value.kind()))?;
    let fits = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
    match fits {
        true => Ok(text.to_owned()),
        false => Err("is not text of one line".to_owned()),
    }
}

/// One text, or a list of them.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::List(items) if items.is_empty() => Err("is an empty list".to_owned()),
        Value::List(items) if items.len() > MOST => Err(format!("has more than {MOST} values")),
        Value::List(items) => items.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(format!("is {}, not a truth value", other.kind())),
    }
}

#[cfg(test)]
mod tests {
    use muster_mapping::own_fields;

    use super::*;

    fn read(json: &str) -> Result<Extra, ExtraProblem> {
        Extra::read(&serde_json::from_str(json).expect("a map"))
    }

    #[test]
    fn one_and_several_are_read() {
        let extra = read(
            r#"{ "instance_type": ["m6i.large", "m5.large"], "security_groups": "sg-1", "hibernation": true }"#,
        )
        .unwrap();
        assert_eq!(extra.kinds, ["m6i.large", "m5.large"]);
        assert_eq!(extra.security_groups, ["sg-1"]);
        assert!(extra.hibernation);
        assert_eq!(extra.encrypted, None);
    }

    /// What this file reads is what templates are told that can be said.
    #[test]
    fn every_field_that_is_promised_is_known() {
        for field in own_fields(ProviderId::Aws) {
            let value = match *field {
                "encrypted" | "hibernation" => "true",
                _ => r#""x""#,
            };
            read(&format!(r#"{{ "{field}": {value} }}"#)).expect(field);
        }
    }

    #[test]
    fn wrong_values_and_slips_are_refused() {
        for (json, why) in [
            (
                r#"{ "instance_typ": "m6i.large" }"#,
                "did you mean `instance_type`",
            ),
            (r#"{ "gpus": 3 }"#, "aws does not know this field"),
            (r#"{ "instance_type": [] }"#, "empty list"),
            (r#"{ "subnet": 3 }"#, "is an integer, not text"),
            (r#"{ "hibernation": "yes" }"#, "not a truth value"),
            (r#"{ "zone": "a\nb" }"#, "one line"),
        ] {
            let error = read(json).expect_err(json).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
