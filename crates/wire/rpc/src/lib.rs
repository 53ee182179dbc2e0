//! Reconnecting streams.
mod ledger;
pub mod link;
pub mod slots;
