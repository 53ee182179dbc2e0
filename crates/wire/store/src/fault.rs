//! Where a test may kill a program that uses a store.

muster_fault::points! {
    /// A new database's file exists under its temporary name and is empty.
    pub(crate) NEW_FILE = "store.new-file",
    /// A new database is complete and flushed under its temporary name.
    pub(crate) NEW_COMPLETE = "store.new-complete",
    /// A new database has its name, but the folder is not flushed.
    pub(crate) NEW_NAMED = "store.new-named",
    /// A new database has its name for good.
    pub(crate) NEW_DURABLE = "store.new-durable",
    /// A migration's statements ran; it is not recorded.
    pub(crate) MIGRATION_APPLIED = "store.migration-applied",
    /// A migration is recorded; the transaction is not committed.
    pub(crate) MIGRATION_RECORDED = "store.migration-recorded",
    /// A migration is committed; the next has not begun.
    pub(crate) MIGRATION_COMMITTED = "store.migration-committed",
    /// Damage is noted durably; no file has moved.
    pub(crate) ASIDE_NOTED = "store.aside-noted",
    /// The damaged database has its new name, its log has not.
    pub(crate) ASIDE_MAIN_MOVED = "store.aside-main-moved",
    /// All files have their new names, but the folder is not flushed.
    pub(crate) ASIDE_MOVED = "store.aside-moved",
    /// The damaged database is set aside for good; there is no new one.
    pub(crate) ASIDE_DURABLE = "store.aside-durable",
    /// The new database is there as well; the note is not removed.
    pub(crate) ASIDE_REPLACED = "store.aside-replaced",
    /// A job's rows are written; the transaction it shares is not committed.
    pub(crate) JOB_DONE = "store.job-done",
    /// The commit is durable; nobody has been told.
    pub(crate) COMMITTED = "store.committed",
    /// Some waiting callers may have been told of the commit, others not.
    pub(crate) ACKNOWLEDGED = "store.acknowledged",
    /// The log is about to be copied into the database.
    pub(crate) CHECKPOINT = "store.checkpoint",
    /// The last job is done; the connection is not closed.
    pub(crate) CLOSING = "store.closing",
}
