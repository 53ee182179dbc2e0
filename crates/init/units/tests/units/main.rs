//! Units of the project's own: how they are shown, what the engine gets, and laws that hold for any.

mod engine;
mod fixtures;
mod laws;
#[path = "../lists/mod.rs"]
mod lists;
mod machine;
mod properties;
mod running;
