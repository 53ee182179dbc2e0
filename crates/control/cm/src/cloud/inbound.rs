//! What is done about the cloud's words, in the order in which they came. What takes long goes on beside.

use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{InstanceIdent, InvalidValue, ItemId, ItemType, SubjectId};
use muster_cloud::Delivery;
use muster_cloud::message::incoming::{
    DesiredStatus, OverrideEnvVars, StateAcceptance, StateResult,
};
use muster_cloud::message::{Identity, Incoming, Timestamp};
use muster_desired::{Document, Origin, Updates};
use muster_instance_data::{Checksum, InstanceData};
use muster_smcontroller::SmController;
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::certificates::Certificates;
use super::{CloudDesk, complaint, env, logs, wish};
use crate::identity::LateIdentity;
use crate::switchboard::Switchboard;

/// Requests that take long, at a time.
const BESIDE: usize = 16;
/// When something that cannot be kept now is wanted again.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest sleep; a clock that is set is noticed after it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Why something cannot be done now, and may be later.
#[derive(Debug, thiserror::Error)]
enum NotNow {
    #[error("the database failed")]
    Store(#[source] StoreError),
    #[error("updates have ended")]
    Updates,
}

/// Acts on what the cloud says.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) desk: CloudDesk,
    pub(super) store: Store,
    pub(super) identity: LateIdentity,
    pub(super) updates: Updates,
    pub(super) data: InstanceData,
    pub(super) controller: SmController,
    pub(super) switchboard: Arc<Switchboard>,
}

impl Inbound {
    /// Until the link ends.
    pub(super) async fn run(self, mut deliveries: mpsc::Receiver<Delivery>) {
        let mut beside = JoinSet::new();
        let mut variables = self.variables().await;
        // Variables that have ended while nobody was there are not taken back yet.
        let mut in_force_since = Timestamp::UNIX_EPOCH;
        loop {
            let end = env::next_end(&variables, in_force_since);
            let until_end = end.map_or(LONGEST_SLEEP, |it| {
                let left = it.duration_since(Timestamp::now());
                left.try_into().unwrap_or_default()
            });
            let has_end = end.is_some();
            tokio::select! {
                delivery = deliveries.recv(), if beside.len() < BESIDE => match delivery {
                    Some(delivery) => self.act(delivery, &mut variables, &mut beside).await,
                    None => return,
                },
                Some(_) = beside.join_next() => {}
                () = tokio::time::sleep(until_end.min(LONGEST_SLEEP)), if has_end => {
                    let now = Timestamp::now();
                    if end.is_some_and(|it| it <= now) {
                        self.apply_variables(&variables).await;
                        in_force_since = now;
                    }
                }
            }
        }
    }

    async fn variables(&self) -> OverrideEnvVars {
        let kept = env::load(&self.store).await;
        kept.unwrap_or_else(|error| {
            let error = ErrorChain(&error);
            tracing::error!(%error, "variables of the cloud cannot be read; they are not in force");
            OverrideEnvVars::default()
        })
    }

    async fn act(
        &self,
        mut delivery: Delivery,
        variables: &mut OverrideEnvVars,
        beside: &mut JoinSet<()>,
    ) {
        let nothing = Incoming::OverrideEnvVars(OverrideEnvVars::default());
        let message_type = delivery.message.message_type();
        let done = match std::mem::replace(&mut delivery.message, nothing) {
            Incoming::DesiredStatus(desired) => self.desired(desired, variables).await,
            Incoming::OverrideEnvVars(env) => {
                let kept = env::save(&self.store, &env).await;
                match kept {
                    Ok(()) => {
                        *variables = env;
                        self.apply_variables(variables).await;
                        Ok(())
                    }
                    Err(error) => Err(NotNow::Store(error)),
                }
            }
            Incoming::StateAcceptance(answer) => {
                self.state_answered(&answer).await;
                Ok(())
            }
            Incoming::UpdateState(update) => {
                let named = instance(&update.item, &update.subject, update.instance);
                let checksum = Checksum::from_bytes(&update.state_checksum.0);
                match (named, checksum) {
                    (Ok(instance), Some(checksum)) => {
                        let content = update.state.into_bytes();
                        let taken = self.data.update(instance, checksum, content).await;
                        if let Err(error) = taken {
                            self.complain(message_type, &error);
                        }
                    }
                    (Err(error), _) => self.complain(message_type, &error),
                    (_, None) => self.complain_of(message_type, "the checksum is none"),
                }
                Ok(())
            }
            Incoming::RequestLog(request) => {
                let task = logs::answer(
                    self.desk.clone(),
                    self.controller.clone(),
                    Arc::clone(&self.switchboard),
                    request,
                    delivery.correlation.clone(),
                );
                // It is asked again by whoever asked, if this daemon dies meanwhile.
                beside.spawn(task);
                Ok(())
            }
            message => {
                let certificates = Certificates {
                    link: self.desk.link().clone(),
                    identity: self.identity.clone(),
                };
                beside.spawn(certificates.act(message, delivery));
                return;
            }
        };
        match done {
            Ok(()) => delivery.accept(),
            Err(error) => {
                let error = ErrorChain(&error);
                tracing::warn!(message_type, %error, "a message of the cloud cannot be taken now");
                delivery.refuse(AGAIN);
            }
        }
    }

