//! Calls to providers, each with a deadline.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{Moment, Reason, State, Verb};
use muster_provider::{
    Described, FailureClass, Home, MachineId, ManagerId, Owned, Provider, ProviderError, ProviderId,
};
use muster_telemetry::ErrorChain;
use tokio::sync::oneshot;

use crate::book::{Book, Call, CallFailure, Listed, Look};
use crate::fault::hit_answered;

/// What a call came to.
#[derive(Debug)]
pub(crate) enum Answered {
    Provisioned(MachineId, Result<Described, CallFailure>),
    Searched(MachineId, Result<Option<Described>, CallFailure>),
    Acted(MachineId, Verb, Result<State, CallFailure>),
    Described(MachineId, Result<Option<Described>, CallFailure>),
    Stray(ProviderId, Owned, Reason, Result<State, CallFailure>),
    Listed(ProviderId, Look, Result<Listed, CallFailure>),
}

impl Answered {
    /// Tells the book.
    pub(crate) fn apply(self, book: &mut Book, now: Moment) {
        match self {
            Self::Provisioned(id, result) => book.provisioned(&id, result, now),
            Self::Searched(id, result) => book.searched(&id, result, now),
            Self::Acted(id, verb, result) => book.acted(&id, verb, result, now),
            Self::Described(id, result) => book.described(&id, result, now),
            Self::Stray(provider, owned, reason, result) => {
                book.stray_destroyed(provider, &owned, reason, result, now);
            }
            Self::Listed(provider, look, result) => book.listed(provider, look, result, now),
        }
    }
}

fn failure(error: &ProviderError) -> CallFailure {
    let operation = error.operation.to_string();
    match error.class {
        FailureClass::Underway => {
            tracing::info!(error = %ErrorChain(error), "a provider is not done yet");
        }
        _ => tracing::warn!(error = %ErrorChain(error), "a provider failed"),
    }
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text = format!("{text}: {}", ErrorChain(source));
    }
    CallFailure {
        operation,
        class: error.class,
        text,
        elsewhere: false,
    }
}

/// Waits for an answer as long as it is worth.
async fn in_time<T>(
    longest: Duration,
    operation: &str,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, CallFailure> {
    match tokio::time::timeout(longest, call).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(CallFailure {
            operation: operation.to_owned(),
            class: FailureClass::Retryable,
            text: format!("there was no answer within {longest:?}"),
            elsewhere: false,
        }),
    }
}

/// A machine is not there. That says something only if the one answers who has it.
async fn absent(
    provider: &dyn Provider,
    has_it: Option<&Home>,
    longest: Duration,
) -> Result<Option<Described>, CallFailure> {
    let Some(has_it) = has_it else {
        return Ok(None);
    };
    match in_time(longest, "name", provider.home()).await? {
        Some(answers) if answers != *has_it => {
            let name = provider.profile().id;
            let text = format!("{answers} answers for {name} now, and {has_it} has the machine");
            tracing::warn!(
                provider = %name, %answers, %has_it,
                "somebody else answers for a provider than the one that has a machine"
            );
            Err(CallFailure {
                operation: "describe".to_owned(),
                class: FailureClass::Refused,
                text,
                elsewhere: true,
            })
        }
        _ => Ok(None),
    }
}

/// Everything that bears our mark, and who shows it.
async fn list(
    provider: &dyn Provider,
    manager: &ManagerId,
    look: Look,
    longest: Duration,
) -> Result<Listed, CallFailure> {
    // Who does not say who he is may show his machines all the same.
    let home = match look.home {
        true => in_time(longest, "name", provider.home()).await.ok(),
        false => None,
    };
    let machines = in_time(longest, "list", provider.list(manager)).await?;
    Ok(Listed {
        home: home.flatten(),
        machines,
    })
}

/// Comes when nobody waits for an answer any more, if that can happen.
async fn is_unwanted(unwanted: Option<oneshot::Receiver<()>>) {
    match unwanted {
        // The other end is never used, only dropped.
        Some(unwanted) => drop(unwanted.await),
        None => std::future::pending().await,
    }
}

/// Makes one call. A verb is not waited for any longer when the other end of `unwanted` is dropped.
pub(crate) async fn call(
    provider: Arc<dyn Provider>,
    manager: ManagerId,
    call: Call,
    longest: Duration,
    unwanted: Option<oneshot::Receiver<()>>,
) -> Answered {
    let answered = match &call {
        Call::Provision(id, order) => {
            let made = in_time(longest, "make", provider.provision(order)).await;
            Answered::Provisioned(id.clone(), made)
        }
        Call::Find(id, token) => {
            let listed = in_time(longest, "list", provider.list(&manager)).await;
            let found = listed.map(|all| {
                let mut all = all.into_iter();
                all.find(|it| it.mark.machine == *id && it.mark.token == *token)
            });
            Answered::Searched(id.clone(), found)
        }
        Call::Act(id, owned, verb) => {
            let act = in_time(longest, verb.as_str(), provider.act(owned, *verb));
            let acted = tokio::select! {
                biased;
                acted = act => acted,
                () = is_unwanted(unwanted) => Err(CallFailure {
                    operation: verb.as_str().to_owned(),
                    class: FailureClass::Retryable,
                    text: "something more urgent was asked".to_owned(),
                    elsewhere: false,
                }),
            };
            Answered::Acted(id.clone(), *verb, acted)
        }
        Call::Destroy(id, owned) => {
            let gone = in_time(longest, "destroy", provider.destroy(owned)).await;
            Answered::Acted(id.clone(), Verb::Terminate, gone)
        }
        Call::Describe(id, owned, home) => {
            let described = match in_time(longest, "describe", provider.describe(owned)).await {
                Ok(None) => absent(provider.as_ref(), home.as_ref(), longest).await,
                described => described,
            };
            Answered::Described(id.clone(), described)
        }
        Call::DestroyStray(owned, reason) => {
            let gone = in_time(longest, "destroy", provider.destroy(owned)).await;
            Answered::Stray(provider.profile().id, owned.clone(), *reason, gone)
        }
        Call::List(look) => {
            let listed = list(provider.as_ref(), &manager, *look, longest).await;
            Answered::Listed(provider.profile().id, *look, listed)
        }
    };
    hit_answered(&call);
    answered
}
