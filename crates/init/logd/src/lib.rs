//! muster-logd.
pub mod config;
pub mod entry;
pub mod faults;
pub mod origin;
pub mod parse;
pub mod policy;
pub mod state;
pub mod store;
pub mod sys;
