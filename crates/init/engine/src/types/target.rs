//! `.target`: up or down, with nothing behind it.

use serde::{Deserialize, Serialize};

use crate::protocol::{ActiveState, Input};

/// The state of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Down.
    #[default]
    Dead,
    /// Up.
    Active,
}

impl Target {
    pub(super) fn active(self) -> ActiveState {
        match self {
            Self::Dead => ActiveState::Inactive,
            Self::Active => ActiveState::Active,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Active => "active",
        }
    }

    pub(super) fn handle(&mut self, input: &Input) {
        match input {
            Input::Start { .. } => *self = Self::Active,
            Input::Stop => *self = Self::Dead,
            _ => {}
        }
    }
}
