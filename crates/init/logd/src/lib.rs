//! muster-logd.
pub mod config;
pub mod control;
pub mod daemon;
pub mod entry;
pub mod faults;
pub mod forward;
pub mod input;
pub mod notify;
pub mod options;
pub mod origin;
pub mod parse;
pub mod policy;
pub mod recorder;
pub mod sockets;
pub mod state;
pub mod store;
pub mod sys;
