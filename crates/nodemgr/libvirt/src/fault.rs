//! Where a test may kill a program that uses the provider: after everything that is kept, here or by libvirt.

muster_fault::points! {
    /// The plan is kept; there is no disk.
    pub(crate) PLANNED = "libvirt.planned",
    /// The disk is made; libvirt knows nothing of the machine.
    pub(crate) DISK = "libvirt.disk",
    /// The domain is defined; it has not been started.
    pub(crate) DEFINED = "libvirt.defined",
    /// The domain was started; it is not kept that it was.
    pub(crate) STARTED = "libvirt.started",
    /// The machine is made; the manager has not been answered.
    pub(crate) MADE = "libvirt.made",
    /// It is kept that the machine is to end; it is as it was.
    pub(crate) BURIED = "libvirt.buried",
    /// The domain is gone; the files are there.
    pub(crate) UNDEFINED = "libvirt.undefined",
    /// The files are gone, but for the plan, which says whose they were.
    pub(crate) EMPTIED = "libvirt.emptied",
    /// Nothing is left of the machine; the manager has not been answered.
    pub(crate) REMOVED = "libvirt.removed",
}
