//! The moments at which tests kill a program that takes alerts.

muster_fault::points! {
    /// Entries of the journal were read; nobody else knows of them.
    pub(crate) JOURNAL_READ = "alert.journal-read",
    /// What to write is decided, nothing is written.
    pub(crate) DECIDED = "alert.decided",
    /// The alerts are written, the place in the journal is not; nothing is committed.
    pub(crate) APPENDED = "alert.appended",
    /// The alerts and the place are on the disk, and nobody has been told.
    pub(crate) KEPT = "alert.kept",
    /// Delivered alerts are forgotten, and whoever confirmed them has not been told.
    pub(crate) CONFIRMED = "alert.confirmed",
}
