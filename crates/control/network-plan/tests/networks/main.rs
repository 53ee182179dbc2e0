//! The network planner's promises, by example and by property.

mod properties;
mod scenarios;
mod world;
