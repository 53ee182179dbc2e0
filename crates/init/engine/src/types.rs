//! The unit types: one state machine each, all behind [`Machine`].
//!
//! Each machine's file opens with its diagram. What they share (asking for things, the helper process of a step) is in
//! `tools`. A machine is small: what a unit keeps for life is the machine, so that rare parts are boxed.

mod automount;
mod device;
mod mount;
mod path;
mod scope;
mod service;
mod slice;
mod socket;
mod swap;
mod target;
#[cfg(test)]
mod tests;
mod timer;
mod tools;

use serde::{Deserialize, Serialize};

use crate::protocol::{ActiveState, Context, Input, Outcome, Output, Process, Role};
use crate::rest::AtRest;
use crate::spec::{KindSpec, UnitSpec};

pub use automount::{Automount, AutomountState};
pub use device::Device;
pub use mount::{Mount, MountState};
pub use path::{Path, PathState};
pub use scope::{Scope, ScopeState};
pub use service::{Health, Service, ServiceState, StoredName};
pub use slice::Slice;
pub use socket::{Socket, SocketState};
pub use swap::{Swap, SwapState};
pub use target::Target;
pub use timer::{Timer, TimerState};
pub use tools::Control;

use tools::Tools;

/// The state of one unit, as its own type has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// A `.service`.
    Service(AtRest<Service>),
    /// A `.socket`.
    Socket(Box<Socket>),
    /// A `.target`.
    Target(Target),
    /// A `.timer`.
    Timer(Box<Timer>),
    /// A `.path`.
    Path(Box<Path>),
    /// A `.mount`.
    Mount(Box<Mount>),
    /// A `.automount`.
    Automount(Automount),
    /// A `.swap`.
    Swap(Box<Swap>),
    /// A `.slice`.
    Slice(Slice),
    /// A `.scope`.
    Scope(Scope),
    /// A `.device`.
    Device(Device),
}

