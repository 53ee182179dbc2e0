//! The Unit's configuration: one document with a part for each node, accepted by all of them or taken by none.
//!
//! # Entry points
//! * [`UnitConfig::read`] is the parser; [`UnitConfig::for_node`] gives a node its part.
//! * [`UnitConfigManager`] keeps the one in force in a file, checks a new one on every connected node before it is set on any,
//!   and brings nodes that come later up to date ([`UnitConfigManager::node_connected`]).
//!
//! # Which part is whose
//! The one that names the node's id; else the one that names its type and no id; else an empty one. Version and node are
//! written into it, so that a node can tell whether it is meant.
//!
//! # What is taken
//! A semantic version that is strictly higher than the one in force. The same version is *already exists*, a lower one *wrong
//! state*. With none in force, or one that cannot be read any more, any version is taken.
//!
//! # Steps of an update
//! 1. read, and every node's part with it: a mistake is told with its path;
//! 2. every connected node checks its part, all at the same time; one refusal and nothing has happened;
//! 3. the document is written to the file: from here on it is in force, also after a crash;
//! 4. every connected node is given its part. Who fails now is in the status, and gets it again with its next connection.
//!
//! # Invariants
//! * One update at a time; whoever comes second waits and is then judged against what the first one left.
//! * The file holds a whole document or the one before.
//!
//! # What this crate does not do
//! It does not know how nodes are reached ([`NodeConfigs`](muster_smcontroller::NodeConfigs) does), and applies nothing: labels
//! and priorities are read by the balancer ([`UnitConfigManager::current`]).

mod document;
mod fault;
mod file;
mod manager;

pub use self::document::{InvalidUnitConfig, NodePart, UnitConfig};
pub use self::fault::FAULT_POINTS;
pub use self::file::KeepFileError;
pub use self::manager::{RefuseUnitConfig, UnitConfigManager, UnitConfigStatus};
