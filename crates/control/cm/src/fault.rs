//! Moments at which a test can kill the process.

muster_fault::points! {
    /// What a plan gives out is on disk, and nobody was told.
    pub(crate) BOOKS_WRITTEN = "cm.placement.books-written",
    /// A desired status from the file was taken, and that is not remembered.
    pub(crate) FILE_APPLIED = "cm.desired-file.applied",
}
