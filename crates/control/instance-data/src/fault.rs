//! Moments at which a test can kill the process.

muster_fault::points! {
    /// A state from the cloud is on disk, beside the instance's.
    pub(crate) STATE_STAGED = "instance-data.state.staged",
    /// A state from the cloud is in the instance's file; that it is accepted is not kept yet.
    pub(crate) STATE_WRITTEN = "instance-data.state.written",
    /// The checksum of an accepted state is kept.
    pub(crate) STATE_ACCEPTED = "instance-data.state.accepted",
}
