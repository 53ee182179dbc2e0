//! Moments at which a test can kill the process.

muster_fault::points! {
    /// A message is on disk, its sender does not know.
    pub(crate) KEPT = "cloud.kept",
    /// Messages are marked as on their way, none is sent.
    pub(crate) TAKEN = "cloud.taken",
    /// A message is handed to the connection.
    pub(crate) SENT = "cloud.sent",
    /// The cloud has acknowledged a message, which is still on disk.
    pub(crate) ACKNOWLEDGED = "cloud.acknowledged",
    /// An acknowledged message is not on disk any more.
    pub(crate) REMOVED = "cloud.removed",
}
