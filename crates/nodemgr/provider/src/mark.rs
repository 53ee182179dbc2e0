//! The mark that says whose a machine is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{ClientToken, MachineId, ManagerId, ResourceId};

/// Written onto whatever a provider makes (a tag, a label, metadata), in the same call that makes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// Whose it is.
    pub manager: ManagerId,
    /// Which of his machines.
    pub machine: MachineId,
    /// Which order it was made for.
    pub token: ClientToken,
}

const MANAGER: &str = "muster-manager";
const MACHINE: &str = "muster-machine";
const TOKEN: &str = "muster-token";

impl Mark {
    /// As labels or tags, for providers that have them.
    #[must_use]
    pub fn labels(&self) -> [(&'static str, &str); 3] {
        [
            (MANAGER, self.manager.as_str()),
            (MACHINE, self.machine.as_str()),
            (TOKEN, self.token.as_str()),
        ]
    }

    /// The label to look for, to find everything of a manager.
    #[must_use]
    pub fn manager_label(manager: &ManagerId) -> (&'static str, &str) {
        (MANAGER, manager.as_str())
    }

    /// Reads labels. A mark that is not whole is none: such a machine is not ours.
    #[must_use]
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            manager: labels.get(MANAGER)?.parse().ok()?,
            machine: labels.get(MACHINE)?.parse().ok()?,
            token: labels.get(TOKEN)?.parse().ok()?,
        })
    }
}

/// A provider's machine, and the mark it must bear. Whatever changes a machine takes this, and the provider refuses if the
/// machine bears another mark or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The provider's name of it.
    pub resource: ResourceId,
    /// What must stand on it.
    pub mark: Mark,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back_and_half_a_mark_is_none() {
        let mark = Mark {
            manager: ManagerId::random(),
            machine: MachineId::random(),
            token: ClientToken::random(),
        };
        let mut labels: BTreeMap<String, String> = mark
            .labels()
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(Mark::from_labels(&labels), Some(mark));
        labels.remove(TOKEN);
        assert_eq!(Mark::from_labels(&labels), None);
    }
}
