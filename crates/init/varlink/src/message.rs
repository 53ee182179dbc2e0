//! Calls and replies as values, and as JSON.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::nests_deeper;
use crate::service::ServiceError;

/// How a call wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// Once.
    Once,
    /// Once or many times.
    More,
    /// Not at all.
    Oneway,
    /// Once; after that the connection is to speak another protocol.
    Upgrade,
}

/// A method call.
#[derive(Debug)]
pub struct Call {
    /// Interface and method, `io.example.Interface.Method`.
    pub method: Box<str>,
    /// What it is called with.
    pub parameters: Parameters,
    /// How it wants to be answered.
    pub mode: CallMode,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// A JSON object that was not looked into yet.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Option<Box<RawValue>>);

/// Why a message is none.
#[derive(Debug, thiserror::Error)]
pub enum MalformedMessage {
    /// It is not JSON, or JSON of another shape.
    #[error("a message is not JSON, or not of the right shape")]
    Json(#[source] serde_json::Error),
    /// Too many brackets within each other.
    #[error("a message nests deeper than {limit} levels")]
    TooDeep {
        /// How deep it may be.
        limit: usize,
    },
    /// Its parameters are not an object.
    #[error("the parameters of a message are not an object")]
    ParametersNotObject,
    /// Its flags contradict each other.
    #[error("a call asks for more than one of `more`, `oneway` and `upgrade`")]
    ContradictoryFlags,
    /// The method has no interface, or is too long.
    #[error("a call names no method of an interface")]
    BadMethod,
}

/// Longest name of a method.
const MAX_METHOD: usize = 255;

#[derive(Deserialize)]
struct CallOnWire<'m> {
    #[serde(borrow)]
    method: Cow<'m, str>,
    #[serde(borrow, default)]
    parameters: Option<&'m RawValue>,
    #[serde(default)]
    more: Option<bool>,
    #[serde(default)]
    oneway: Option<bool>,
    #[serde(default)]
    upgrade: Option<bool>,
}

impl Call {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is not a call.
    pub fn decode(message: &[u8], depth: usize) -> Result<Self, MalformedMessage> {
        if nests_deeper(message, depth) {
            return Err(MalformedMessage::TooDeep { limit: depth });
        }
        let wire: CallOnWire<'_> =
            serde_json::from_slice(message).map_err(MalformedMessage::Json)?;
        if wire.method.len() > MAX_METHOD || !wire.method.contains('.') {
            return Err(MalformedMessage::BadMethod);
        }
        let flags = [wire.more, wire.oneway, wire.upgrade].map(|flag| flag == Some(true));
        let mode = match flags {
            [false, false, false] => CallMode::Once,
            [true, false, false] => CallMode::More,
            [false, true, false] => CallMode::Oneway,
            [false, false, true] => CallMode::Upgrade,
            _ => return Err(MalformedMessage::ContradictoryFlags),
        };
        Ok(Self {
            method: wire.method.into(),
            parameters: Parameters::new(wire.parameters)?,
            mode,
            fds: Vec::new(),
        })
    }

    /// The message that makes this call, with its NUL.
    #[must_use]
    pub fn encode(method: &str, parameters: &RawValue, mode: CallMode) -> Vec<u8> {
        let mut message = Vec::with_capacity(64 + method.len() + parameters.get().len());
        message.extend_from_slice(b"{\"method\":");
        push_string(&mut message, method);
        message.extend_from_slice(b",\"parameters\":");
        message.extend_from_slice(parameters.get().as_bytes());
        message.extend_from_slice(match mode {
            CallMode::Once => b"",
            CallMode::More => b",\"more\":true",
            CallMode::Oneway => b",\"oneway\":true",
            CallMode::Upgrade => b",\"upgrade\":true",
        });
        message.extend_from_slice(b"}\0");
        message
    }

