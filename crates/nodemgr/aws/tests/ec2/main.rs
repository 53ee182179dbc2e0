//! The provider against EC2's likenesses: the fake of this crate, and moto. Every request is checked against the models that AWS's
//! own clients are generated from.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a helper of a test is the report"
)]

mod conformance;
mod credentials;
mod executor;
mod images;
mod kill;
mod making;
mod model;
mod moto;
mod rig;
mod rules;
mod seeing;
mod server;
mod trouble;
