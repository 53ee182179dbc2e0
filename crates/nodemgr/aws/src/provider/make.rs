//! Making a machine.

use std::time::{Duration, SystemTime};

use muster_lifecycle::State;
use muster_provider::{Described, FailureClass, ManagerId, Mark, Order};

use super::{Failure, Inside};
use crate::client::CallError;
use crate::ec2::{
    CreateFleet, CreateLaunchTemplate, DeleteLaunchTemplate, DescribeInstances,
    DescribeLaunchTemplates, Ec2Fault, Filter, FleetAnswer, Instance, Meaning,
};
use crate::fault::{FLEET_MADE, RUN, TEMPLATE_GONE, TEMPLATE_MADE};
use crate::settings::Region;
use crate::wanted::{Attempt, Wanted};

/// Launch templates live for the moment in which a machine is made. What is older was left behind by a manager that was killed.
const TEMPLATE_LIFE: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, thiserror::Error)]
enum NotMade {
    #[error("{0} was made with the same token, and bears another mark")]
    OtherMark(String),
    #[error("EC2 gave {0}, which is no machine that can be told about")]
    Untold(String),
    #[error("no spot machine was to be had: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Fleet { faults: Vec<Ec2Fault> },
    #[error("a machine was made with the order's token before, and EC2 does not show it yet")]
    TokenUsed(#[source] CallError),
}

/// What an attempt that made nothing means.
#[derive(Debug)]
struct Missed {
    meaning: Meaning,
    failure: Failure,
}

impl From<CallError> for Missed {
    fn from(error: CallError) -> Self {
        let meaning = error.meaning();
        let class = match meaning.class() {
            // A subnet, a key, an image: nothing that comes by waiting.
            FailureClass::NotFound => FailureClass::Refused,
            class => class,
        };
        let failure = match meaning {
            Meaning::TokenUsed => Failure::new(class, NotMade::TokenUsed(error)),
            _ => Failure::new(class, error),
        };
        Self { meaning, failure }
    }
}

impl Attempt {
    /// Whether the next attempt may have what this one had not.
    fn goes_on_after(&self, meaning: Meaning) -> bool {
        let spot = match self {
            Self::Run(run) => run.spot,
            Self::Fleet { .. } => true,
        };
        // There are quotas of their own for spot machines.
        meaning == Meaning::Capacity || spot && meaning == Meaning::Quota
    }
}

impl Inside {
    pub(super) async fn provision(&self, order: &Order) -> Result<Described, Failure> {
        let wanted = Wanted::read(order, &self.settings, &self.regions);
        let wanted = wanted.map_err(|problem| Failure::new(FailureClass::Refused, problem))?;
        let token = &order.mark.token;
        let mut progress = self.launches.begin(token).await;
        let result = self.make(order, &wanted, &mut progress).await;
        match &result {
            // It may have been made: the next call goes on from here.
            Err(failure) if failure.class.is_retryable() => drop(progress),
            _ => self.launches.end(token, progress),
        }
        result
    }

    async fn make(
        &self,
        order: &Order,
        wanted: &Wanted,
        progress: &mut usize,
    ) -> Result<Described, Failure> {
        let region = &wanted.region;
        if let Some(found) = self.find(region, &order.mark).await? {
            return Ok(found);
        }
        let needs_facts = wanted.needs_root_device();
        let image = self
            .resolve(region, &wanted.image, &order.spec, needs_facts)
            .await?;
        let attempts = wanted.attempts(&image);
        let mut left = attempts.iter().enumerate().skip(*progress).peekable();
        while let Some((nth, attempt)) = left.next() {
            *progress = nth;
            let missed = match self.attempt(region, attempt).await {
                Ok(instance) => return self.made(&instance, order, region),
                Err(missed) => missed,
            };
            if missed.meaning == Meaning::TokenUsed
                && let Some(found) = self.find(region, &order.mark).await?
            {
                return Ok(found);
            }
            if left.peek().is_none() || !attempt.goes_on_after(missed.meaning) {
                return Err(missed.failure);
            }
        }
        let nothing = NotMade::Fleet { faults: Vec::new() };
        Err(Failure::new(FailureClass::Capacity, nothing))
    }

    fn made(
        &self,
        instance: &Instance,
        order: &Order,
        region: &Region,
    ) -> Result<Described, Failure> {
        let settle = self.settings.settle;
        self.launches.made(&instance.id, &order.mark, settle);
        let told = self.told(instance, region);
        match told {
            Some(told) if told.mark != order.mark => {
                let other = NotMade::OtherMark(instance.id.clone());
                Err(Failure::new(FailureClass::Refused, other))
            }
            Some(told) => Ok(told),
            None => {
                let untold = NotMade::Untold(instance.id.clone());
                Err(Failure::new(FailureClass::Retryable, untold))
            }
        }
    }