    async fn desired(
        &self,
        desired: DesiredStatus,
        variables: &OverrideEnvVars,
    ) -> Result<(), NotNow> {
        let variables = wish::env(&variables.items, Timestamp::now());
        self.apply(wish::document(desired, variables)).await
    }

    /// Applies a document; one that is not valid is told to the cloud and changes nothing.
    async fn apply(&self, document: Document) -> Result<(), NotNow> {
        match document.check() {
            Ok(desired) => {
                let applied = self.updates.apply(desired, Origin::Cloud, "cloud").await;
                applied.map(drop).map_err(|_| NotNow::Updates)
            }
            Err(error) => {
                self.complain("desiredStatus", &error);
                Ok(())
            }
        }
    }

    /// Applies what is wanted, with these variables.
    async fn apply_variables(&self, variables: &OverrideEnvVars) {
        let Ok(versions) = self.updates.versions().await else {
            return;
        };
        let Some(newest) = versions.first() else {
            return;
        };
        let mut document = newest.desired.document();
        document.env = wish::env(&variables.items, Timestamp::now());
        // What cannot be applied now is applied with the next desired status, since the variables are kept.
        if let Err(error) = self.apply(document).await {
            tracing::warn!(error = %ErrorChain(&error), "variables of the cloud are not in force yet");
        }
    }

    async fn state_answered(&self, answer: &StateAcceptance) {
        let named = instance(&answer.item, &answer.subject, answer.instance);
        match (named, Checksum::from_bytes(&answer.checksum.0)) {
            (Ok(instance), Some(checksum)) => {
                let accepted = answer.result == StateResult::Accepted;
                if !accepted {
                    let reason = answer.reason.as_str();
                    tracing::warn!(%instance, reason, "the cloud rejects a state");
                }
                self.data.answered(instance, checksum, accepted).await;
            }
            (Err(error), _) => self.complain("stateAcceptance", &error),
            (_, None) => self.complain_of("stateAcceptance", "the checksum is none"),
        }
    }

    fn complain(&self, message_type: &str, error: &(dyn std::error::Error + 'static)) {
        self.complain_of(message_type, &ErrorChain(error).to_string());
    }

    /// A message that cannot be carried out would not be the next time either.
    fn complain_of(&self, message_type: &str, why: &str) {
        tracing::warn!(
            message_type,
            why,
            "a message of the cloud cannot be carried out"
        );
        let identity = self.identity.borrow();
        let node = identity.as_ref().map_or("", |it| it.main_node.as_str());
        let text = format!("{message_type} cannot be carried out: {why}");
        self.desk.later(complaint(node, text));
    }
}

/// Which instance the cloud means. Components keep no state.
fn instance(
    item: &Identity,
    subject: &Identity,
    instance: u64,
) -> Result<InstanceIdent, InvalidValue> {
    Ok(InstanceIdent {
        item_id: ItemId::new(item.name().unwrap_or_default())?,
        subject_id: SubjectId::new(subject.name().unwrap_or_default())?,
        instance,
        item_type: ItemType::Service,
        preinstalled: false,
    })
}
