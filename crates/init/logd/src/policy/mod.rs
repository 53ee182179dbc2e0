//! What logd decides: whom to believe how much, what to keep and what to drop. Pure: no clock, no files.

pub mod budget;
pub mod rate;
pub mod retention;
