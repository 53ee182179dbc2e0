//! Temporary.
use serde::{Deserialize, Serialize};
/// Provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "temporary")]
pub enum ProviderId {
    Aws,
    Docker,
    Libvirt,
    Local,
    Sim,
}
impl std::fmt::Display for ProviderId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Aws => "aws",
            Self::Docker => "docker",
            Self::Libvirt => "libvirt",
            Self::Local => "local",
            Self::Sim => "sim",
        })
    }
}
