//! What instances keep: a folder for files and one file of state each, with quotas, and the state's way to the cloud and back.
//!
//! # Entry points
//! * [`InstanceData::start`] gives the handle and the one task.
//! * [`InstanceData::prepare`] makes an instance's folders before it is placed, and answers the paths that its node is told.
//! * [`StateCloud`] is who keeps copies of states: it is offered every new one, and accepts, rejects or replaces it.
//!
//! # On disk
//! `<storage folder>/<item>/<subject>/<instance>` is the instance's, mode 0700. `<state folder>/<item>/<subject>/<instance>` is
//! this crate's; the file `state.dat` in it is the instance's, mode 0600. A state that comes from the cloud is written beside it
//! first (`state.new`) and then into it, because a running instance has the file mounted: after a crash in between the second
//! step is done again.
//!
//! # The state of a state
//! ```text
//!           found on disk                    accepted
//! accepted --------------> offered ----------------------> accepted
//!    ^                        |  rejected: the last one is asked for
//!    +------ replaced --------+
//! ```
//! Whose states are followed is in the database, so that a restart follows them at once and offers what changed meanwhile.
//! Checksums are SHA3-224, as the cloud computes them. A file is looked at one second after it last changed. Without a cloud a
//! state is accepted as it is found.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | keeper, one | requests (bounded), changes in folders, the cloud's answers | database, files, offers to the cloud |
//!
//! # Invariants
//! * A checksum that is reported is that of a state which the cloud has, or there is no cloud.
//! * An answer about an older offer changes nothing.
//! * What an instance puts into its folders (links, devices) is never followed.
//!
//! # What this crate does not do
//! It mounts nothing: that is the node's. Quotas are the file system's, per user; where it has none, that is said once.

mod database;
mod fault;
mod folders;
mod follow;
mod keeper;
mod quota;

pub use self::database::SCHEMA;
pub use self::fault::FAULT_POINTS;
pub use self::folders::FolderError;
pub use self::follow::Checksum;
pub use self::keeper::{
    Checksums, InstanceData, Needs, NoCloud, PrepareError, Prepared, Settings, StateCloud,
    UpdateStateError,
};
pub use self::quota::{Quota, SetQuotaError};