    /// The machine that was made for an order before. One that lives is preferred to one that is gone.
    async fn find(&self, region: &Region, mark: &Mark) -> Result<Option<Described>, Failure> {
        let labels = mark.labels().map(|(key, value)| Filter::tag(key, value));
        let [_, _, token] = labels;
        let mut found = self.instances(region, vec![token]).await?;
        found.retain(|instance| {
            let theirs = Mark::from_labels(&instance.tags);
            theirs.is_some_and(|theirs| theirs.token == mark.token)
        });
        found.sort_by_key(|instance| (instance.state.is_ending(), instance.id.clone()));
        let Some(instance) = found.first() else {
            return Ok(None);
        };
        let told = self.told(instance, region);
        match told {
            Some(told) if told.mark == *mark => Ok(Some(told)),
            _ => {
                let other = NotMade::OtherMark(instance.id.clone());
                Err(Failure::new(FailureClass::Refused, other))
            }
        }
    }

    async fn attempt(&self, region: &Region, attempt: &Attempt) -> Result<Instance, Missed> {
        match attempt {
            Attempt::Run(run) => {
                let mut instance = self.client.call(region, run).await?;
                muster_fault::hit(RUN);
                if instance.tags.is_empty() {
                    instance.tags = run.data.tags.clone();
                }
                Ok(instance)
            }
            Attempt::Fleet { template, fleet } => self.fleet(region, template, fleet).await,
        }
    }

    async fn fleet(
        &self,
        region: &Region,
        template: &CreateLaunchTemplate,
        fleet: &CreateFleet,
    ) -> Result<Instance, Missed> {
        match self.client.call(region, template).await {
            // Its name has our token in it: it is ours, of a call before.
            Err(error) if error.meaning() == Meaning::Exists => {}
            created => created?,
        }
        muster_fault::hit(TEMPLATE_MADE);
        let answer = self.client.call(region, fleet).await;
        muster_fault::hit(FLEET_MADE);
        if !matches!(&answer, Err(error) if error.meaning().class().is_retryable()) {
            self.delete_template(region, template.name.clone()).await;
        }
        muster_fault::hit(TEMPLATE_GONE);
        let id = match answer? {
            FleetAnswer::Made { id } => id,
            FleetAnswer::NotMade(faults) => {
                let meaning = worth_most(&faults);
                let failure = Failure::new(meaning.class(), NotMade::Fleet { faults });
                return Err(Missed { meaning, failure });
            }
        };
        let request = DescribeInstances {
            ids: vec![id.clone()],
            ..DescribeInstances::default()
        };
        let page = self.client.call(region, &request).await;
        let instances = page.into_iter().flat_map(|page| page.instances);
        // EC2 may not show it yet. That it was made is certain, and that it bears our tags.
        Ok(instances
            .into_iter()
            .find(|it| it.id == id)
            .unwrap_or_else(|| Instance {
                id,
                state: State::Pending,
                state_reason: None,
                kind: None,
                image: Some(template.data.image.clone()),
                zone: None,
                spot: true,
                can_hibernate: false,
                public_address: None,
                private_address: None,
                tags: fleet.tags.clone(),
            }))
    }

    /// Takes a launch template away. Where that fails, it goes with the machine or in a later sweep.
    pub(super) async fn delete_template(&self, region: &Region, name: String) {
        let request = DeleteLaunchTemplate { name };
        match self.client.call(region, &request).await {
            Err(error) if error.meaning() != Meaning::NotFound => {
                tracing::warn!(name = %request.name, %region, error = %error, "a launch template stays for now");
            }
            _ => {}
        }
    }

    /// Takes launch templates away that a manager left behind when it was killed.
    pub(super) async fn sweep_templates(&self, region: &Region, manager: &ManagerId) {
        let (key, value) = Mark::manager_label(manager);
        let filters = vec![Filter::tag(key, value)];
        let templates = self
            .client
            .call(region, &DescribeLaunchTemplates { filters })
            .await;
        // Who may not look for them did not make any.
        for template in templates.unwrap_or_default() {
            let made = template
                .created
                .and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let age = made.and_then(|made| SystemTime::now().duration_since(made.into()).ok());
            if age.is_some_and(|age| age > TEMPLATE_LIFE) {
                self.delete_template(region, template.name).await;
            }
        }
    }
}

/// Of the faults of several types, the one that says what to do: wait, or take another kind of machine.
fn worth_most(faults: &[Ec2Fault]) -> Meaning {
    let weight = |meaning: &Meaning| match meaning {
        Meaning::Throttled | Meaning::Passing => 3,
        Meaning::Capacity => 2,
        Meaning::Quota => 1,
        _ => 0,
    };
    let meanings = faults.iter().map(Ec2Fault::meaning);
    // A fleet that made nothing and says nothing found no room.
    meanings.max_by_key(weight).unwrap_or(Meaning::Capacity)
}
