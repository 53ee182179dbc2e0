//! Unit files.
pub mod calendar;
pub mod diagnostic;
pub mod name;
pub mod specifier;
pub mod syntax;
pub mod timespan;
pub mod timestamp;
