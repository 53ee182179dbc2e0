//! The unit types: one state machine each, all behind [`Machine`].

mod target;

use serde::{Deserialize, Serialize};

use crate::protocol::{ActiveState, Context, Input, Outcome, Output};
use crate::spec::{KindSpec, UnitSpec};

/// The state of one unit, as its own type has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// A `.target`, and whatever is not loaded yet.
    Target(target::Target),
}

impl Machine {
    /// The machine of a unit of which only the name is known.
    #[must_use]
    pub fn for_name(_name: &str) -> Self {
        Self::Target(target::Target::default())
    }

    /// The machine for these settings, down.
    #[must_use]
    pub fn for_kind(_kind: &KindSpec) -> Self {
        Self::Target(target::Target::default())
    }

    /// Whether this machine is of the type of these settings.
    #[must_use]
    pub fn fits(&self, kind: &KindSpec) -> bool {
        matches!((self, kind), (Self::Target(_), KindSpec::Target(_)))
    }

    /// The state that everybody understands.
    #[must_use]
    pub fn active(&self) -> ActiveState {
        match self {
            Self::Target(machine) => machine.active(),
        }
    }

    /// The state in the type's own words.
    #[must_use]
    pub fn sub_state(&self) -> &'static str {
        match self {
            Self::Target(machine) => machine.sub_state(),
        }
    }

    /// How the last run ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::Success
    }

    /// Whether the last reload went wrong.
    #[must_use]
    pub fn reload_failed(&self) -> bool {
        false
    }

    /// Whether the machine, though on its way up, still wants to be told to start (it waits to be restarted).
    #[must_use]
    pub fn accepts_start(&self) -> bool {
        false
    }

    /// Whether it waits for the moment when nothing else is to be done.
    #[must_use]
    pub fn waits_for_idle(&self) -> bool {
        false
    }

    /// Takes an input in.
    pub fn handle(
        &mut self,
        spec: Option<&UnitSpec>,
        context: &Context,
        input: Input,
        out: &mut Vec<Output>,
    ) {
        let _ = (spec, context, &out);
        match self {
            Self::Target(machine) => machine.handle(&input),
        }
    }
}
