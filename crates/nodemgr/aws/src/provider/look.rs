//! Looking at one instance, and believing what is seen.

use muster_lifecycle::State;
use muster_provider::{FailureClass, Mark};

use super::{Failure, Inside, Trouble};
use crate::ec2::{DescribeInstances, Instance, Meaning};
use crate::place::Place;

/// What a look at an instance came to.
pub(super) enum Look {
    /// It is there and bears the mark.
    There(Instance),
    /// We made it a moment ago, and EC2 does not show it yet.
    New,
    /// EC2 does not show it, and we have not been here long enough to know what that means.
    Unknown,
    /// It is gone, or never was.
    Gone,
}

impl Inside {
    /// Looks at an instance. Fails as refused when it bears another mark.
    pub(super) async fn look(&self, place: &Place, mark: &Mark) -> Result<Look, Failure> {
        let request = DescribeInstances {
            ids: vec![place.instance.clone()],
            ..DescribeInstances::default()
        };
        let page = match self.client.call(&place.region, &request).await {
            Err(error) if error.meaning() == Meaning::NotFound => None,
            page => Some(page?),
        };
        let instances = page.into_iter().flat_map(|page| page.instances);
        let Some(instance) = instances.into_iter().find(|it| it.id == place.instance) else {
            return Ok(match self.is_new(place, mark) {
                true => Look::New,
                // Before a restart, it may have been made by us.
                false if self.since.elapsed() < self.settings.settle => Look::Unknown,
                false => Look::Gone,
            });
        };
        match Mark::from_labels(&instance.tags) {
            Some(found) if found == *mark => Ok(Look::There(instance)),
            // EC2 takes the tags of what is gone away before it forgets it.
            None if instance.state == State::Terminated => Ok(Look::Gone),
            _ => {
                let trouble = Trouble::OtherMark(place.instance.clone());
                Err(Failure::new(FailureClass::Refused, trouble))
            }
        }
    }

    /// Whether we made it so lately that EC2 may not show it.
    pub(super) fn is_new(&self, place: &Place, mark: &Mark) -> bool {
        let settle = self.settings.settle;
        self.launches.is_recent(&place.instance, mark, settle)
    }
}
