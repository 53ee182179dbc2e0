//! `sctl` and the manager: a fake one that says what it is told to say, and the real one in a machine of its own.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod answers;
mod fake;
mod lost;
mod real;
mod requests;
mod ssh;
