//! The node manager: machines on demand, whoever provides them.
//!
//! This crate joins the parts that decide and act, each a crate of its own, into the daemon `muster-nodemgr`: templates and
//! mappings say what a machine shall be, the scheduler chooses, the registry makes and keeps it, executors reach it and the
//! orchestrator works on it. It runs as any user, for that user.
//!
//! # Entry points
//! * [`program::run`] is the daemon.
//! * [`config::RawConfig`] are the keys of its configuration: `nodemgr.yaml`, drop-ins beside it, `MUSTER_NODEMGR__...` variables
//!   and `--set`. [`muster_machine_api::places`] says where everything is otherwise.
//! * The contract is `muster.nodemgr.v1` ([`muster_machine_api`]), on a socket that only its owner can open.
//!
//! # Parts
//! | module | does |
//! |---|---|
//! | [`config`] | what is configured |
//! | [`catalog`] | templates, mappings and the lock file, read whenever they are needed |
//! | [`choice`] | from a wish to candidates, and to an order; pure |
//! | `providers` | makes those that are configured |
//! | [`identity`] | the manager's id, in a file of its own |
//! | `desk` | what every call works with; makes and takes machines, sets pools |
//! | `contacts` | tries whether machines answer on which somebody counts |
//! | `nodes` | starts the nodes of Units again with their machines |
//! | `orchestra` | what the orchestrator asks of the desk: whom to order from, and how to reach a machine |
//! | `access`, `ways` | what is needed to reach a machine, and through whom |
//! | `service`, `wire` | the contract's services |
//! | `daemon` | start and end |
//!
//! # Start and end
//! State folder, database (which a second daemon cannot open), id and secret, providers, registry, pools, orchestrator, socket;
//! then it says that it is ready. The end goes backwards. Machines stay as they are.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | registry ([`muster_machines`]) | commands (bounded to 64), providers, deadlines | database, a `watch` of machines, events |
//! | orchestrator ([`muster_orchestrate`]) | commands (bounded to 64), registry, executors | database, logs, events |
//! | contacts | the registry's `watch`, executors | whether machines of pools, and those that were silent, answer; 16 at once |
//! | nodes | events of the registry | a command on a machine that is a node, after it was started or rebooted; 8 at once |
//! | server | connections of the socket | answers; streams wait on the registry's `watch` and events, and hold nothing back |
//!
//! # Invariants
//! * Only root and the user that the daemon runs as may call anything.
//! * Nothing is ordered that the plan of the same wish would not show.
//! * A machine that is no barrier (this one) is chosen only by name, unless the policy says otherwise.
//! * File contents never pass through the daemon: whoever needs a machine asks for access and uses it himself. Private keys leave
//!   it only in the answer to that question.
//! * A mistake in a template never stops what runs: it is told to whoever asks for a machine.
//!
//! # What this crate does not do
//! It knows no provider's language. Inside machines it runs what runs ask for, and starts nodes again. It listens on no port.

#![forbid(unsafe_code)]

mod access;
pub mod catalog;
pub mod choice;
pub mod config;
mod contacts;
mod daemon;
mod desk;
pub mod identity;
mod log_file;
mod nodes;
mod orchestra;
pub mod program;
mod providers;
mod service;
mod ways;
mod wire;

use muster_fault::Point;

/// Every moment at which a test can kill the daemon, by the part that changes something lasting.
#[must_use]
pub fn fault_points() -> Vec<&'static [Point]> {
    vec![
        muster_docker::FAULT_POINTS,
        muster_machines::FAULT_POINTS,
        muster_orchestrate::FAULT_POINTS,
        muster_provider::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]
}
