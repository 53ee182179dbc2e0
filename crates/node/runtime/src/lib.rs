//! What a runtime is to the launcher: one trait, and the types that cross it.
//!
//! A runtime turns an [`InstanceSpec`], in which everything is resolved (image on disk, network made, resources taken), into
//! something that runs, and tells how it is. The launcher decides *what* runs and *when*; a runtime knows *how*.
//!
//! # Contract
//! * Every method is idempotent: the launcher repeats what it does not know to be done after its own death.
//! * What runs belongs to the init system, not to the caller: it goes on when the Service Manager ends.
//! * [`Runtime::adopt`] comes first after a start. It answers with what still runs, and from then on [`Runtime::events`] tells
//!   about those too. It removes what is left of instances that are in neither list (mounts, folders, units that ended).
//! * A [`RunId`] names one start of one instance. Events of an earlier run say so, and are never taken for the present one's.
//! * An error says which step failed ([`RuntimeError`]) and leaves nothing behind of that step.
//! * What runs can be found on the machine ([`Runtime::place`]) by whoever measures it or reads its logs.
//!
//! # What this crate does not do
//! It runs nothing. Health over time, bursts, back-off and roll-back are the launcher's; limits are the runtime's.

mod event;
mod place;
mod spec;

pub use self::event::{Ended, RunEvent, RunId, RunState};
pub use self::place::RunPlace;
pub use self::spec::{
    HostEntry, ImagePaths, InstanceSpec, NetworkAttachment, ResourceGrant, RunPolicy, Secret,
};

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{InstanceIdent, RuntimeInfo};
use tokio::sync::mpsc;

/// How many events wait for the launcher before a runtime is held back.
pub const EVENT_QUEUE: usize = 256;

/// Why a runtime could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} instance {instance}")]
pub struct RuntimeError {
    /// Which instance.
    pub instance: InstanceIdent,
    /// What was being done, as a verb: `prepare the root file system of`, `start`, `stop`, `remove`.
    pub step: &'static str,
    /// Why it failed.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Why a runtime cannot say what still runs.
#[derive(Debug, thiserror::Error)]
#[error("cannot find out which instances run")]
pub struct AdoptError {
    /// Why it failed.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// An instance that was found running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Which instance.
    pub instance: InstanceIdent,
    /// The start it comes from.
    pub run: RunId,
    /// How often it had ended and was started again.
    pub restarts: u32,
    /// How it is now.
    pub state: RunState,
}

/// What runs instances on a node.
pub trait Runtime: Send + Sync + std::fmt::Debug + 'static {
    /// What it is and what it can carry, for the controller.
    fn info(&self) -> RuntimeInfo;

    /// Whether it only ends what it once started: its program is gone, or nobody asks for it any more. It is not announced.
    fn is_retired(&self) -> bool {
        false
    }

    /// Takes over what still runs of `known` instances. All others are asked to end, together, ended after `grace`, and removed.
    fn adopt(
        &self,
        known: Vec<InstanceIdent>,
        grace: Duration,
    ) -> BoxFuture<'_, Result<Vec<Adopted>, AdoptError>>;

    /// Makes everything that starting needs, so that [`start`](Self::start) is quick.
    fn prepare(&self, spec: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Starts it, and returns when its program runs (a later end is an event).
    fn start(&self, spec: Arc<InstanceSpec>, run: RunId)
    -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Asks it to end, ends it after `grace`, and removes everything that [`prepare`](Self::prepare) and
    /// [`start`](Self::start) made. An instance that is not there is a success.
    fn stop(
        &self,
        instance: InstanceIdent,
        grace: Duration,
    ) -> BoxFuture<'_, Result<(), RuntimeError>>;

    /// Where this start of an instance is on the machine, once it was started or adopted; `None` if it is nowhere. Reads a
    /// short file at most.
    fn place(&self, instance: &InstanceIdent, run: RunId) -> Option<RunPlace>;

    /// What happens to its instances, from now on. The launcher calls this once.
    fn events(&self) -> mpsc::Receiver<RunEvent>;
}
