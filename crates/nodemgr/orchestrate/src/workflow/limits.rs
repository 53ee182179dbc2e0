//! How much a workflow may ask for.

/// Bounds of workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one document.
    pub document: usize,
    /// Values in one document.
    pub values: usize,
    /// Machines of one workflow.
    pub machines: u32,
    /// Steps of one workflow.
    pub steps: usize,
    /// Actions of one step.
    pub actions: usize,
    /// Steps times the machines they are done on.
    pub jobs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document: 1 << 20,
            values: 1 << 16,
            machines: 1000,
            steps: 256,
            actions: 64,
            jobs: 20_000,
        }
    }
}
