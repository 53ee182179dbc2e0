//! What is asked for.

use muster_api::servicemanager::v5 as wire;

/// A request for logs.
#[derive(Debug, Clone, PartialEq)]
pub enum LogRequest {
    /// The node's own.
    System(wire::SystemLogRequest),
    /// Of instances.
    Instance(wire::InstanceLogRequest),
    /// Of failures of instances.
    Crash(wire::InstanceCrashLogRequest),
}

impl LogRequest {
    /// What every part of the answer repeats.
    #[must_use]
    pub fn correlation_id(&self) -> &str {
        match self {
            Self::System(request) => &request.correlation_id,
            Self::Instance(request) => &request.correlation_id,
            Self::Crash(request) => &request.correlation_id,
        }
    }
}
