//! muster-tls against real sockets, real files and a real tonic server.

mod common;
mod files;
mod identity;
mod refused;
mod rotation;
mod server_check;
mod stalls;
