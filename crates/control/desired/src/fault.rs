//! Moments at which a test can kill the process.

use crate::machine::UpdateStep;

muster_fault::points! {
    /// Decided, not yet written down.
    pub(crate) DECIDED = "desired.decided",
    /// Written down, nothing done.
    pub(crate) WRITTEN = "desired.written",
    /// Everything that was decided has been begun.
    pub(crate) BEGUN = "desired.begun",
    /// Written down that the update is over, nobody told.
    pub(crate) AT_NONE = "desired.step.none",
    /// Written down that items are downloaded.
    pub(crate) AT_DOWNLOADING = "desired.step.downloading",
    /// Written down that every item is there.
    pub(crate) AT_PENDING = "desired.step.pending",
    /// Written down that nodes are configured.
    pub(crate) AT_INSTALLING = "desired.step.installing",
    /// Written down that instances are placed.
    pub(crate) AT_LAUNCHING = "desired.step.launching",
    /// Written down that every node has its share.
    pub(crate) AT_ACTIVATING = "desired.step.activating",
    /// Written down that instances have settled.
    pub(crate) AT_FINALIZING = "desired.step.finalizing",
    /// An item is there, the machine does not know yet.
    pub(crate) DOWNLOADED = "desired.downloaded",
    /// Nodes are configured, the machine does not know yet.
    pub(crate) CONFIGURED = "desired.configured",
    /// Instances are placed, the machine does not know yet.
    pub(crate) PLANNED = "desired.planned",
    /// A node has its share, the machine does not know yet.
    pub(crate) SENT = "desired.sent",
    /// What is not needed is gone, the machine does not know yet.
    pub(crate) RETAINED = "desired.retained",
}

/// The moment at which a step has just been written down.
pub(crate) fn hit_step(step: UpdateStep) {
    muster_fault::hit(match step {
        UpdateStep::None => AT_NONE,
        UpdateStep::Downloading => AT_DOWNLOADING,
        UpdateStep::Pending => AT_PENDING,
        UpdateStep::Installing => AT_INSTALLING,
        UpdateStep::Launching => AT_LAUNCHING,
        UpdateStep::Activating => AT_ACTIVATING,
        UpdateStep::Finalizing => AT_FINALIZING,
    });
}
