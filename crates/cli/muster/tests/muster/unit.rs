//! The verbs of a Unit.

mod apply;
mod look;
mod plant;
mod served;
pub(crate) mod stub;
mod terminal;
mod watch;
