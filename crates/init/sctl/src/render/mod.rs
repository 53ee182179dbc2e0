//! Answers as text. Everything here is a function of values: what the manager said, the time, the style.

mod jobs;
mod lists;
mod machine;
mod process_tree;
mod security;
mod status;
mod style;
mod table;
pub(crate) mod time;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub(crate) use jobs::{Neighbours, jobs};
pub(crate) use lists::{ListStyle, json, paths, sockets, timers, units};
pub(crate) use machine::overview;
pub(crate) use process_tree::Branch;
pub(crate) use security::{Lacking, SecurityView, exposures, security};
pub(crate) use status::{UnitView, unit};
pub(crate) use style::{Style, file_state_colour};
pub(crate) use time::Now;
