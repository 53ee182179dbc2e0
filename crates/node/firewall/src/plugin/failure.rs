//! CNI's error object.

use std::error::Error;
use std::iter;

use serde_json::{Value, json};

/// Why the plugin failed, in CNI's numbers: up to 99 they are CNI's own, above the plugin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureCode {
    /// The caller speaks no version that the plugin knows.
    Version = 1,
    /// A variable of the environment is missing or wrong.
    Environment = 4,
    /// Standard input could not be read.
    Io = 5,
    /// The configuration is not JSON, or not of the right shape.
    Decode = 6,
    /// The configuration says something that cannot be.
    Config = 7,
    /// The packet filter refused.
    Filter = 100,
    /// CHECK found that the rules are not there.
    NotInPlace = 101,
}

/// A failure, as its caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    version: String,
    code: FailureCode,
    message: String,
    details: String,
}

impl Failure {
    /// A failure without a cause.
    pub fn plain(version: &str, code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            version: version.to_owned(),
            code,
            message: message.into(),
            details: String::new(),
        }
    }

    /// A failure with a cause, whose own causes are told as well.
    pub fn new(
        version: &str,
        code: FailureCode,
        message: impl Into<String>,
        cause: &(dyn Error + 'static),
    ) -> Self {
        let chain = iter::successors(Some(cause), |error| (*error).source());
        let details: Vec<String> = chain.map(ToString::to_string).collect();
        Self {
            details: details.join(": "),
            ..Self::plain(version, code, message)
        }
    }

    /// Which kind of failure.
    pub fn code(&self) -> FailureCode {
        self.code
    }

    /// The object for standard output.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "cniVersion": self.version,
            "code": self.code as u32,
            "msg": self.message,
        });
        if !self.details.is_empty() {
            object["details"] = Value::from(self.details.as_str());
        }
        object
    }
}
