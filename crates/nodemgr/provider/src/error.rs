//! Why a provider did not do what it was asked.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use muster_template::ProviderId;

/// A cause of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a failure means for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// It may work later, and may have worked now: the answer got lost. Ask again with the same token.
    Retryable,
    /// It is being done, and gets on, but takes longer than anybody should wait for one answer: ask again with the same token. Being
    /// asked often is no reason to give it up.
    Underway,
    /// The provider has none left of this kind: take another kind, place or provider.
    Capacity,
    /// Our account allows no more: destroy something, or take another provider.
    Quota,
    /// There is no such machine (any more).
    NotFound,
    /// The provider will never do this: the request is wrong, or not allowed, or the machine is not ours.
    Refused,
    /// The provider cannot do this with any machine.
    Unsupported,
}

impl FailureClass {
    /// Whether the same request may work later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Retryable | Self::Underway)
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Retryable => "it can be tried again",
            Self::Underway => "it is being done",
            Self::Capacity => "it has no capacity for that",
            Self::Quota => "the quota is used up",
            Self::NotFound => "there is none",
            Self::Refused => "it refuses",
            Self::Unsupported => "it does not support that",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What a provider was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To make a machine.
    Provision,
    /// To destroy one.
    Destroy,
    /// To describe one.
    Describe,
    /// To list ours.
    List,
    /// To say who answers.
    Home,
    /// To do something with one.
    Act(muster_lifecycle::Verb),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provision => "make",
            Self::Destroy => "destroy",
            Self::Describe => "describe",
            Self::List => "list",
            Self::Home => "name",
            Self::Act(verb) => verb.as_str(),
        })
    }
}

/// A provider failed.
#[derive(Debug, thiserror::Error)]
#[error("provider {provider} cannot {operation} {object}: {class}")]
pub struct ProviderError {
    /// Which provider.
    pub provider: ProviderId,
    /// At what.
    pub operation: Operation,
    /// With which machine, or of what.
    pub object: String,
    /// What it means.
    pub class: FailureClass,
    /// What it said.
    #[source]
    pub source: BoxError,
}
