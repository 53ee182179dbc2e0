//! The engine as a whole, driven by a simulated executor: laws on random graphs, and a scenario per dependency and mode.

#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod laws;
mod scenarios;
mod sim;
mod upgrade;
