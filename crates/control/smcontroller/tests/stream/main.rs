//! The controller over real sockets: who gets in, what becomes of commands, and what a bad node can do to the others.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod blobs;
mod chaos;
mod commands;
mod foreign;
mod misbehaviour;
mod own;
mod registration;
mod rig;
mod second_stream;
mod stop;
