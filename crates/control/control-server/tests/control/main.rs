//! The service as its callers see it: every call over a real socket, and who may make it over TLS.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where it is"
)]

mod access;
mod actions;
mod fake;
mod rig;
mod socket;
mod streams;
mod views;
