//! What the orchestrator needs of the desk: whom to order a machine from, and how to reach it.

pub(crate) mod wants;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_executor::Executor;
use muster_lifecycle::timers::{Timers, WhenIdle};
use muster_machine_api::reach;
use muster_machines::Record;
use muster_orchestrate::{
    BoxError, ChooseError, Chooser, Chosen, Reach, ReachError, Wants, Wish as RunWish,
};
use muster_provider::ProviderId;

use crate::choice::{Take, Wish};
use crate::desk::{Desk, IDLE_OF_RUNS, ProvisionFailed, nothing_fits};
use crate::service::wish::{self, BadWish};

/// A machine that was free is the run's for so long before the run holds it.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

impl Reach for Desk {
    fn reach<'a>(
        &'a self,
        machine: &'a Record,
    ) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>> {
        let failed = |source: muster_orchestrate::BoxError| ReachError {
            machine: machine.id.clone(),
            source,
        };
        let reached = self
            .access(machine)
            .map_err(|error| failed(error.into()))
            .and_then(|access| reach::executor(&access).map_err(|error| failed(error.into())));
        std::future::ready(reached).boxed()
    }
}

impl Desk {
    /// A machine that is made anew, by the daemon's own settings: nobody is there to ask for anything else.
    pub(crate) fn own_wish(&self, template: String, provider: Option<ProviderId>) -> Wish {
        let parts = self.parts();
        Wish {
            template,
            provider,
            given: muster_template::Fields::default(),
            policy: parts.policy.clone(),
            reuse: false,
            insecure: parts.insecure,
            access: Default::default(),
            runs_for: None,
            max_price: None,
            tolerates: Default::default(),
            lives_for: None,
        }
    }

    /// What a run wants, checked.
    pub(crate) fn wish_of_run(
        &self,
        template: &str,
        provider: Option<ProviderId>,
        wants: &Wants,
    ) -> Result<Wish, BadWish> {
        let parts = self.parts();
        let asked = wants::as_wish(template, provider, wants);
        let wish = wish::read(&asked, parts.usual_anew())?;
        Ok(wish.living_for(parts.timers.lifetime))
    }

    /// The machine of a run. After a failure, the next best candidate.
    async fn choose_for_run(&self, wish: &RunWish) -> Result<Chosen, BoxError> {
        let template = wish.template.as_str();
        let wanted = self.wish_of_run(template, wish.provider, &wish.wants)?;
        let choice = self.choose(&wanted).await;
        let choice = choice.map_err(ProvisionFailed::Choice)?;
        let labels = Default::default();
        let timers = timers_of_runs(&self.parts().timers, wish.may_stay);
        let takes: Vec<Take> = choice.takes(&labels, timers).collect();
        let attempt = usize::try_from(wish.attempt).unwrap_or(1).max(1) - 1;
        let count = takes.len().max(1);
        match takes.into_iter().nth(attempt % count) {
            Some(Take::New(order)) => Ok(Chosen::New(order)),
            Some(Take::Existing(machine)) => {
                // From now on nobody else takes it.
                self.machines().reserve(&machine, BEGIN_WITHIN)?;
                Ok(Chosen::Existing(machine))
            }
            None => Err(nothing_fits(&choice).into()),
        }
    }
}

/// The run cleans its machines up. If it never comes to that, they go by themselves: nobody would start one again that was
/// stopped. Those that may stay when it is over are treated as all others.
fn timers_of_runs(usual: &Timers, may_stay: bool) -> Timers {
    match may_stay {
        true => *usual,
        false => Timers {
            idle: usual.idle.or(Some(IDLE_OF_RUNS)),
            when_idle: WhenIdle::Terminate,
            ..*usual
        },
    }
}

impl Chooser for Desk {
    fn choose<'a>(&'a self, wish: &'a RunWish) -> BoxFuture<'a, Result<Chosen, ChooseError>> {
        async move {
            let chosen = self.choose_for_run(wish).await;
            chosen.map_err(|source| ChooseError {
                template: wish.template.clone(),
                source,
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_runs_are_not_stopped_but_gone_unless_they_may_stay() {
        let hour = Duration::from_secs(3600);
        let stops = Timers {
            idle: Some(hour),
            when_idle: WhenIdle::Stop,
            ..Timers::default()
        };
        let of_run = timers_of_runs(&stops, false);
        assert_eq!(
            (of_run.idle, of_run.when_idle),
            (Some(hour), WhenIdle::Terminate)
        );
        let none = timers_of_runs(&Timers::default(), false);
        assert_eq!(none.idle, Some(IDLE_OF_RUNS));
        assert_eq!(none.when_idle, WhenIdle::Terminate);
        assert_eq!(timers_of_runs(&stops, true), stops);
    }
}
