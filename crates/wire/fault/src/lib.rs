//! Named points at which a test can kill a program.
//!
//! Muster promises that a `kill -9` at any moment loses nothing it has acknowledged. A promise about
//! "any moment" is tested at the moments that matter: between two steps that both change something
//! lasting. Each such moment gets a name, and a test can list the names and kill the program at
//! every one of them.
//!
//! ```
//! muster_fault::points! {
//!     /// The row is written, the transaction is not committed.
//!     pub BEFORE_COMMIT = "doc.before-commit",
//!     /// The commit is on disk, the caller has not been told.
//!     pub AFTER_COMMIT = "doc.after-commit",
//! }
//!
//! fn save() {
//!     // write ...
//!     muster_fault::hit(BEFORE_COMMIT);
//!     // commit ...
//!     muster_fault::hit(AFTER_COMMIT);
//! }
//!
//! // First thing in `main`, with the lists of every crate that is linked in:
//! muster_fault::init(&[FAULT_POINTS]);
//! save();
//! assert_eq!(FAULT_POINTS.len(), 2);
//! ```
//!
//! # What ships
//! Without the feature `enabled`, [`hit`] and [`init`] are empty: no branch, no name and no
//! environment variable is left in a release binary, so nobody can make a shipped daemon kill
//! itself. The list of points stays available, because a test must be able to enumerate it; it costs
//! nothing in a program that does not use it. Only dev-dependencies turn the feature on.
//!
//! # Arming a point
//! | variable | meaning |
//! |---|---|
//! | `MUSTER_FAULT=NAME` | `SIGKILL` to the own process when `NAME` is reached; nothing unwinds, no destructor runs |
//! | `MUSTER_FAULT=NAME@3` | the same at the third time |
//! | `MUSTER_FAULT=NAME=stop` | `SIGSTOP`: every thread stands still until `SIGCONT` |
//! | `MUSTER_FAULT=NAME=hang` | the thread that reached the point never continues, the others do |
//! | `MUSTER_FAULT_REPORT=FILE` | the name is appended to the file just before that happens |
//! | `MUSTER_FAULT_FILE=FILE` | instead of `MUSTER_FAULT`: whenever FILE exists, it holds such a request; it is renamed to `FILE.reached` just before that happens |
//!
//! The last one is for a program that is started again by another: it is armed when the test is ready, acts once, and
//! can be armed anew for the next point while everything around the program goes on.
//!
//! A name that no list contains, an action or count that cannot be read, a report that cannot be
//! written, and a program that reaches a point without having called [`init`] while the variable is
//! set all end the program with a message and `SIGABRT`. A typing error therefore fails a test and
//! never makes it pass.
//!
//! # Tests
//! `matrix` (feature `enabled`) runs a scenario once for every point of a list and fails when
//! the scenario did not get there, so a point that nothing exercises does not go unnoticed.
//!
//! # Invariants
//! * An unarmed [`hit`] allocates nothing and takes no lock; it may stand in async code. An armed one
//!   acts once, at the n-th time counted over all threads. Only `MUSTER_FAULT_FILE` makes each one read a file.
//! * Names are unique within a list and checked when the crate is compiled.
//!
//! # What this crate does not do
//! It injects no errors: code paths for failing calls are tested with real failures (a full disk, a
//! closed pipe). It does not cut the power: `SIGKILL` keeps what the kernel has cached, and losing
//! that too is the lab's business.

#![forbid(unsafe_code)]

#[cfg(feature = "enabled")]
mod armed;
#[cfg(feature = "enabled")]
mod matrix;
mod point;
#[cfg(feature = "enabled")]
mod request;

#[cfg(feature = "enabled")]
pub use armed::{hit, init};
#[cfg(feature = "enabled")]
pub use matrix::{Trial, matrix, test_program};
pub use point::Point;
#[cfg(feature = "enabled")]
pub use request::{Action, ArmFault};

/// Marks a moment at which a test may kill the program.
///
/// In this build the feature `enabled` is off, and the call is nothing.
#[cfg(not(feature = "enabled"))]
#[inline(always)]
pub fn hit(_point: Point) {}

/// Checks `MUSTER_FAULT` against the points that the program has.
///
/// In this build the feature `enabled` is off, and the variable is not read.
#[cfg(not(feature = "enabled"))]
#[inline(always)]
pub fn init(_known: &[&[Point]]) {}

/// What the macro needs from here; not part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::point::are_unique;
}
