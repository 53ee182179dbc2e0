//! Requests about instances.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_lifecycle::State;
use muster_provider::Secret;

use super::action::{Action, ReadAnswerError};
use super::model::{Filter, Instance, push_filters, push_tags, read_state};
use super::query::Query;
use super::xml::Element;

/// Instances of one page. EC2 allows 5 to 1000.
const PAGE: u16 = 500;

/// The root volume, where it is not as the image has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootVolume {
    /// The device that the image calls its root.
    pub device: String,
    /// Its size in GiB.
    pub size_gib: Option<u64>,
    /// Its type, such as `gp3`.
    pub kind: Option<String>,
    /// Whether it is encrypted; unset leaves it to the image and the account.
    pub encrypted: Option<bool>,
}

/// What an instance is made of, whichever request makes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceData {
    /// The image.
    pub image: String,
    /// The user data, before it is encoded. It holds keys.
    pub user_data: Option<Secret>,
    /// A key pair of the account.
    pub key_name: Option<String>,
    /// A subnet.
    pub subnet: Option<String>,
    /// Security groups, by their ids.
    pub security_groups: Vec<String>,
    /// An instance profile, by its name or its ARN.
    pub iam_profile: Option<String>,
    /// A zone.
    pub zone: Option<String>,
    /// `default`, `dedicated` or `host`.
    pub tenancy: Option<String>,
    /// The root volume.
    pub root: Option<RootVolume>,
    /// Whether it can be hibernated later.
    pub hibernation: bool,
    /// Tags of the instance and of its volumes.
    pub tags: BTreeMap<String, String>,
}

impl InstanceData {
    /// The parameters, each with a prefix. Where it stands in a launch template, placement is a part of that too.
    pub(super) fn push(&self, query: &mut Query, prefix: &str) {
        let name = |name: &str| format!("{prefix}{name}");
        query.push(name("ImageId"), &self.image);
        if let Some(user_data) = &self.user_data {
            query.push(name("UserData"), STANDARD.encode(user_data.reveal()));
        }
        query.push_some(name("KeyName"), self.key_name.as_ref());
        query.push_list(&name("SecurityGroupId"), &self.security_groups);
        if let Some(profile) = &self.iam_profile {
            let field = match profile.starts_with("arn:") {
                true => "Arn",
                false => "Name",
            };
            query.push(name(&format!("IamInstanceProfile.{field}")), profile);
        }
        query.push_some(name("Placement.AvailabilityZone"), self.zone.as_ref());
        query.push_some(name("Placement.Tenancy"), self.tenancy.as_ref());
        if let Some(root) = &self.root {
            let mapping = name("BlockDeviceMapping.1");
            query.push(format!("{mapping}.DeviceName"), &root.device);
            query.push(format!("{mapping}.Ebs.DeleteOnTermination"), true);
            query.push_some(format!("{mapping}.Ebs.VolumeSize"), root.size_gib);
            query.push_some(format!("{mapping}.Ebs.VolumeType"), root.kind.as_ref());
            query.push_some(format!("{mapping}.Ebs.Encrypted"), root.encrypted);
        }
        if self.hibernation {
            query.push(name("HibernationOptions.Configured"), true);
        }
        // A program in the machine that can be made to fetch a URL shall not get at its credentials.
        query.push(name("MetadataOptions.HttpTokens"), "required");
        query.push(name("MetadataOptions.HttpEndpoint"), "enabled");
        push_tags(query, prefix, &["instance", "volume"], &self.tags);
    }
}

/// Makes an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInstances {
    /// What it is made of.
    pub data: InstanceData,
    /// Its type.
    pub kind: String,
    /// Whether it is a spot instance, which EC2 may take back. It is asked for once, so that nothing is made after its end.
    pub spot: bool,
    /// Makes the request idempotent.
    pub token: String,
}

impl Action for RunInstances {
    const NAME: &'static str = "RunInstances";
    type Answer = Instance;

