//! Where a test may kill a program that uses the provider: on both sides of everything that the engine keeps.

muster_fault::points! {
    /// The container is made; it has not been started.
    pub(crate) CREATED = "docker.created",
    /// The container was started; the manager has not been answered.
    pub(crate) STARTED = "docker.started",
    /// The container is removed; the manager has not been answered.
    pub(crate) REMOVED = "docker.removed",
}
