//! The moments at which tests kill a program that signs.

muster_fault::points! {
    /// The root's key is on disk, its certificate is not.
    pub ROOT_KEY_WRITTEN = "pki.root-key-written",
    /// Root key and certificate are on disk; nothing says yet that this folder is an authority.
    pub ROOT_WRITTEN = "pki.root-written",
    /// The folder is an authority, without an intermediate.
    pub INITIALISED = "pki.initialised",
    /// The intermediate's key is on disk; its certificate is neither recorded nor written.
    pub INTERMEDIATE_KEY_WRITTEN = "pki.intermediate-key-written",
    /// The intermediate's certificate is recorded, not written.
    pub INTERMEDIATE_RECORDED = "pki.intermediate-recorded",
    /// A certificate is signed, in memory only.
    pub SIGNED = "pki.signed",
    /// Half of a line of the record is written.
    pub RECORD_TORN = "pki.record-torn",
    /// A line of the record is written, not flushed.
    pub RECORD_WRITTEN = "pki.record-written",
    /// A certificate is recorded, and nobody has it.
    pub RECORDED = "pki.recorded",
    /// A revocation is recorded, no list says so.
    pub REVOKED = "pki.revoked",
    /// A list's number is recorded, the list is not written.
    pub LIST_RECORDED = "pki.list-recorded",
    /// An authority's own list is written, the file with all of them is not.
    pub LIST_WRITTEN = "pki.list-written",
    /// A file has its content under a temporary name, not under its own.
    pub BEFORE_RENAME = "pki.before-rename",
}
