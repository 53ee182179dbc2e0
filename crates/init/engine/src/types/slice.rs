//! `.slice`: a cgroup that other units live in.
//!
//! ```text
//!   dead --Start--> active
//!    ^               |
//!    +-----Stop------+
//! ```

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use crate::protocol::{ActiveState, Input, Output};

/// The state of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slice {
    /// Down.
    #[default]
    Dead,
    /// Its cgroup exists.
    Active,
}

impl Slice {
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

    pub(super) fn handle(&mut self, input: &Input, tools: &mut Tools<'_>) {
        match (input, *self) {
            (Input::Start { .. }, Self::Dead) => {
                tools.push(Output::MakeCgroup);
                *self = Self::Active;
            }
            (Input::Stop, Self::Active) => {
                tools.push(Output::ReleaseCgroup);
                *self = Self::Dead;
            }
            _ => {}
        }
    }
}