    fn parameters(&self, query: &mut Query) {
        query.push("MinCount", 1);
        query.push("MaxCount", 1);
        query.push("ClientToken", &self.token);
        query.push("InstanceType", &self.kind);
        self.data.push(query, "");
        query.push_some("SubnetId", self.data.subnet.as_ref());
        if self.spot {
            let options = "InstanceMarketOptions";
            query.push(format!("{options}.MarketType"), "spot");
            let spot = format!("{options}.SpotOptions");
            query.push(format!("{spot}.SpotInstanceType"), "one-time");
            query.push(format!("{spot}.InstanceInterruptionBehavior"), "terminate");
        }
    }

    fn read(answer: &Element) -> Result<Instance, ReadAnswerError> {
        let item = answer.items("instancesSet").next();
        Instance::read(item.ok_or(ReadAnswerError::Missing("instance"))?)
    }
}

/// Tells about instances, a page at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribeInstances {
    /// These; none are all that fit the filters. EC2 allows no pages for some that are named.
    pub ids: Vec<String>,
    /// Those that fit all of these.
    pub filters: Vec<Filter>,
    /// Where the page begins.
    pub next: Option<String>,
}

/// A page of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstancePage {
    /// Its instances.
    pub instances: Vec<Instance>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Action for DescribeInstances {
    const NAME: &'static str = "DescribeInstances";
    type Answer = InstancePage;

    fn parameters(&self, query: &mut Query) {
        query.push_list("InstanceId", &self.ids);
        push_filters(query, &self.filters);
        if self.ids.is_empty() {
            query.push("MaxResults", PAGE);
        }
        query.push_some("NextToken", self.next.as_ref());
    }

    fn read(answer: &Element) -> Result<InstancePage, ReadAnswerError> {
        let reservations = answer.items("reservationSet");
        let items = reservations.flat_map(|reservation| reservation.items("instancesSet"));
        Ok(InstancePage {
            instances: items.map(Instance::read).collect::<Result<_, _>>()?,
            next: answer.value("nextToken").map(str::to_owned),
        })
    }
}

/// The state that a request brought one instance to.
fn read_change(answer: &Element) -> Result<State, ReadAnswerError> {
    let item = answer.items("instancesSet").next();
    let item = item.ok_or(ReadAnswerError::Missing("instance"))?;
    let state = item.child("currentState");
    read_state(
        state.ok_or(ReadAnswerError::Missing("current state"))?,
        None,
    )
}

/// A request about one instance that is answered with its state.
macro_rules! change {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            /// Which one.
            pub id: String,
        }

        impl Action for $name {
            const NAME: &'static str = stringify!($name);
            type Answer = State;

            fn parameters(&self, query: &mut Query) {
                query.push("InstanceId.1", &self.id);
            }

            fn read(answer: &Element) -> Result<State, ReadAnswerError> {
                read_change(answer)
            }
        }
    };
}

change! {
    /// Starts an instance that is stopped or hibernated.
    StartInstances
}
change! {
    /// Ends an instance for good.
    TerminateInstances
}

/// How an instance is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// As its power button would.
    Graceful,
    /// Without asking the system.
    Force,
    /// With its memory kept.
    Hibernate,
}

/// Stops an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopInstances {
    /// Which one.
    pub id: String,
    /// How.
    pub mode: StopMode,
}

impl Action for StopInstances {
    const NAME: &'static str = "StopInstances";
    type Answer = State;

    fn parameters(&self, query: &mut Query) {
        query.push("InstanceId.1", &self.id);
        match self.mode {
            StopMode::Graceful => {}
            StopMode::Force => query.push("Force", true),
            StopMode::Hibernate => query.push("Hibernate", true),
        }
    }

    fn read(answer: &Element) -> Result<State, ReadAnswerError> {
        read_change(answer)
    }
}

/// Starts an instance's system anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootInstances {
    /// Which one.
    pub id: String,
}

impl Action for RebootInstances {
    const NAME: &'static str = "RebootInstances";
    type Answer = ();

    fn parameters(&self, query: &mut Query) {
        query.push("InstanceId.1", &self.id);
    }

    fn read(_: &Element) -> Result<(), ReadAnswerError> {
        Ok(())
    }
}
