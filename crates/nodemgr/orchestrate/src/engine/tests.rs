//! What holds of every run, whatever its workflow, and whatever happens to it.

mod examples;
mod properties;
mod world;
