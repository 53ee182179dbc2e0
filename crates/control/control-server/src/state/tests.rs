//! The model: scenarios, and what holds whatever happens.

mod properties;
mod scale;
mod scenarios;
mod world;
