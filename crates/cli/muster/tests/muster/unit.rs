//! The verbs of a Unit.

mod apply;
mod look;
mod plant;
mod pty;
mod served;
pub(crate) mod stub;
mod terminal;
mod watch;
