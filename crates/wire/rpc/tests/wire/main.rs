//! The whole way: real connections, tonic servers, and a proxy that hurts them.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod chaos;
mod detection;
mod loopback;
mod mutual_tls;
mod rig;
mod server;
