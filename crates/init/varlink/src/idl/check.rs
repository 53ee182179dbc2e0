//! JSON values held against a description.

use serde_json::Value;

use super::{Field, Interface, MemberKind, Type};

/// Where a value and a description differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Mismatch {
    /// The place in the value.
    pub path: Box<str>,
    /// What differs.
    pub what: Box<str>,
}

impl Interface {
    /// Whether `value` can be what the method takes.
    ///
    /// # Errors
    /// Where it differs.
    pub fn check_call(&self, method: &str, value: &Value) -> Result<(), Mismatch> {
        match self.member(method) {
            Some(MemberKind::Method { input, .. }) => self.check_fields(method, input, value),
            _ => mismatch(method, "there is no such method"),
        }
    }

    /// Whether `value` can be what the method gives.
    ///
    /// # Errors
    /// Where it differs.
    pub fn check_reply(&self, method: &str, value: &Value) -> Result<(), Mismatch> {
        match self.member(method) {
            Some(MemberKind::Method { output, .. }) => self.check_fields(method, output, value),
            _ => mismatch(method, "there is no such method"),
        }
    }

    /// Whether `value` can be what the error says.
    ///
    /// # Errors
    /// Where it differs.
    pub fn check_error(&self, error: &str, value: &Value) -> Result<(), Mismatch> {
        match self.member(error) {
            Some(MemberKind::Error(fields)) => self.check_fields(error, fields, value),
            _ => mismatch(error, "there is no such error"),
        }
    }

    /// Whether `value` is of the named type.
    ///
    /// # Errors
    /// Where it differs.
    pub fn check_type(&self, name: &str, value: &Value) -> Result<(), Mismatch> {
        match self.member(name) {
            Some(MemberKind::Type(of)) => self.check(name, of, value),
            _ => mismatch(name, "there is no such type"),
        }
    }

    fn check(&self, path: &str, of: &Type, value: &Value) -> Result<(), Mismatch> {
        let (fits, wanted) = match of {
            Type::Any => (true, ""),
            Type::Bool => (value.is_boolean(), "a truth value"),
            Type::Int => (value.is_i64() || value.is_u64(), "a whole number"),
            Type::Float => (value.is_number(), "a number"),
            Type::String => (value.is_string(), "text"),
            Type::Object => (value.is_object(), "an object"),
            Type::Optional(inner) => {
                return match value {
                    Value::Null => Ok(()),
                    value => self.check(path, inner, value),
                };
            }
            Type::Named(name) => {
                return match self.member(name) {
                    Some(MemberKind::Type(of)) => self.check(path, of, value),
                    _ => mismatch(path, "its type is not described"),
                };
            }
            Type::Array(inner) => {
                let Value::Array(items) = value else {
                    return mismatch(path, "expected a list");
                };
                return items.iter().enumerate().try_for_each(|(index, item)| {
                    self.check(&format!("{path}[{index}]"), inner, item)
                });
            }
            Type::Map(inner) => {
                let Value::Object(items) = value else {
                    return mismatch(path, "expected a map");
                };
                return items.iter().try_for_each(|(key, item)| {
                    self.check(&format!("{path}[{key}]"), inner, item)
                });
            }
            Type::Struct(fields) => return self.check_fields(path, fields, value),
            Type::Enum(words) => {
                let known = |text: &str| words.iter().any(|word| **word == *text);
                (
                    value.as_str().is_some_and(known),
                    "one of the described words",
                )
            }
        };
        if fits {
            return Ok(());
        }
        mismatch(path, &format!("expected {wanted}, found {value}"))
    }

    fn check_fields(&self, path: &str, fields: &[Field], value: &Value) -> Result<(), Mismatch> {
        let Value::Object(found) = value else {
            return mismatch(path, "expected an object");
        };
        for field in fields {
            let value = found.get(&*field.name).unwrap_or(&Value::Null);
            self.check(&format!("{path}.{}", field.name), &field.of, value)?;
        }
        let stranger = found
            .keys()
            .find(|key| !fields.iter().any(|field| *field.name == ***key));
        match stranger {
            Some(key) => mismatch(&format!("{path}.{key}"), "this field is not described"),
            None => Ok(()),
        }
    }
}

fn mismatch(path: &str, what: &str) -> Result<(), Mismatch> {
    Err(Mismatch {
        path: path.into(),
        what: what.into(),
    })
}
