//! Moments at which a test kills the daemon.

muster_fault::points! {
    /// Bytes of a stream are received, the ledger does not say so.
    pub RECEIVED = "logd.received",
    /// An entry is announced in the ledger, it is not in the journal.
    pub INTENDED = "logd.intended",
    /// An entry is in the journal, the ledger does not say so.
    pub APPENDED = "logd.appended",
    /// A datagram is in the journal, its socket still has it.
    pub DATAGRAM_KEPT = "logd.datagram-kept",
    /// A datagram is marked as kept, its socket still has it.
    pub DATAGRAM_ARMED = "logd.datagram-armed",
    /// A datagram is gone from its socket, the mark is still there.
    pub DATAGRAM_CONSUMED = "logd.datagram-consumed",
    /// A file is ended under the name of the active one.
    pub ARCHIVED = "logd.archived",
    /// A file has its archived name, there is no active one.
    pub ROTATED = "logd.rotated",
    /// The file in memory is ended, there is none on disk.
    pub FLUSHING = "logd.flushing",
}
