//! Where a test may kill a program that uses the provider: after everything that EC2 keeps.

muster_fault::points! {
    /// The machine on demand is made; the manager has not been answered.
    pub(crate) RUN = "aws.run",
    /// The launch template of a spot machine is made; the machine has not been asked for.
    pub(crate) TEMPLATE_MADE = "aws.template-made",
    /// The spot machine is made; its launch template is still there.
    pub(crate) FLEET_MADE = "aws.fleet-made",
    /// The launch template is gone again; the manager has not been answered.
    pub(crate) TEMPLATE_GONE = "aws.template-gone",
    /// The machine stops, starts or sleeps; the manager has not been answered.
    pub(crate) ACTED = "aws.acted",
    /// The machine ends; a launch template that it has left is still there, and the manager has not been answered.
    pub(crate) TERMINATED = "aws.terminated",
}