impl Machine {
    /// The machine of a unit of which only the name is known; a name without a known type is as inert as a target.
    #[must_use]
    pub fn for_name(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("service") => Self::Service(AtRest::default()),
            Some("socket") => Self::Socket(Box::default()),
            Some("timer") => Self::Timer(Box::default()),
            Some("path") => Self::Path(Box::default()),
            Some("mount") => Self::Mount(Box::default()),
            Some("automount") => Self::Automount(Automount::default()),
            Some("swap") => Self::Swap(Box::default()),
            Some("slice") => Self::Slice(Slice::default()),
            Some("scope") => Self::Scope(Scope::default()),
            Some("device") => Self::Device(Device::default()),
            _ => Self::Target(Target::default()),
        }
    }

    /// The machine for these settings, down.
    #[must_use]
    pub fn for_kind(kind: &KindSpec) -> Self {
        match kind {
            KindSpec::Service(_) => Self::Service(AtRest::default()),
            KindSpec::Socket(_) => Self::Socket(Box::default()),
            KindSpec::Target(_) => Self::Target(Target::default()),
            KindSpec::Timer(_) => Self::Timer(Box::default()),
            KindSpec::Path(_) => Self::Path(Box::default()),
            KindSpec::Mount(_) => Self::Mount(Box::default()),
            KindSpec::Automount(_) => Self::Automount(Automount::default()),
            KindSpec::Swap(_) => Self::Swap(Box::default()),
            KindSpec::Slice(_) => Self::Slice(Slice::default()),
            KindSpec::Scope(_) => Self::Scope(Scope::default()),
            KindSpec::Device(_) => Self::Device(Device::default()),
        }
    }

    /// Whether this machine is of the type of these settings.
    #[must_use]
    pub fn fits(&self, kind: &KindSpec) -> bool {
        matches!(
            (self, kind),
            (Self::Service(_), KindSpec::Service(_))
                | (Self::Socket(_), KindSpec::Socket(_))
                | (Self::Target(_), KindSpec::Target(_))
                | (Self::Timer(_), KindSpec::Timer(_))
                | (Self::Path(_), KindSpec::Path(_))
                | (Self::Mount(_), KindSpec::Mount(_))
                | (Self::Automount(_), KindSpec::Automount(_))
                | (Self::Swap(_), KindSpec::Swap(_))
                | (Self::Slice(_), KindSpec::Slice(_))
                | (Self::Scope(_), KindSpec::Scope(_))
                | (Self::Device(_), KindSpec::Device(_))
        )
    }

    /// The state that everybody understands.
    #[must_use]
    pub fn active(&self) -> ActiveState {
        match self {
            Self::Service(machine) => machine.active(),
            Self::Socket(machine) => machine.active(),
            Self::Target(machine) => machine.active(),
            Self::Timer(machine) => machine.active(),
            Self::Path(machine) => machine.active(),
            Self::Mount(machine) => machine.active(),
            Self::Automount(machine) => machine.active(),
            Self::Swap(machine) => machine.active(),
            Self::Slice(machine) => machine.active(),
            Self::Scope(machine) => machine.active(),
            Self::Device(machine) => machine.active(),
        }
    }

    /// The state in the type's own words.
    #[must_use]
    pub fn sub_state(&self) -> &'static str {
        match self {
            Self::Service(machine) => machine.sub_state(),
            Self::Socket(machine) => machine.sub_state(),
            Self::Target(machine) => machine.sub_state(),
            Self::Timer(machine) => machine.sub_state(),
            Self::Path(machine) => machine.sub_state(),
            Self::Mount(machine) => machine.sub_state(),
            Self::Automount(machine) => machine.sub_state(),
            Self::Swap(machine) => machine.sub_state(),
            Self::Slice(machine) => machine.sub_state(),
            Self::Scope(machine) => machine.sub_state(),
            Self::Device(machine) => machine.sub_state(),
        }
    }

    /// How the last run ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Service(machine) => machine.outcome,
            Self::Socket(machine) => machine.outcome,
            Self::Timer(machine) => machine.outcome,
            Self::Path(machine) => machine.outcome,
            Self::Mount(machine) => machine.outcome,
            Self::Automount(machine) => machine.outcome,
            Self::Swap(machine) => machine.outcome,
            Self::Scope(machine) => machine.outcome,
            Self::Target(_) | Self::Slice(_) | Self::Device(_) => Outcome::Success,
        }
    }

    /// The processes that it knows, with what they are to it.
    pub fn processes(&self) -> impl Iterator<Item = (Role, &Process)> {
        let (main, control, probe) = match self {
            Self::Service(machine) => (
                machine.main.as_ref(),
                machine.control.as_ref(),
                machine.probe(),
            ),
            Self::Socket(machine) => (None, machine.control.process(), None),
            Self::Mount(machine) => (None, machine.control.process(), None),
            Self::Swap(machine) => (None, machine.control.process(), None),
            _ => (None, None, None),
        };
        let of = |role, process: Option<_>| process.map(|process| (role, process));
        [
            of(Role::Main, main),
            of(Role::Control, control),
            of(Role::Probe, probe),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether the last reload went wrong.
    #[must_use]
    pub fn reload_failed(&self) -> bool {
        match self {
            Self::Service(machine) => machine.reload_failed,
            Self::Mount(machine) => machine.reload_failed,
            _ => false,
        }
    }

    /// Whether the machine, though on its way up, still wants to be told to start (it waits to be restarted).
    #[must_use]
    pub fn accepts_start(&self) -> bool {
        matches!(self, Self::Service(machine) if machine.accepts_start())
    }

    /// Whether a unit that is up can be told to reload now, and not only later.
    #[must_use]
    pub fn accepts_reload(&self) -> bool {
        !matches!(self, Self::Service(machine) if !machine.accepts_reload())
    }

    /// Whether it waits for the moment when nothing else is to be done.
    #[must_use]
    pub fn waits_for_idle(&self) -> bool {
        matches!(self, Self::Service(machine) if machine.waits_for_idle())
    }

    /// Takes an input in. A unit without settings is not started, so it has nothing to handle.
    pub fn handle(
        &mut self,
        spec: Option<&UnitSpec>,
        context: &Context,
        input: Input,
        out: &mut Vec<Output>,
    ) {
        let Some(spec) = spec else { return };
        let mut tools = Tools { context, out };
        let tools = &mut tools;
        match (self, &spec.kind) {
            (Self::Service(machine), KindSpec::Service(spec)) => {
                machine.handle(spec, input, tools);
                machine.release();
            }
            (Self::Socket(machine), KindSpec::Socket(spec)) => machine.handle(spec, input, tools),
            (Self::Target(machine), KindSpec::Target(_)) => machine.handle(&input),
            (Self::Timer(machine), KindSpec::Timer(spec)) => machine.handle(spec, &input, tools),
            (Self::Path(machine), KindSpec::Path(spec)) => machine.handle(spec, &input, tools),
            (Self::Mount(machine), KindSpec::Mount(spec)) => machine.handle(spec, input, tools),
            (Self::Automount(machine), KindSpec::Automount(spec)) => {
                machine.handle(spec, &input, tools);
            }
            (Self::Swap(machine), KindSpec::Swap(spec)) => machine.handle(spec, input, tools),
            (Self::Slice(machine), KindSpec::Slice(_)) => machine.handle(&input, tools),
            (Self::Scope(machine), KindSpec::Scope(spec)) => machine.handle(spec, &input, tools),
            (Self::Device(machine), KindSpec::Device(_)) => machine.handle(&input),
            // The loader changed the type of a unit that still runs: it is stopped as what it was.
            _ => {}
        }
    }
}
