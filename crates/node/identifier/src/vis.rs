//! The plugin `vis`: a client of W3C VISS.

mod client;
pub mod message;
mod session;

pub(crate) use client::Client;
