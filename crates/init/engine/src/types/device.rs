//! `.device`: a piece of hardware that the kernel has, or has not.
//!
//! ```text
//!            Plugged(true)              Plugged(true)
//!   dead -------------------> plugged <-------------- tentative
//!    ^  <-------------------                              ^  |
//!    |      Plugged(false)                                |  |
//!    +---- KernelTable(false) ----------------------------|--+
//!    +---- KernelTable(true) -----------------------------+
//! ```
//!
//! Nothing can start a device: a start job waits, and ends when the device appears or its time is up. A device that only
//! the tables of mounts or swaps mention is tentative until the kernel announces it.

use serde::{Deserialize, Serialize};

use crate::protocol::{ActiveState, Input};

/// A device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The kernel has announced it.
    plugged: bool,
    /// A table of mounts or swaps mentions it.
    mentioned: bool,
}

impl Device {
    pub(super) fn active(self) -> ActiveState {
        match (self.plugged, self.mentioned) {
            (true, _) => ActiveState::Active,
            (false, true) => ActiveState::Activating,
            (false, false) => ActiveState::Inactive,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match (self.plugged, self.mentioned) {
            (true, _) => "plugged",
            (false, true) => "tentative",
            (false, false) => "dead",
        }
    }

    pub(super) fn handle(&mut self, input: &Input) {
        match input {
            Input::Plugged { present } => self.plugged = *present,
            Input::KernelTable { present } => self.mentioned = *present,
            _ => {}
        }
    }
}
