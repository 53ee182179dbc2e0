//! Environment variables of instances.

use std::fmt;
use std::str::FromStr;

use crate::redact::Redacted;
use crate::servicemanager::v5 as wire;

use super::error::{ConvertError, Excerpt, InvalidValue, Problem, text};

/// Name of an environment variable: not empty, no `=`, no NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvVarName(Box<str>);

impl EnvVarName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvVarName {
    type Err = InvalidValue;

    fn from_str(name: &str) -> Result<Self, InvalidValue> {
        let refuse = |problem| Err(InvalidValue::new("environment variable name", problem));
        if name.is_empty() {
            return refuse(Problem::Missing);
        }
        match name.chars().find(|c| matches!(c, '=' | '\0')) {
            Some(character) => refuse(Problem::ForbiddenCharacter {
                value: Excerpt::new(name),
                character,
            }),
            None => Ok(Self(name.into())),
        }
    }
}

impl fmt::Display for EnvVarName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// An environment variable: can always be handed to `execve`.
///
/// Values may be secrets, so neither `Debug` nor an error shows one.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvVar {
    name: EnvVarName,
    value: String,
}

impl EnvVar {
    /// Refuses a NUL in the value.
    pub fn new(name: EnvVarName, value: String) -> Result<Self, InvalidValue> {
        if value.contains('\0') {
            let problem = Problem::ForbiddenCharacter {
                value: Excerpt::new("(redacted)"),
                character: '\0',
            };
            return Err(InvalidValue::new("environment variable value", problem));
        }
        Ok(Self { name, value })
    }

    /// The variable's name.
    pub fn name(&self) -> &EnvVarName {
        &self.name
    }

    /// The variable's value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvVar")
            .field("name", &self.name)
            .field("value", &Redacted(&self.value))
            .finish()
    }
}

impl TryFrom<wire::EnvVarInfo> for EnvVar {
    type Error = ConvertError;

    fn try_from(wire: wire::EnvVarInfo) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "EnvVarInfo";
        let name = text(MESSAGE, "name", &wire.name)?;
        Self::new(name, wire.value).map_err(|error| error.at(MESSAGE, "value"))
    }
}

impl From<EnvVar> for wire::EnvVarInfo {
    fn from(variable: EnvVar) -> Self {
        Self {
            name: variable.name.0.into(),
            value: variable.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_execve_cannot_take_is_refused() {
        for name in ["", "A=B", "A\0"] {
            assert!(name.parse::<EnvVarName>().is_err(), "accepted {name:?}");
        }
        let wire = wire::EnvVarInfo {
            name: "TOKEN".into(),
            value: "hunter2\0".into(),
        };
        let error = EnvVar::try_from(wire).unwrap_err().to_string();
        assert!(error.starts_with("EnvVarInfo.value: "), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn debug_shows_the_name_and_not_the_value() {
        let variable = EnvVar::new("TOKEN".parse().unwrap(), "hunter2".into()).unwrap();
        let text = format!("{variable:?}");
        assert!(
            text.contains("TOKEN") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
