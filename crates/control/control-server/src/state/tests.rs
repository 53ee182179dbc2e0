//! The model: scenarios, and what holds whatever happens.

mod properties;
mod scenarios;
mod speed;
mod world;
