//! What EC2 tells about instances and images, as far as it is used here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_lifecycle::{Halt, State};

use super::action::ReadAnswerError;
use super::query::Query;
use super::xml::Element;

/// What EC2 gives as the reason of a hibernation.
const HIBERNATED: &str = "Client.UserInitiatedHibernate";

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// `i-…`
    pub id: String,
    /// Where it is. Hibernated is told by the reason.
    pub state: State,
    /// EC2's code of why it is there, such as `Server.SpotInstanceTermination`.
    pub state_reason: Option<String>,
    /// Its type.
    pub kind: Option<String>,
    /// The image that it was made of.
    pub image: Option<String>,
    /// The zone that it is in.
    pub zone: Option<String>,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// Whether it was made so that it can be hibernated.
    pub can_hibernate: bool,
    /// Its address in the internet.
    pub public_address: Option<IpAddr>,
    /// Its address in its network.
    pub private_address: Option<IpAddr>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Instance {
    pub(crate) fn read(item: &Element) -> Result<Self, ReadAnswerError> {
        let reason = item.child("stateReason").and_then(|it| it.value("code"));
        let state = item
            .child("instanceState")
            .ok_or(ReadAnswerError::Missing("state of an instance"))?;
        let hibernation = item.child("hibernationOptions");
        let configured = hibernation.and_then(|it| it.value("configured"));
        let zone = item.child("placement");
        let own = |name| item.value(name).map(str::to_owned);
        let address = |name| item.value(name).and_then(|text| text.parse().ok());
        Ok(Self {
            id: own("instanceId").ok_or(ReadAnswerError::Missing("id of an instance"))?,
            state: read_state(state, reason)?,
            state_reason: reason.map(str::to_owned),
            kind: own("instanceType"),
            image: own("imageId"),
            zone: zone
                .and_then(|it| it.value("availabilityZone"))
                .map(str::to_owned),
            spot: item.value("instanceLifecycle") == Some("spot"),
            can_hibernate: configured == Some("true"),
            public_address: address("ipAddress"),
            private_address: address("privateIpAddress"),
            tags: read_tags(item),
        })
    }
}

fn read_tags(item: &Element) -> BTreeMap<String, String> {
    let tags = item.items("tagSet").filter_map(|tag| {
        let value = tag.value("value").unwrap_or_default();
        Some((tag.value("key")?.to_owned(), value.to_owned()))
    });
    tags.collect()
}

/// Reads `<code>` and `<name>`. EC2 keeps bits of its own in the high byte of a code.
pub(crate) fn read_state(state: &Element, reason: Option<&str>) -> Result<State, ReadAnswerError> {
    let name = state
        .value("name")
        .ok_or(ReadAnswerError::Missing("name of a state"))?;
    let halt = match reason {
        Some(HIBERNATED) => Halt::Hibernated,
        _ => Halt::Off,
    };
    Ok(match name {
        "pending" => State::Pending,
        "running" => State::Running,
        "stopping" => State::Stopping(halt),
        "stopped" => State::Stopped(halt),
        "shutting-down" => State::ShuttingDown,
        "terminated" => State::Terminated,
        other => {
            return Err(ReadAnswerError::Unknown {
                what: "state",
                value: muster_config::printable(other, 40),
            });
        }
    })
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `ami-…`
    pub id: String,
    /// EC2's name of its architecture.
    pub arch: String,
    /// When it was made, in ISO 8601, which sorts by time.
    pub created: String,
    /// The device that its root volume has.
    pub root_device: Option<String>,
}

impl Image {
    pub(crate) fn read(item: &Element) -> Result<Self, ReadAnswerError> {
        let own = |name| item.value(name).map(str::to_owned);
        Ok(Self {
            id: own("imageId").ok_or(ReadAnswerError::Missing("id of an image"))?,
            arch: own("architecture").unwrap_or_default(),
            created: own("creationDate").unwrap_or_default(),
            root_device: own("rootDeviceName"),
        })
    }
}

/// A condition: a name and the values that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// EC2's name of what is looked at, such as `tag:owner`.
    pub name: String,
    /// One of these must fit. `*` stands for anything.
    pub values: Vec<String>,
}

impl Filter {
    /// A filter with one value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            values: vec![value.into()],
        }
    }

    /// One on a tag's value, taken as it stands.
    #[must_use]
    pub fn tag(key: &str, value: &str) -> Self {
        Self::new(format!("tag:{key}"), literal(value))
    }
}

/// A text in which nothing stands for anything else.
fn literal(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('*', "\\*")
        .replace('?', "\\?")
}

pub(super) fn push_filters(query: &mut Query, filters: &[Filter]) {
    for (nth, filter) in (1..).zip(filters) {
        query.push(format!("Filter.{nth}.Name"), &filter.name);
        query.push_list(&format!("Filter.{nth}.Value"), &filter.values);
    }
}

/// Tags for one kind of resource, given with the request that makes it.
pub(super) fn push_tags(
    query: &mut Query,
    prefix: &str,
    resources: &[&str],
    tags: &BTreeMap<String, String>,
) {
    for (nth, resource) in (1..).zip(resources) {
        let specification = format!("{prefix}TagSpecification.{nth}");
        query.push(format!("{specification}.ResourceType"), resource);
        for (nth, (key, value)) in (1..).zip(tags) {
            query.push(format!("{specification}.Tag.{nth}.Key"), key);
            query.push(format!("{specification}.Tag.{nth}.Value"), value);
        }
    }
}
