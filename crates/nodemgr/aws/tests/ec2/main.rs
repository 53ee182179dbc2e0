//! The provider against EC2's likenesses: the fake of this crate, and moto. Every request is checked against the models that AWS's
//! own clients are generated from.

mod conformance;
mod credentials;
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
