//! Moments at which a killed writer leaves something unfinished.

muster_fault::points! {
    /// A new file has its space, but no header.
    pub CREATING = "journal.creating",
    /// New objects are in the file, nothing refers to them.
    pub OBJECTS_WRITTEN = "journal.objects-written",
    /// The undo list is valid, no word is changed.
    pub UNDO_VALID = "journal.undo-valid",
    /// Half of the words are changed.
    pub HALF_LINKED = "journal.half-linked",
    /// All words are changed, the undo list is still valid.
    pub LINKED = "journal.linked",
    /// The append is complete, the caller has not been told.
    pub APPENDED = "journal.appended",
    /// The disk space is there, the header does not say so yet.
    pub GROWN = "journal.grown",
    /// The data is on disk, the header still says that a writer is at work.
    pub SYNCED = "journal.synced",
    /// The header of a file to be archived is cut to its used part, the file is not.
    pub CUTTING = "journal.cutting",
    /// The file is cut to its used part and marked as archived, under its old name.
    pub ARCHIVED = "journal.archived",
}
