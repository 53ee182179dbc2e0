//! Why the registry did not do what it was asked.

use muster_lifecycle::RefusedVerb;
use muster_provider::{MachineId, ProviderError, ProviderId};
use muster_store::StoreError;

/// Why the registry cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartMachinesError {
    /// The database failed.
    #[error("cannot read which machines there are")]
    Store(#[source] StoreError),
    /// A record says what this version does not understand.
    #[error("cannot understand the record of {object}")]
    Record {
        /// Which.
        object: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Why an order was not taken. Nothing has happened then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// There is no such provider here.
    #[error("there is no provider {0} here: it is not configured")]
    NoProvider(ProviderId),
    /// There are as many machines as there may be.
    #[error("there are {0} machines already: destroy some, or raise the limit")]
    TooMany(usize),
    /// The provider's quota is used up.
    #[error("it would pass the quota of {provider}: {used} used")]
    Quota {
        /// Whose.
        provider: ProviderId,
        /// The limits, and what is used of them.
        used: String,
    },
    /// The key was used for another order.
    #[error(
        "machine {machine} was ordered with the key {key:?}, and differently: use another key for another machine"
    )]
    KeyUsed {
        /// The key.
        key: String,
        /// The machine.
        machine: MachineId,
    },
    /// The registry has ended.
    #[error("the registry of machines has ended")]
    Ended,
}

/// Why a machine was not made, or did not come to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProvisionError {
    /// The order was not taken.
    #[error("cannot order a machine")]
    Order(#[source] OrderError),
    /// It was not made, or it is gone before it ran.
    #[error("machine {machine} did not come to run, because {reason}{}", .failure.as_ref().map(|it| format!(": {it}")).unwrap_or_default())]
    Gone {
        /// Which.
        machine: MachineId,
        /// Why.
        reason: muster_lifecycle::Reason,
        /// What the provider said.
        failure: Option<String>,
    },
}

/// Why something was not asked of a machine. Nothing has happened then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no such machine.
    #[error("there is no machine {0}")]
    Unknown(MachineId),
    /// It may not, or its provider cannot.
    #[error("machine {machine} cannot do that")]
    Refused {
        /// Which.
        machine: MachineId,
        /// Why.
        source: RefusedVerb,
    },
    /// Its provider is not there to be asked.
    #[error("nothing can be asked of machine {machine}: {}", not_there(*.provider, .why.as_deref()))]
    NoProvider {
        /// Which.
        machine: MachineId,
        /// Its provider.
        provider: ProviderId,
        /// Why it cannot be used, if it is configured.
        why: Option<String>,
    },
    /// It is gone, or goes.
    #[error("machine {0} is gone or goes, so it can be no node")]
    Ending(MachineId),
    /// It is not free, and why.
    #[error("machine {0} is not free any more: {1}")]
    Taken(MachineId, &'static str),
    /// It is not in a pool.
    #[error("machine {0} belongs to no pool")]
    NoPool(MachineId),
    /// The registry has ended.
    #[error("the registry of machines has ended")]
    Ended,
}

/// What keeps a provider from being asked, and what to do.
fn not_there(provider: ProviderId, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("its provider {provider} cannot be used: {why}"),
        None => format!(
            "its provider {provider} is not configured any more: name it under `providers` of the configuration again"
        ),
    }
}

/// Why no machine was taken from a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// There is no such pool.
    #[error("there is no pool {0:?}")]
    Unknown(String),
    /// None is ready. The pool makes more, if it may.
    #[error("no machine of the pool {0:?} is ready")]
    NoneReady(String),
    /// The registry has ended.
    #[error("the registry of machines has ended")]
    Ended,
}

/// Why orphans could not be looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A provider failed.
    #[error("cannot look for orphans at provider {provider}")]
    Provider {
        /// Which.
        provider: ProviderId,
        /// Why.
        source: ProviderError,
    },
    /// A provider did not answer.
    #[error("provider {provider} did not answer in time")]
    NoAnswer {
        /// Which.
        provider: ProviderId,
    },
    /// The registry has ended.
    #[error("the registry of machines has ended")]
    Ended,
}
