//! One node, as the identity manager, its Service Manager and its configuration describe it.

use muster_api::domain::{AosError, NodeInfo, RuntimeId, RuntimeType, SmInfo};

use crate::facts::NodeConfigFacts;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) info: Option<NodeInfo>,
    /// What it said last.
    pub(crate) sm: Option<SmInfo>,
    pub(crate) connected: bool,
    pub(crate) config: NodeConfigFacts,
}

impl NodeRecord {
    pub(crate) fn runtime_type(&self, runtime: &RuntimeId) -> Option<&RuntimeType> {
        let mut runtimes = self.sm.iter().flat_map(|sm| &sm.runtimes);
        let found = runtimes.find(|it| it.runtime_id == *runtime);
        found.map(|it| &it.runtime_type)
    }

    pub(crate) fn error(&self) -> Option<&AosError> {
        self.info.as_ref().and_then(|info| info.error.as_ref())
    }
}
