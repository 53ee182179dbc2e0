//! `sctl` as its users see it: the real program, real folders, and systemd's tools beside it.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod common;
mod corpus;
mod logs;
mod random;
mod security;
mod side_by_side;
mod verbs;
mod verify;
