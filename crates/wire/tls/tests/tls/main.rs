//! muster-tls against real sockets, real files and a real tonic server.
#![expect(
    clippy::unwrap_used,
    reason = "a panic in a test's helper is the report as well"
)]

mod common;
mod files;
mod identity;
mod refused;
mod resumption;
mod rotation;
mod server_check;
mod stalls;
