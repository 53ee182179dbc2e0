//! How an update goes.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use muster_control_api::v1;
use muster_desired::{Progress, UpdateId};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tonic::Status;

use super::{Answers, ControlServer};
use crate::state::ProgressChanges;
use crate::wire;

struct Follower {
    update: UpdateId,
    progress: watch::Receiver<Arc<Progress>>,
    told: Arc<Progress>,
    /// Of one snapshot.
    waiting: VecDeque<v1::UpdateProgress>,
    page: usize,
    failures: usize,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    /// None at the end.
    async fn next(&mut self) -> Option<v1::UpdateProgress> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Some(next);
            }
            if self.ended || self.progress.changed().await.is_err() {
                return None;
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let now = Arc::clone(&self.progress.borrow_and_update());
        if now.update != Some(self.update) {
            self.ended = true;
            self.waiting.push_back(v1::UpdateProgress {
                update_id: self.update.0,
                superseded: true,
                ..v1::UpdateProgress::default()
            });
            return;
        }
        self.ended = now.done;
        let changes = ProgressChanges::between(&self.told, &now);
        let mut items = changes.items.iter().filter_map(|(id, item)| {
            let item = item.as_ref()?;
            Some(wire::item_progress(id, item))
        });
        let mut instances = changes.instances.iter().filter_map(|(ident, instance)| {
            let instance = instance.as_ref()?;
            Some(wire::instance_progress(ident, instance))
        });
        let failures = wire::failures(&now, self.failures);
        loop {
            let message = v1::UpdateProgress {
                update_id: self.update.0,
                step: now.step.as_str().to_owned(),
                done: false,
                superseded: false,
                items: items.by_ref().take(self.page).collect(),
                instances: instances.by_ref().take(self.page).collect(),
                failures: failures.clone(),
            };
            let is_empty = message.items.is_empty() && message.instances.is_empty();
            if is_empty && !self.waiting.is_empty() {
                break;
            }
            self.waiting.push_back(message);
        }
        if let Some(last) = self.waiting.back_mut() {
            // Whoever reads that it is done has read everything.
            last.done = now.done;
        }
        self.told = now;
    }
}

impl ControlServer {
    pub(super) fn follow_progress(
        &self,
        request: &v1::FollowUpdateRequest,
    ) -> Result<Answers<v1::UpdateProgress>, Status> {
        let mut progress = self.parts.operations.progress();
        let newest = progress.borrow_and_update().update;
        let Some(newest) = newest else {
            return Err(Status::not_found(
                "nothing was ever wanted of this Unit; apply a desired status first",
            ));
        };
        let update = match request.update_id {
            0 => newest,
            id if id > newest.0 => {
                return Err(Status::not_found(format!(
                    "there is no update {id}; the newest is {newest}"
                )));
            }
            id => UpdateId(id),
        };
        let mut follower = Follower {
            update,
            progress,
            told: Arc::default(),
            waiting: VecDeque::new(),
            page: self.limits.page,
            failures: self.limits.failures,
            ended: false,
            _permit: self.stream_permit()?,
        };
        follower.look();
        let messages = stream::unfold(follower, |mut follower| async {
            let next = follower.next().await?;
            Some((Ok(next), follower))
        });
        Ok(messages.boxed())
    }
}
