//! Real processes, started in every way and looked at from inside.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod descriptors;
mod failures;
mod groups;
mod guest;
mod held_up;
mod parents;
mod rig;
mod settings;
mod streams;
