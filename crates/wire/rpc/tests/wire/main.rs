//! The whole way: real connections, tonic servers, and a proxy that hurts them.

mod chaos;
mod detection;
mod loopback;
mod rig;
mod server;
