//! `muster-exec`, end to end: each step of it done, refused and left out, seen from within the program that it becomes.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up fails where it cannot"
)]

mod credentials;
mod failures;
mod filters;
mod identity;
mod namespaces;
mod pam;
mod processes;
mod rig;
mod settings;
mod streams;
mod whole;
