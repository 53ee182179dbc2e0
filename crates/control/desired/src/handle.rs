//! What others hold of the updates.

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{InstanceStatus, NodeId};
use muster_balance::{Placement, Reason};
use tokio::sync::{mpsc, oneshot, watch};

use crate::database::{self, LoadError};
use crate::diff::{Difference, diff};
use crate::document::DesiredStatus;
use crate::driver::{Command, Driver, Parts};
use crate::limits::Limits;
use crate::machine::{Accepted, Event, Machine, Origin, RollbackError, UpdateId, Version, Wish};
use crate::progress::Progress;
use crate::seams::Question;

/// How many commands wait.
const COMMANDS: usize = 64;

/// Why updates cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartUpdatesError {
    /// The last state cannot be read.
    #[error("cannot read what this Unit shall run")]
    Load(#[source] LoadError),
    /// The last state makes no sense.
    #[error("cannot go on with what this Unit shall run")]
    Recover(#[source] crate::machine::RecoverError),
}

/// Why a wish was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// There is nothing to go back to.
    #[error(transparent)]
    Rollback(RollbackError),
    /// The task has ended.
    #[error("updates have ended")]
    Gone,
}

/// What a wish would change.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Against what is wanted.
    pub differences: Vec<Difference>,
    /// What the balancer would be asked, for whoever wants to show where instances would be. It holds the wish.
    pub question: Question,
}

/// The handle. The task ends when every handle is gone; what runs goes on.
#[derive(Debug, Clone)]
pub struct Updates {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Arc<Progress>>,
}

impl Updates {
    /// Recovers and goes on from there. The future is the task.
    pub async fn start(
        parts: Parts,
        limits: Limits,
    ) -> Result<(Self, impl Future<Output = ()> + Send), StartUpdatesError> {
        let saved = database::load(&parts.store)
            .await
            .map_err(StartUpdatesError::Load)?;
        let (machine, first) = Machine::recover(limits.clone(), saved, std::time::Duration::ZERO)
            .map_err(StartUpdatesError::Recover)?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (publisher, progress) = watch::channel(Arc::new(machine.progress()));
        let driver = Driver::new(parts, limits, machine, publisher);
        Ok((Self { commands, progress }, driver.run(inbox, first)))
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ApplyError> {
        let (answer, wait) = oneshot::channel();
        let sent = self.commands.send(command(answer)).await;
        sent.map_err(|_| ApplyError::Gone)?;
        wait.await.map_err(|_| ApplyError::Gone)
    }

    async fn tell(&self, event: Event) {
        // Without the task there is nobody whom it would concern.
        let _ = self.commands.send(Command::Event(event)).await;
    }

    /// Wants this from now on. Answers when that is durable; [`progress`](Self::progress) tells what becomes of it.
    pub async fn apply(
        &self,
        desired: DesiredStatus,
        origin: Origin,
        name: impl Into<String>,
    ) -> Result<Accepted, ApplyError> {
        let wish = Wish {
            desired: Arc::new(desired),
            origin,
            name: name.into(),
            at: SystemTime::now(),
            places: Placement::new(),
        };
        self.ask(|answer| Command::Apply(wish, answer)).await
    }

    /// Wants again what was wanted by an earlier update, or, without one, what was wanted before.
    pub async fn rollback(&self, to: Option<UpdateId>) -> Result<Accepted, ApplyError> {
        let result = self
            .ask(|answer| Command::Rollback(to, SystemTime::now(), answer))
            .await?;
        result.map_err(ApplyError::Rollback)
    }

    /// What this would change.
    pub async fn preview(&self, desired: DesiredStatus) -> Result<Preview, ApplyError> {
        self.preview_of(Arc::new(desired)).await
    }

    /// What going back would change.
    pub async fn preview_rollback(&self, to: Option<UpdateId>) -> Result<Preview, ApplyError> {
        let earlier = self.ask(|answer| Command::Earlier(to, answer)).await?;
        let earlier = earlier.map_err(ApplyError::Rollback)?;
        self.preview_of(Arc::clone(&earlier.desired)).await
    }

    async fn preview_of(&self, desired: Arc<DesiredStatus>) -> Result<Preview, ApplyError> {
        let asked = Arc::clone(&desired);
        let answer = self.ask(|answer| Command::Preview(asked, answer)).await?;
        let (wanted, question) = answer;
        let nothing = DesiredStatus::default();
        let old = wanted.as_ref().map_or(&nothing, |it| &it.desired);
        Ok(Preview {
            differences: diff(old, &desired),
            question,
        })
    }

    /// What is wanted, then what was wanted before it, the newest first.
    pub async fn versions(&self) -> Result<Vec<Arc<Version>>, ApplyError> {
        self.ask(Command::Versions).await
    }

    /// How the newest update goes, as it changes.
    pub fn progress(&self) -> watch::Receiver<Arc<Progress>> {
        self.progress.clone()
    }

    /// A node is connected, anew or for the first time; what it says about its instances comes next.
    pub async fn node_up(&self, node: NodeId, paused: bool) {
        self.tell(Event::NodeUp { node, paused }).await;
    }

    /// A node is gone.
    pub async fn node_down(&self, node: NodeId) {
        self.tell(Event::NodeDown(node)).await;
    }

    /// A node misbehaved and is kept out for a while: no update waits for it until it is connected again.
    pub async fn node_shut_out(&self, node: NodeId) {
        self.tell(Event::NodeShutOut(node)).await;
    }

    /// A node was paused or resumed.
    pub async fn node_paused(&self, node: NodeId, paused: bool) {
        self.tell(Event::NodePaused { node, paused }).await;
    }

    /// A node tells how instances are; all of them if `whole`.
    pub async fn instances(&self, node: NodeId, whole: bool, statuses: Vec<InstanceStatus>) {
        self.tell(Event::Instances {
            node,
            whole,
            statuses,
        })
        .await;
    }

    /// Places instances anew, because nodes use too much, or their configuration, subjects or variables changed.
    pub async fn replan(&self, reason: Reason) {
        self.tell(Event::Replan(reason)).await;
    }
}
