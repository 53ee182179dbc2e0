//! Moments at which a test kills the Main Node.

muster_fault::points! {
    /// Changes of nodes were decided, nothing of them is stored.
    pub BEFORE_WRITE = "node-registry.before-write",
    /// Changes of nodes are on the disk, nobody has been told.
    pub WRITTEN = "node-registry.written",
    /// Observers have been told, whoever gave a command has not.
    pub SHOWN = "node-registry.shown",
}
