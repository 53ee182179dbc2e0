//! `org.varlink.service`: what every daemon answers about itself, and the errors that all interfaces share.

use serde::{Deserialize, Serialize};

use crate::message::{Call, Reply};

/// Description of `org.varlink.service`.
pub const INTERFACE_TEXT: &str = include_str!("org.varlink.service.varlink");

const NAME: &str = "org.varlink.service";

/// An interface that a daemon offers.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub text: &'static str,
}

/// Who a daemon is.
#[derive(Clone, Copy, Debug)]
pub struct ServiceInfo {
    /// Who made it.
    pub vendor: &'static str,
    /// What it is.
    pub product: &'static str,
    /// Which version.
    pub version: &'static str,
    /// Where to read about it.
    pub url: &'static str,
    /// What it offers besides `org.varlink.service`.
    pub interfaces: &'static [Offered],
}

/// What `GetInfo` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfoReply {
    /// Who made it.
    pub vendor: Box<str>,
    /// What it is.
    pub product: Box<str>,
    /// Which version.
    pub version: Box<str>,
    /// Where to read about it.
    pub url: Box<str>,
    /// Names of the interfaces.
    pub interfaces: Vec<Box<str>>,
}

/// What `GetInterfaceDescription` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptionCall {
    /// Name of the interface.
    pub interface: Box<str>,
}

/// What `GetInterfaceDescription` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptionReply {
    /// The text.
    pub description: Box<str>,
}

impl ServiceInfo {
    /// Answers what is for `org.varlink.service`, and refuses what is for no interface of this daemon.
    #[must_use]
    pub fn answer(&self, call: &Call) -> Option<Reply> {
        let (interface, method) = call.split_method();
        if interface != NAME {
            let known = self.interfaces.iter().any(|own| own.name == interface);
            return (!known).then(|| ServiceError::InterfaceNotFound(interface.into()).reply());
        }
        Some(match method {
            "GetInfo" => self.info(),
            "GetInterfaceDescription" => match call.parameters.read::<DescriptionCall>() {
                Ok(wanted) => self.describe(&wanted.interface),
                Err(error) => error.reply(),
            },
            _ => ServiceError::MethodNotFound(call.method.clone()).reply(),
        })
    }

    fn offered(&self) -> impl Iterator<Item = Offered> {
        let own = Offered {
            name: NAME,
            text: INTERFACE_TEXT,
        };
        std::iter::once(own).chain(self.interfaces.iter().copied())
    }

    fn info(&self) -> Reply {
        Reply::of(&InfoReply {
            vendor: self.vendor.into(),
            product: self.product.into(),
            version: self.version.into(),
            url: self.url.into(),
            interfaces: self.offered().map(|own| own.name.into()).collect(),
        })
    }

    fn describe(&self, interface: &str) -> Reply {
        match self.offered().find(|own| own.name == interface) {
            Some(own) => Reply::of(&DescriptionReply {
                description: own.text.into(),
            }),
            None => ServiceError::InterfaceNotFound(interface.into()).reply(),
        }
    }
}

/// Errors that every interface may answer with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// There is no such interface.
    #[error("there is no interface {0}")]
    InterfaceNotFound(Box<str>),
    /// The interface has no such method.
    #[error("there is no method {0}")]
    MethodNotFound(Box<str>),
    /// The method is described and does not exist here.
    #[error("the method {0} is not available here")]
    MethodNotImplemented(Box<str>),
    /// A parameter is missing, too much, or not as it should be.
    #[error("parameter {parameter}: {reason}")]
    InvalidParameter {
        /// Which.
        parameter: Box<str>,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// The caller may not do that.
    #[error("permission denied")]
    PermissionDenied,
    /// The method answers many times and must be called with `more`.
    #[error("the method must be called with `more`")]
    ExpectedMore,
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl ServiceError {
    /// Finds in serde's words the field that they are about.
    pub(crate) fn invalid_parameter(error: &serde_json::Error) -> Self {
        let words = error.to_string();
        let field = words.split('`').nth(1).unwrap_or_default();
        Self::InvalidParameter {
            parameter: field.into(),
            reason: words.as_str().into(),
        }
    }

    /// Its name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::InterfaceNotFound(_) => "org.varlink.service.InterfaceNotFound",
            Self::MethodNotFound(_) => "org.varlink.service.MethodNotFound",
            Self::MethodNotImplemented(_) => "org.varlink.service.MethodNotImplemented",
            Self::InvalidParameter { .. } => "org.varlink.service.InvalidParameter",
            Self::PermissionDenied => "org.varlink.service.PermissionDenied",
            Self::ExpectedMore => "org.varlink.service.ExpectedMore",
        }
    }

    /// The reply that says so.
    #[must_use]
    pub fn reply(&self) -> Reply {
        let mut named = Named {
            interface: None,
            method: None,
            parameter: None,
            reason: None,
        };
        match self {
            Self::InterfaceNotFound(name) => named.interface = Some(name),
            Self::MethodNotFound(name) | Self::MethodNotImplemented(name) => {
                named.method = Some(name);
            }
            Self::InvalidParameter { parameter, reason } => {
                named.parameter = Some(parameter);
                named.reason = Some(reason);
            }
            Self::PermissionDenied | Self::ExpectedMore => {}
        }
        Reply::failure(self.name(), &named)
    }
}

#[cfg(test)]
mod tests;
