//! What the orchestrator needs of others: whom to order a machine from, and how to reach it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_executor::Executor;
use muster_machines::{MachineOrder, Record};
use muster_provider::MachineId;
use muster_template::{ProviderId, TemplateName};

use crate::job::Slot;
use crate::run::RunId;
use crate::workflow::Wants;

/// A cause of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a machine cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach machine {machine}")]
pub struct ReachError {
    /// Which.
    pub machine: MachineId,
    /// Why.
    pub source: BoxError,
}

/// Gives the way to run commands in machines.
pub trait Reach: fmt::Debug + Send + Sync {
    /// An executor for a machine. It need not have connected yet: whether the machine answers, a probe tells.
    fn reach<'a>(
        &'a self,
        machine: &'a Record,
    ) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>>;
}

/// A machine that a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What it shall be like.
    pub template: TemplateName,
    /// Who shall make it; none leaves it open.
    pub provider: Option<ProviderId>,
    /// What is wanted beside that.
    pub wants: Wants,
    /// Whether the run may leave it: otherwise it is of no use to anybody after the run.
    pub may_stay: bool,
    /// The run that needs it.
    pub run: RunId,
    /// Its place in the run.
    pub slot: Slot,
    /// The how many-th attempt to get it, from 1: one that failed may be made elsewhere next time.
    pub attempt: u32,
}

/// Why nobody can make a machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot choose who makes a machine of the template {template}")]
pub struct ChooseError {
    /// Which.
    pub template: TemplateName,
    /// Why.
    pub source: BoxError,
}

/// What is done about a wish.
#[derive(Debug, Clone, PartialEq)]
pub enum Chosen {
    /// One is ordered. Its key and the run's label are set by the orchestrator.
    New(Box<MachineOrder>),
    /// One is taken that is free.
    Existing(MachineId),
}

/// Chooses who makes a machine, and how: template, mappings and policy become an order.
pub trait Chooser: fmt::Debug + Send + Sync {
    /// The order for a machine, or one that is free, if the wish allows that.
    fn choose<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Chosen, ChooseError>>;
}
