//! Temporary.
use serde::{Deserialize, Serialize};
/// Spec.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "temporary")]
pub struct MachineSpec {
    pub image: Option<String>,
}
