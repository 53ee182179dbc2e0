//! Where a test may kill a program that keeps a Unit's configuration.

muster_fault::points! {
    /// Every node would take a new configuration; nothing is written.
    pub(crate) CHECKED = "unit-config.checked",
    /// A new configuration is beside the file, not in its place.
    pub(crate) STAGED = "unit-config.staged",
    /// A new configuration is in force; no node has it.
    pub(crate) WRITTEN = "unit-config.written",
}
