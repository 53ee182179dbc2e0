//! The real program with a core that does as it is told: see `examples/fake-core.rs`.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod first_process;
mod machine;
mod rig;
mod supervise;
