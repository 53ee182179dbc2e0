//! What there is to choose from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_lifecycle::State;
use muster_provider::{Capabilities, MachineId};
use muster_template::{Arch, ProviderId};

/// What a machine has. What is unknown fits no need for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Virtual processors.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Disk in MiB.
    pub disk_mb: Option<u64>,
}

/// Keeps everybody away who does not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Its name, such as `drain`.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
}

/// How a machine is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Market {
    /// For as long as it lives.
    OnDemand,
    /// Cheaper; the provider may take it back.
    Spot,
}

/// Where the machine comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It would be made.
    New {
        /// How it would be paid for.
        market: Market,
        /// The provider's type of machine, where it has types.
        kind: Option<String>,
    },
    /// It exists and is free.
    Existing {
        /// Which.
        machine: MachineId,
        /// Where it is.
        state: State,
        /// How it is paid for.
        market: Market,
        /// The provider's type of machine, where it has types and that is known.
        kind: Option<String>,
    },
}

/// A machine that could be used, or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// A name that no other candidate has.
    pub name: String,
    /// The template it would be made from, or was.
    pub template: String,
    /// Who makes it, or has made it.
    pub provider: ProviderId,
    /// Whether it exists.
    pub origin: Origin,
    /// What it has.
    pub room: Room,
    /// Its architecture.
    pub arch: Option<Arch>,
    /// Its region.
    pub region: Option<String>,
    /// A part of the region that fails on its own.
    pub zone: Option<String>,
    /// What its owner says about it.
    pub labels: BTreeMap<String, String>,
    /// What keeps others away.
    pub taints: BTreeSet<Taint>,
    /// How it can be used.
    pub access: Capabilities,
    /// What an hour costs, in millionths of a unit of money.
    pub price: Option<u64>,
    /// How long until it can be used.
    pub ready_in: Duration,
    /// How long it will live from now on; unset is as long as it is wanted.
    pub lives_for: Option<Duration>,
}

impl Candidate {
    /// A new machine of a template, about which nothing else is known.
    #[must_use]
    pub fn new(name: &str, template: &str, provider: ProviderId) -> Self {
        Self {
            name: name.to_owned(),
            template: template.to_owned(),
            provider,
            origin: Origin::New {
                market: Market::OnDemand,
                kind: None,
            },
            room: Room::default(),
            arch: None,
            region: None,
            zone: None,
            labels: BTreeMap::new(),
            taints: BTreeSet::new(),
            access: Capabilities::new(),
            price: None,
            ready_in: Duration::ZERO,
            lives_for: None,
        }
    }

    /// Whether it would be made as a spot machine.
    pub(crate) const fn is_new_spot(&self) -> bool {
        matches!(
            self.origin,
            Origin::New {
                market: Market::Spot,
                ..
            }
        )
    }

    /// Whether it would be made.
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self.origin, Origin::New { .. })
    }
}
