//! Where an instance is, and what is told about it. Pure.

use std::collections::BTreeMap;

use muster_lifecycle::{Reason, State, VerbSet};
use muster_provider::{Capabilities, Capability, Described, Mark, Means, ResourceId, Transport};

use crate::ec2::Instance;
use crate::rules::offered;
use crate::settings::{AddressChoice, Region};
use crate::wanted::USER_TAG;

/// An instance and its region, written `i-0123@eu-central-1`: an id alone does not say whom to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) instance: String,
    pub(crate) region: Region,
}

/// A name that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no machine of EC2: such a name is i-0123@eu-central-1")]
pub struct InvalidPlace(String);

impl Place {
    pub(crate) fn read(resource: &ResourceId) -> Result<Self, InvalidPlace> {
        let invalid = || InvalidPlace(resource.to_string());
        let (instance, region) = resource.as_str().split_once('@').ok_or_else(invalid)?;
        Ok(Self {
            instance: instance.to_owned(),
            region: region.parse().map_err(|_| invalid())?,
        })
    }

    /// The name. None where EC2 gave an id that is none.
    pub(crate) fn resource(instance: &str, region: &Region) -> Option<ResourceId> {
        ResourceId::new(&format!("{instance}@{region}")).ok()
    }
}

/// How machines of EC2 are used.
pub(crate) fn ssh() -> Capabilities {
    let means = [
        Means::Exec,
        Means::Attach,
        Means::Sftp,
        Means::Rsync,
        Means::Forward,
    ];
    let all = means.map(|means| Capability::new(Transport::Ssh, means));
    all.into_iter().collect()
}

/// Why an instance is where it is, where EC2 tells.
fn reason(instance: &Instance) -> Option<Reason> {
    let code = instance.state_reason.as_deref()?;
    match code {
        "Server.SpotInstanceTermination" | "Server.SpotInstanceShutdown" => {
            Some(Reason::Interrupted)
        }
        "Client.InstanceInitiatedShutdown" => Some(Reason::Outside),
        // It never ran: there was no room for it, or its volume could not be made.
        "Server.InsufficientInstanceCapacity"
        | "Client.VolumeLimitExceeded"
        | "Client.InvalidSnapshot.NotFound"
        | "Client.InternalError" => instance.state.is_ending().then_some(Reason::NotMade),
        _ => None,
    }
}

/// What is told about an instance. None where it bears no mark: it is not ours.
pub(crate) fn describe(
    instance: &Instance,
    region: &Region,
    choice: AddressChoice,
    of_all: VerbSet,
) -> Option<Described> {
    let mark = Mark::from_labels(&instance.tags)?;
    let public = match choice {
        AddressChoice::Public => instance.public_address,
        AddressChoice::Private => None,
    };
    let address = public.or(instance.private_address);
    let user = instance.tags.get(USER_TAG);
    let reached = user.is_some() && address.is_some() && instance.state == State::Running;
    let mut details = BTreeMap::from([("region".to_owned(), region.to_string())]);
    let mut tell = |name: &str, value: Option<&String>| {
        if let Some(value) = value {
            details.insert(name.to_owned(), value.clone());
        }
    };
    tell("instanceType", instance.kind.as_ref());
    tell("image", instance.image.as_ref());
    tell("zone", instance.zone.as_ref());
    tell("user", user);
    tell("stateReason", instance.state_reason.as_ref());
    Some(Described {
        resource: Place::resource(&instance.id, region)?,
        mark,
        state: instance.state,
        reason: reason(instance),
        spot: instance.spot,
        verbs: offered(instance, of_all),
        address,
        access: if reached { ssh() } else { Capabilities::new() },
        details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(state: State, tags: &[(&str, &str)]) -> Instance {
        let tags = tags
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        Instance {
            id: "i-1".to_owned(),
            state,
            state_reason: Some("Server.SpotInstanceTermination".to_owned()),
            kind: Some("t3.micro".to_owned()),
            image: None,
            zone: None,
            spot: true,
            can_hibernate: false,
            public_address: "192.0.2.1".parse().ok(),
            private_address: "10.0.0.1".parse().ok(),
            tags: tags.collect(),
        }
    }

    const MARK: [(&str, &str); 3] = [
        ("muster-manager", "us"),
        ("muster-machine", "m-1"),
        ("muster-token", "t"),
    ];

    #[test]
    fn a_place_reads_back_and_nothing_else_is_one() {
        let region: Region = "eu-central-1".parse().unwrap();
        let resource = Place::resource("i-1", &region).unwrap();
        let place = Place::read(&resource).unwrap();
        assert_eq!((place.instance.as_str(), &place.region), ("i-1", &region));
        for wrong in ["i-1", "i-1@", "i-1@EU", "i-1@a.b"] {
            let resource = ResourceId::new(wrong).unwrap();
            assert!(Place::read(&resource).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_told_follows_from_tags_state_and_addresses() {
        let region: Region = "eu-central-1".parse().unwrap();
        let plain = instance(State::Running, &MARK);
        let told = describe(&plain, &region, AddressChoice::Public, VerbSet::ALL).unwrap();
        assert_eq!(told.address, plain.public_address);
        assert!(told.access.is_empty(), "nobody gave it keys");
        assert_eq!(told.reason, Some(Reason::Interrupted));
        let told = describe(&plain, &region, AddressChoice::Private, VerbSet::ALL).unwrap();
        assert_eq!(told.address, plain.private_address);

        let mut seeded = plain.clone();
        seeded.tags.insert(USER_TAG.to_owned(), "dev".to_owned());
        let told = describe(&seeded, &region, AddressChoice::Public, VerbSet::ALL).unwrap();
        assert_eq!(told.access, ssh());
        assert_eq!(told.details["user"], "dev");
        seeded.state = State::Pending;
        let told = describe(&seeded, &region, AddressChoice::Public, VerbSet::ALL).unwrap();
        assert!(told.access.is_empty(), "it does not run yet");

        let foreign = instance(State::Running, &MARK[..2]);
        assert_eq!(
            describe(&foreign, &region, AddressChoice::Public, VerbSet::ALL),
            None
        );
    }
}
