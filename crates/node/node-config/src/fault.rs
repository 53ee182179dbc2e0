//! Where a test may kill a program that keeps a node configuration.

muster_fault::points! {
    /// A new configuration has been accepted; nothing is written.
    pub(crate) ACCEPTED = "node-config.accepted",
    /// A new configuration is durable; nobody has been told, it is not in force.
    pub(crate) WRITTEN = "node-config.written",
    /// A new configuration is in force; the controller has not been answered.
    pub(crate) IN_FORCE = "node-config.in-force",
}
