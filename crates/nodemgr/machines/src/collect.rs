//! Looking for what bears our mark and nobody knows.

use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{Reason, State};
use muster_provider::{Described, ManagerId, Mark, Provider, ProviderId, ResourceId};

use crate::book::Look;
use crate::error::CollectError;

/// A machine that bears our mark and that no record knows, or needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Who has it.
    pub provider: ProviderId,
    /// By which name.
    pub resource: ResourceId,
    /// The mark it bears.
    pub mark: Mark,
    /// Where it is.
    pub state: State,
    /// What it is: an orphan, a duplicate, or one that should be gone.
    pub reason: Reason,
}

/// What all providers showed.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) look: Look,
    pub(crate) listed: Vec<(ProviderId, Vec<Described>)>,
    /// The first that failed; the others are shown all the same.
    pub(crate) failed: Option<CollectError>,
}

/// Asks every provider for what bears our mark.
pub(crate) async fn survey(
    providers: Vec<Arc<dyn Provider>>,
    manager: ManagerId,
    look: Look,
    longest: Duration,
) -> Survey {
    let mut survey = Survey {
        look,
        listed: Vec::new(),
        failed: None,
    };
    for service in providers {
        let provider = service.profile().id;
        let failed = match tokio::time::timeout(longest, service.list(&manager)).await {
            Ok(Ok(listed)) => {
                survey.listed.push((provider, listed));
                continue;
            }
            Ok(Err(source)) => CollectError::Provider { provider, source },
            Err(_) => CollectError::NoAnswer { provider },
        };
        survey.failed.get_or_insert(failed);
    }
    survey
}
