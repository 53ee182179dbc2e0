//! Which device this node belongs to, as the configured identifier tells.

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::SubjectId;
use muster_api::iamanager::v6 as wire;
use muster_identifier::{
    Identifier, IdentifierConfig, Identity as Known, StartIdentifierError, start,
};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the start waits for the identifier's first word.
const PATIENCE: Duration = Duration::from_secs(1);

/// The latest that is known. Clones share the identifier, which ends with the last.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    known: watch::Receiver<Known>,
    _identifier: Arc<dyn Identifier>,
}

impl Identity {
    /// Starts the identifier.
    ///
    /// # Errors
    /// It cannot be used at all; a source that is merely not there yet is waited for.
    pub(crate) async fn start(config: &IdentifierConfig) -> Result<Self, StartIdentifierError> {
        let identifier: Arc<dyn Identifier> = Arc::from(start(config).await?);
        let mut known = identifier.subscribe();
        // Requests that need it then find it, unless the source is slow or absent.
        let told = known.wait_for(|known| known.system.is_some() || known.problem.is_some());
        drop(timeout(PATIENCE, told).await);
        Ok(Self {
            known,
            _identifier: identifier,
        })
    }

    /// The system's id, once it is known.
    pub(crate) fn system_id(&self) -> Option<String> {
        let known = self.known.borrow();
        Some(known.system.as_ref()?.system_id.clone())
    }

    /// The system, once it is known; otherwise why not.
    pub(crate) fn system_info(&self) -> Result<wire::SystemInfo, String> {
        let known = self.known.borrow();
        match known.system.clone() {
            Some(system) => Ok(system.into()),
            None => Err(not_yet(&known)),
        }
    }

    /// For whom the device works, once that is known; otherwise why not.
    pub(crate) fn subjects(&self) -> Result<wire::Subjects, String> {
        let known = self.known.borrow();
        match known.system {
            Some(_) => Ok(to_wire(&known.subjects)),
            None => Err(not_yet(&known)),
        }
    }

    /// Every change from now on; of the subjects, [`NewSubjects`] finds out.
    pub(crate) fn changes(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

fn not_yet(known: &Known) -> String {
    match &known.problem {
        Some(problem) => format!("the identifier has not told who this is: {problem}"),
        None => "the identifier has not told who this is yet".to_owned(),
    }
}

fn to_wire(subjects: &[SubjectId]) -> wire::Subjects {
    wire::Subjects {
        subjects: subjects.iter().map(SubjectId::to_string).collect(),
    }
}

/// Tells changes of the subjects from other changes of what is known.
#[derive(Debug)]
pub(crate) struct NewSubjects {
    last: Vec<SubjectId>,
}

impl NewSubjects {
    /// From what is known now.
    pub(crate) fn since(known: &Known) -> Self {
        Self {
            last: known.subjects.clone(),
        }
    }

    /// The subjects, if they are others than before.
    pub(crate) fn of(&mut self, known: &Known) -> Option<wire::Subjects> {
        if self.last == known.subjects {
            return None;
        }
        self.last.clone_from(&known.subjects);
        Some(to_wire(&self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_the_subjects_are_told() {
        let mut known = Known::default();
        let mut new = NewSubjects::since(&known);
        known.problem = Some("the file is gone".to_owned());
        assert_eq!(new.of(&known), None);
        known.subjects = vec![SubjectId::new("driver").unwrap()];
        let told = new.of(&known).unwrap();
        assert_eq!(told.subjects, ["driver"]);
        assert_eq!(new.of(&known), None);
        known.subjects.clear();
        assert_eq!(new.of(&known).unwrap().subjects, [""; 0]);
    }
}
