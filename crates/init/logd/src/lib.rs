//! muster-logd.
pub mod config;
pub mod parse;
pub mod policy;
pub mod state;
pub mod sys;
