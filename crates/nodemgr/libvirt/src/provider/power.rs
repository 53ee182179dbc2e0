//! Carrying stops and reboots out, in the background.

use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use muster_lifecycle::Moment;
use uuid::Uuid;

use super::Shared;
use super::seeing::View;
use crate::error::Trouble;
use crate::power::{PowerChange, PowerStep, next};
use crate::protocol::Change;
use crate::status::Wanted;

/// How long between two looks at a machine that is going down.
const LOOK: Duration = Duration::from_millis(200);
/// The same while libvirt cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

fn now() -> Moment {
    SystemTime::now().into()
}

impl Shared {
    /// Begins a stop or a reboot. Whoever calls has the machine's lock.
    pub(super) async fn begin(self: &Arc<Self>, uuid: Uuid, wanted: Wanted) -> Result<(), Trouble> {
        let change = PowerChange {
            wanted,
            cut_at: now().after(self.settings.stop_grace).as_millis(),
        };
        self.on_disk(uuid, move |_, folder| folder.keep_power(Some(change)))
            .await?;
        self.drive(uuid);
        Ok(())
    }

    /// Forgets a stop or a reboot.
    pub(super) async fn keep_no_power(&self, uuid: Uuid) -> Result<(), Trouble> {
        self.on_disk(uuid, |_, folder| folder.keep_power(None))
            .await
    }

    /// Goes on with what a manager that died had begun.
    pub(super) fn carry_on(self: &Arc<Self>, view: &View) {
        if view.kept.as_ref().is_some_and(|kept| kept.power.is_some()) {
            self.drive(view.uuid);
        }
    }

    fn drive(self: &Arc<Self>, uuid: Uuid) {
        let mut driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        if driven.insert(uuid) {
            tokio::spawn(drive(Arc::downgrade(self), uuid));
        }
    }

    /// One step. Whether there are more, and when the button was pressed.
    async fn step(&self, uuid: Uuid, pressed: &mut Option<Moment>) -> Result<bool, Trouble> {
        let Some(view) = self.look(uuid, false).await? else {
            return Ok(false);
        };
        let Some((change, plan)) = view
            .kept
            .as_ref()
            .and_then(|it| Some((it.power?, &it.plan)))
        else {
            return Ok(false);
        };
        view.check(&plan.mark)?;
        let done = match next(change, view.status(), *pressed, now()) {
            PowerStep::Wait => false,
            PowerStep::Press => {
                *pressed = Some(now());
                self.change(uuid, &plan.mark, Change::Press).await?;
                false
            }
            PowerStep::Cut => {
                tracing::info!(machine = %plan.mark.machine, "a machine does not shut down; its power is cut");
                self.change(uuid, &plan.mark, Change::Cut).await?;
                false
            }
            PowerStep::Start => {
                self.start(uuid, &plan.mark, &view).await?;
                true
            }
            PowerStep::Done => true,
        };
        if done {
            self.keep_no_power(uuid).await?;
        }
        Ok(!done)
    }
}

/// Does what is kept to be done, until it is done or the provider is gone.
async fn drive(shared: Weak<Shared>, uuid: Uuid) {
    let mut pressed = None;
    loop {
        let pause = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let _guard = shared.lock(uuid).await;
            match shared.step(uuid, &mut pressed).await {
                Ok(true) => LOOK,
                Ok(false) => {
                    let mut driven = shared.driven.lock().unwrap_or_else(PoisonError::into_inner);
                    driven.remove(&uuid);
                    return;
                }
                Err(error) => {
                    tracing::debug!(%uuid, error = %error, "a machine's power could not be changed; it is tried again");
                    PAUSE
                }
            }
        };
        tokio::time::sleep(pause).await;
    }
}
