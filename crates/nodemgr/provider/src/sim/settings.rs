//! How the simulated cloud behaves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use muster_lifecycle::VerbSet;

use crate::capability::Capabilities;

/// How often something goes wrong, in parts of a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimFaults {
    /// A call fails and nothing has happened.
    pub fail: u16,
    /// A call is done and fails all the same: its answer is lost.
    pub lose_answer: u16,
    /// An order finds no capacity, though there would be some.
    pub no_capacity: u16,
    /// A running spot machine is taken back whenever it is looked at.
    pub interrupt: u16,
}

/// How many machines there are to be had; unset is as many as you like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimCapacity {
    /// On demand.
    pub on_demand: Option<u32>,
    /// As spot machines, by type. A type that is not here is not offered; an empty list offers every type.
    pub spot: BTreeMap<String, u32>,
    /// What a manager may have in all.
    pub quota: Option<u32>,
}

/// How the simulated cloud behaves. It is perfect unless told otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimSettings {
    /// The same seed and the same calls give the same failures.
    pub seed: u64,
    /// Whose machines it says that it has. What another account knows not may be there all the same.
    pub account: u32,
    /// How long a call takes.
    pub latency: RangeInclusive<Duration>,
    /// How long a machine is pending.
    pub boot: Duration,
    /// How long it stops or shuts down.
    pub halt: Duration,
    /// A graceful stop never ends, as with a system that hangs: only a forced one does.
    pub ignore_stop: bool,
    /// What goes wrong.
    pub faults: SimFaults,
    /// What there is.
    pub capacity: SimCapacity,
    /// The ways into machines that are told. Nobody is behind them.
    pub access: Capabilities,
    /// What can be asked of machines.
    pub verbs: VerbSet,
    /// What can be asked of those of them that are made from now on.
    pub made_with: VerbSet,
    /// What can be asked of those of them that are spot machines.
    pub spot_verbs: VerbSet,
}

impl Default for SimSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            account: 0,
            latency: Duration::ZERO..=Duration::ZERO,
            boot: Duration::ZERO,
            halt: Duration::ZERO,
            ignore_stop: false,
            faults: SimFaults::default(),
            capacity: SimCapacity::default(),
            access: Capabilities::default(),
            verbs: VerbSet::ALL,
            made_with: VerbSet::ALL,
            spot_verbs: VerbSet::ALL,
        }
    }
}