    /// Interface and method.
    #[must_use]
    pub fn split_method(&self) -> (&str, &str) {
        self.method.rsplit_once('.').unwrap_or((&self.method, ""))
    }
}

impl Parameters {
    fn new(raw: Option<&RawValue>) -> Result<Self, MalformedMessage> {
        if raw.is_some_and(|raw| !raw.get().starts_with('{')) {
            return Err(MalformedMessage::ParametersNotObject);
        }
        Ok(Self(raw.map(ToOwned::to_owned)))
    }

    /// The JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("{}", |raw| raw.get())
    }

    /// The parameters as a value.
    ///
    /// # Errors
    /// Which parameter is not as it should be.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ServiceError> {
        serde_json::from_str(self.text()).map_err(|error| ServiceError::invalid_parameter(&error))
    }
}

/// An answer to a call.
#[derive(Debug)]
pub struct Reply {
    /// The error's full name; `None` for success.
    pub error: Option<Cow<'static, str>>,
    /// What is answered.
    pub parameters: Parameters,
    /// More replies follow.
    pub continues: bool,
    /// Descriptors that go with it.
    pub fds: Vec<OwnedFd>,
}

#[derive(Deserialize)]
struct ReplyOnWire<'m> {
    #[serde(borrow, default)]
    parameters: Option<&'m RawValue>,
    #[serde(default)]
    continues: Option<bool>,
    #[serde(borrow, default)]
    error: Option<Cow<'m, str>>,
}

impl Reply {
    /// Success, without content.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            error: None,
            parameters: Parameters(None),
            continues: false,
            fds: Vec::new(),
        }
    }

    /// Success, with a value that serialises to an object.
    ///
    /// # Panics
    /// If the value has no JSON form (a map with keys that are not text): a mistake in the type, whatever it holds.
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(parameters: &T) -> Self {
        Self {
            parameters: Parameters(Some(to_raw(parameters))),
            ..Self::empty()
        }
    }

    /// An error by its full name.
    ///
    /// # Panics
    /// As [`Reply::of`].
    #[must_use]
    pub fn failure<T: Serialize + ?Sized>(
        error: impl Into<Cow<'static, str>>,
        parameters: &T,
    ) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::of(parameters)
        }
    }

    /// The same, with more to follow.
    #[must_use]
    pub fn and_more(mut self) -> Self {
        self.continues = true;
        self
    }

    /// The same, with descriptors.
    #[must_use]
    pub fn with_fds(mut self, fds: Vec<OwnedFd>) -> Self {
        self.fds = fds;
        self
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is not a reply.
    pub fn decode(message: &[u8], depth: usize) -> Result<Self, MalformedMessage> {
        if nests_deeper(message, depth) {
            return Err(MalformedMessage::TooDeep { limit: depth });
        }
        let wire: ReplyOnWire<'_> =
            serde_json::from_slice(message).map_err(MalformedMessage::Json)?;
        Ok(Self {
            error: wire.error.map(|name| Cow::Owned(name.into_owned())),
            parameters: Parameters::new(wire.parameters)?,
            continues: wire.continues == Some(true),
            fds: Vec::new(),
        })
    }

    /// The message, with its NUL.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let parameters = self.parameters.text();
        let mut message = Vec::with_capacity(48 + parameters.len());
        message.push(b'{');
        if let Some(error) = &self.error {
            message.extend_from_slice(b"\"error\":");
            push_string(&mut message, error);
            message.push(b',');
        }
        message.extend_from_slice(b"\"parameters\":");
        message.extend_from_slice(parameters.as_bytes());
        if self.continues {
            message.extend_from_slice(b",\"continues\":true");
        }
        message.extend_from_slice(b"}\0");
        message
    }
}

/// # Panics
/// See [`Reply::of`].
pub(crate) fn to_raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a message's type has a JSON form")
}

fn push_string(message: &mut Vec<u8>, text: &str) {
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(message, text);
}

#[cfg(test)]
mod tests;
