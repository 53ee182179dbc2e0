//! Requests that make one instance of one of several types, in one step: a launch template, which says what it is made of, and an
//! instant fleet of one.

use std::collections::BTreeMap;

use super::action::{Action, ReadAnswerError};
use super::fault::Ec2Fault;
use super::instances::InstanceData;
use super::model::{Filter, push_filters, push_tags};
use super::query::Query;
use super::xml::Element;

/// Makes a launch template. Its name makes the request idempotent: one that is there is not made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateLaunchTemplate {
    /// Its name.
    pub name: String,
    /// What instances are made of.
    pub data: InstanceData,
}

impl Action for CreateLaunchTemplate {
    const NAME: &'static str = "CreateLaunchTemplate";
    type Answer = ();

    fn parameters(&self, query: &mut Query) {
        query.push("LaunchTemplateName", &self.name);
        self.data.push(query, "LaunchTemplateData.");
        push_tags(query, "", &["launch-template"], &self.data.tags);
    }

    fn read(_: &Element) -> Result<(), ReadAnswerError> {
        Ok(())
    }
}

/// Takes a launch template away; instances that were made with it stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteLaunchTemplate {
    /// Its name.
    pub name: String,
}

impl Action for DeleteLaunchTemplate {
    const NAME: &'static str = "DeleteLaunchTemplate";
    type Answer = ();

    fn parameters(&self, query: &mut Query) {
        query.push("LaunchTemplateName", &self.name);
    }

    fn read(_: &Element) -> Result<(), ReadAnswerError> {
        Ok(())
    }
}

/// Tells about launch templates with a tag, a page of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeLaunchTemplates {
    /// Those that fit all of these.
    pub filters: Vec<Filter>,
}

/// A launch template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Its name.
    pub name: String,
    /// When it was made, in ISO 8601.
    pub created: Option<String>,
}

impl Action for DescribeLaunchTemplates {
    const NAME: &'static str = "DescribeLaunchTemplates";
    type Answer = Vec<LaunchTemplate>;

    fn parameters(&self, query: &mut Query) {
        push_filters(query, &self.filters);
    }

    fn read(answer: &Element) -> Result<Vec<LaunchTemplate>, ReadAnswerError> {
        let items = answer.items("launchTemplates").map(|item| {
            let name = item.value("launchTemplateName");
            let name = name.ok_or(ReadAnswerError::Missing("name of a launch template"))?;
            Ok(LaunchTemplate {
                name: name.to_owned(),
                created: item.value("createTime").map(str::to_owned),
            })
        });
        items.collect()
    }
}

/// Makes one spot instance of whichever of several types there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFleet {
    /// The launch template.
    pub template: String,
    /// The types, the best first.
    pub kinds: Vec<String>,
    /// A subnet.
    pub subnet: Option<String>,
    /// Makes the request idempotent.
    pub token: String,
    /// Tags of the fleet and of its instance.
    pub tags: BTreeMap<String, String>,
}

/// What came of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetAnswer {
    /// An instance.
    Made {
        /// `i-…`
        id: String,
    },
    /// None: what was wrong with each type.
    NotMade(Vec<Ec2Fault>),
}

impl Action for CreateFleet {
    const NAME: &'static str = "CreateFleet";
    type Answer = FleetAnswer;

    fn parameters(&self, query: &mut Query) {
        query.push("Type", "instant");
        query.push("ClientToken", &self.token);
        let target = "TargetCapacitySpecification";
        query.push(format!("{target}.TotalTargetCapacity"), 1);
        query.push(format!("{target}.DefaultTargetCapacityType"), "spot");
        query.push(
            "SpotOptions.AllocationStrategy",
            "capacity-optimized-prioritized",
        );
        query.push("SpotOptions.InstanceInterruptionBehavior", "terminate");
        let config = "LaunchTemplateConfigs.1";
        let template = format!("{config}.LaunchTemplateSpecification");
        query.push(format!("{template}.LaunchTemplateName"), &self.template);
        query.push(format!("{template}.Version"), "$Latest");
        for (nth, kind) in (1..).zip(&self.kinds) {
            let over = format!("{config}.Overrides.{nth}");
            query.push(format!("{over}.InstanceType"), kind);
            query.push(format!("{over}.Priority"), nth);
            query.push_some(format!("{over}.SubnetId"), self.subnet.as_ref());
        }
        push_tags(query, "", &["fleet", "instance"], &self.tags);
    }

    fn read(answer: &Element) -> Result<FleetAnswer, ReadAnswerError> {
        let made = answer.items("fleetInstanceSet").find_map(|set| {
            let first = set.items("instanceIds").next();
            first.map(|id| id.text().to_owned())
        });
        if let Some(id) = made {
            return Ok(FleetAnswer::Made { id });
        }
        let faults = answer.items("errorSet").map(|error| {
            let part = |name| error.value(name).unwrap_or_default();
            // A fleet that made nothing was answered with success.
            Ec2Fault::new(200, part("errorCode"), part("errorMessage"))
        });
        Ok(FleetAnswer::NotMade(faults.collect()))
    }
}
