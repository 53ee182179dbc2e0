//! Looking for what bears our mark and nobody knows.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use muster_lifecycle::{Reason, State};
use muster_provider::{
    Answer, Described, ManagerId, Mark, Owned, Provider, ProviderId, ResourceId,
};

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

/// What a look for orphans came to. A provider that fails hides nothing of the others.
#[derive(Debug, Default)]
#[must_use]
pub struct Orphans {
    /// Those that were found; of a collection, those that were destroyed.
    pub orphans: Vec<Orphan>,
    /// What went wrong, and where: there may be more than was found.
    pub failures: Vec<CollectError>,
}

/// What all providers showed.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) look: Look,
    pub(crate) listed: Vec<(ProviderId, Vec<Described>)>,
    pub(crate) failures: Vec<CollectError>,
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
        failures: Vec::new(),
    };
    let lists = providers.iter().map(async |service| {
        let provider = service.profile().id;
        let listed = in_time(provider, longest, service.list(&manager)).await;
        listed.map(|listed| (provider, listed))
    });
    for listed in join_all(lists).await {
        match listed {
            Ok(listed) => survey.listed.push(listed),
            Err(failure) => survey.failures.push(failure),
        }
    }
    survey
}

/// Destroys orphans, all at once.
pub(crate) async fn destroy(
    orphans: Vec<(Arc<dyn Provider>, Orphan)>,
    failures: Vec<CollectError>,
    longest: Duration,
) -> Orphans {
    let ends = orphans.into_iter().map(async |(service, orphan)| {
        let owned = Owned {
            resource: orphan.resource.clone(),
            mark: orphan.mark.clone(),
        };
        let gone = in_time(orphan.provider, longest, service.destroy(&owned)).await;
        gone.map(|_| orphan)
    });
    let mut result = Orphans {
        orphans: Vec::new(),
        failures,
    };
    for end in join_all(ends).await {
        match end {
            Ok(orphan) => result.orphans.push(orphan),
            Err(failure) => result.failures.push(failure),
        }
    }
    result
}

async fn in_time<T>(
    provider: ProviderId,
    longest: Duration,
    answer: Answer<'_, T>,
) -> Result<T, CollectError> {
    match tokio::time::timeout(longest, answer).await {
        Ok(answer) => answer.map_err(|source| CollectError::Provider { provider, source }),
        Err(_) => Err(CollectError::NoAnswer { provider }),
    }
}
