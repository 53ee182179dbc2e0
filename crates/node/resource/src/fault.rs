//! Where a test may kill a program that gives resources out.

muster_fault::points! {
    /// A request has been granted; nothing is written.
    pub(crate) GRANTED = "resource.granted",
    /// What an instance takes is durable; nobody has been answered.
    pub(crate) TAKEN = "resource.taken",
    /// An instance gives back what it has; nothing is written.
    pub(crate) RETURNING = "resource.returning",
    /// What an instance gave back is durably free; nobody has been answered.
    pub(crate) RELEASED = "resource.released",
    /// What vanished instances had is to be freed; nothing is written.
    pub(crate) SORTING = "resource.sorting",
    /// What vanished instances had is durably free.
    pub(crate) SORTED = "resource.sorted",
}
