//! What a provider is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_lifecycle::{Reason, State, Verb, VerbSet};
use serde::{Deserialize, Serialize};

use crate::capability::Capabilities;
use crate::error::ProviderError;
use crate::mark::{Mark, Owned};
use crate::name::{Home, ManagerId, ResourceId};
use crate::ssh::SshSeed;
use muster_mapping::MachineSpec;
use muster_template::ProviderId;

/// How much of a barrier a provider's machines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// What runs in a machine is kept from everything else.
    Isolated,
    /// Nothing is kept from anything, for this reason.
    Insecure(&'static str),
}

/// What a provider can do. It claims nothing that it does not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub id: ProviderId,
    /// What can be asked of its machines, at best. What can be asked of one machine, its description says.
    pub verbs: VerbSet,
    /// How its machines can be used, at best. What one machine offers, its description says.
    pub access: Capabilities,
    /// Whether it sells machines that it may take back.
    pub spot: bool,
    /// Every order gives the same machine.
    pub one_machine: bool,
    /// How much of a barrier its machines are.
    pub isolation: Isolation,
}

/// How a machine is paid for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purchase {
    /// For as long as it lives.
    #[default]
    OnDemand,
    /// At a lower price; the provider may take it back.
    Spot {
        /// Types that will do, the best first; none leaves it to the provider.
        types: Vec<String>,
        /// Whether one on demand is made when there is no spot machine to be had.
        fallback: bool,
    },
}

/// A machine that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// What it is like.
    pub spec: MachineSpec,
    /// Whose it will be, and the token that makes the order idempotent.
    pub mark: Mark,
    /// How it is paid for.
    pub purchase: Purchase,
    /// The keys it is born with, for providers whose machines are reached by ssh. They follow from the token, so that an order
    /// that is repeated is the same.
    pub ssh: Option<SshSeed>,
}

/// What a provider says about one of its machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// The provider's name of it.
    pub resource: ResourceId,
    /// Whose it is.
    pub mark: Mark,
    /// Where it is.
    pub state: State,
    /// Why, where the provider knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Whether it may be taken back.
    #[serde(default)]
    pub spot: bool,
    /// What can be asked of it, of what its provider can do at all.
    #[serde(default = "VerbSet::all", skip_serializing_if = "VerbSet::is_all")]
    pub verbs: VerbSet,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// How it can be used.
    #[serde(default)]
    pub access: Capabilities,
    /// What else the provider tells, for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// A provider's answer, to come.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ProviderError>>;

/// Makes machines and takes them away.
///
/// Every call may be repeated, and may be made after a call whose answer was lost. The conformance suite in `testing`
/// holds a provider to all of this.
pub trait Provider: fmt::Debug + Send + Sync {
    /// What it can do.
    fn profile(&self) -> &Profile;

    /// Makes a machine and marks it, in one step. A token that was used before gives the machine that was made then, in
    /// whatever state it is. It answers when the machine exists, not when it runs.
    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described>;

    /// Takes a machine away, and answers where it is: shutting down, or gone. One that is gone, or never was, is gone.
    ///
    /// Fails as refused when it bears another mark.
    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State>;

    /// How a machine is. One that is gone may be described as terminated for a while; later it is not there.
    ///
    /// Fails as refused when it bears another mark.
    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>>;

    /// Everything that bears a manager's mark, whether he remembers it or not.
    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>>;

    /// Asks something of a machine, and answers where that brought it. What brings it where it is already does nothing.
    /// [`Verb::Terminate`] is the same as [`destroy`](Self::destroy).
    ///
    /// Fails as unsupported, refused (an illegal state, another mark, nothing for this machine) or not found.
    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State>;

    /// Who answers now, where that depends on what is around the manager: its environment, a socket, a mounted disk. None where
    /// nobody else can.
    fn home(&self) -> Answer<'_, Option<Home>> {
        std::future::ready(Ok(None)).boxed()
    }
}
