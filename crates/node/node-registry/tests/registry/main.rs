//! The registry with real streams, over memory, TCP, TLS and networks that break.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod join;
mod kill;
mod network;
mod partition;
mod rig;
mod schema;
mod streams;
mod tls;
