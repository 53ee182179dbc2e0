//! Where a test may kill a program that uses the simulated provider.

muster_fault::points! {
    /// The simulated cloud has changed and its file says so; the manager has not been answered.
    pub(crate) SIM_CHANGED = "provider.sim-changed",
}
