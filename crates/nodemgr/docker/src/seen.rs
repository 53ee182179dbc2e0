//! What an engine shows of a container, and what that means.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bollard::models::{
    ContainerInspectResponse, ContainerStateStatusEnum as Status, ContainerSummary,
    ContainerSummaryStateEnum as SummaryStatus, EndpointSettings,
};
use muster_lifecycle::{Halt, State, VerbSet};
use muster_provider::{Capabilities, Described, Mark, ResourceId};

use crate::creation::{EXACT_LABEL, IMAGE_LABEL, LOCAL_LABEL, NOTE_LABEL, container_name};

/// A container, as a list and an inspection show it alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) resource: ResourceId,
    name: String,
    labels: BTreeMap<String, String>,
    status: Status,
    /// Addresses by network.
    addresses: BTreeMap<String, IpAddr>,
}

impl Seen {
    /// From an inspection. One without an id is none.
    pub(crate) fn inspected(it: ContainerInspectResponse) -> Option<Self> {
        let networks = it.network_settings.and_then(|it| it.networks);
        Some(Self {
            resource: ResourceId::new(&it.id?).ok()?,
            name: bare(&it.name?),
            labels: it.config?.labels.unwrap_or_default().into_iter().collect(),
            status: it.state?.status?,
            addresses: addresses(networks.unwrap_or_default()),
        })
    }

    /// From a list.
    pub(crate) fn listed(it: ContainerSummary) -> Option<Self> {
        let networks = it.network_settings.and_then(|it| it.networks);
        // Others are aliases from links, which hold a second slash.
        let names = it.names?.into_iter().map(|name| bare(&name));
        Some(Self {
            resource: ResourceId::new(&it.id?).ok()?,
            name: names.into_iter().find(|name| !name.contains('/'))?,
            labels: it.labels.unwrap_or_default().into_iter().collect(),
            status: status(it.state?),
            addresses: addresses(networks.unwrap_or_default()),
        })
    }

    /// The mark, if it has one and the name that goes with it. An image that was made of a machine has the machine's labels,
    /// and so has whatever is run from it: such a container has the labels, but not the name.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let mark = Mark::from_labels(&self.labels)?;
        (self.name == container_name(&mark.machine)).then_some(mark)
    }

    pub(crate) const fn state(&self) -> State {
        match self.status {
            Status::EMPTY | Status::CREATED => State::Pending,
            // Paused is running, only slowly: its memory is where it was, and so is its processes' claim to it.
            Status::RUNNING | Status::PAUSED | Status::RESTARTING => State::Running,
            Status::STOPPING => State::Stopping(Halt::Off),
            Status::EXITED => State::Stopped(Halt::Off),
            // What could not be removed wholly is still on its way.
            Status::REMOVING | Status::DEAD => State::ShuttingDown,
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.status == Status::PAUSED
    }

    /// For the registry.
    pub(crate) fn describe(&self, mark: Mark, access: &Capabilities) -> Described {
        let mut details = BTreeMap::from([("container".to_owned(), self.name.clone())]);
        let labels = [
            ("image", IMAGE_LABEL),
            ("exact", EXACT_LABEL),
            ("localImage", LOCAL_LABEL),
            ("note", NOTE_LABEL),
        ];
        for (detail, label) in labels {
            if let Some(text) = self.labels.get(label) {
                details.insert(detail.to_owned(), text.clone());
            }
        }
        if self.is_paused() {
            details.insert("paused".to_owned(), "true".to_owned());
        }
        if let Some(network) = self.addresses.keys().next() {
            details.insert("network".to_owned(), network.clone());
        }
        Described {
            resource: self.resource.clone(),
            mark,
            state: self.state(),
            reason: None,
            spot: false,
            // A container can whatever its engine can.
            verbs: VerbSet::ALL,
            address: self.addresses.values().next().copied(),
            access: access.clone(),
            details,
        }
    }
}

/// Docker writes names as paths.
fn bare(name: &str) -> String {
    name.strip_prefix('/').unwrap_or(name).to_owned()
}

const fn status(status: SummaryStatus) -> Status {
    match status {
        SummaryStatus::EMPTY => Status::EMPTY,
        SummaryStatus::CREATED => Status::CREATED,
        SummaryStatus::RUNNING => Status::RUNNING,
        SummaryStatus::PAUSED => Status::PAUSED,
        SummaryStatus::RESTARTING => Status::RESTARTING,
        SummaryStatus::STOPPING => Status::STOPPING,
        SummaryStatus::EXITED => Status::EXITED,
        SummaryStatus::REMOVING => Status::REMOVING,
        SummaryStatus::DEAD => Status::DEAD,
    }
}

fn addresses(
    networks: impl IntoIterator<Item = (String, EndpointSettings)>,
) -> BTreeMap<String, IpAddr> {
    let address = |it: &EndpointSettings| {
        let four = it.ip_address.as_deref().and_then(|it| it.parse().ok());
        four.or_else(|| it.global_ipv6_address.as_deref()?.parse().ok())
    };
    let networks = networks.into_iter();
    networks
        .filter_map(|(name, it)| Some((name, address(&it)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::{ContainerConfig, ContainerState, NetworkSettings};
    use muster_provider::{ClientToken, MachineId, ManagerId};

    use super::*;

    fn mark() -> Mark {
        Mark {
            manager: ManagerId::new("us").unwrap(),
            machine: MachineId::new("m-1").unwrap(),
            token: ClientToken::new("t").unwrap(),
        }
    }

    fn inspection(name: &str, status: Status) -> ContainerInspectResponse {
        let labels = mark()
            .labels()
            .map(|(key, it)| (key.to_owned(), it.to_owned()));
        let network = EndpointSettings {
            ip_address: Some("10.0.0.2".to_owned()),
            ..EndpointSettings::default()
        };
        let detached = EndpointSettings {
            ip_address: Some(String::new()),
            ..EndpointSettings::default()
        };
        ContainerInspectResponse {
            id: Some("ab".repeat(32)),
            name: Some(name.to_owned()),
            state: Some(ContainerState {
                status: Some(status),
                ..ContainerState::default()
            }),
            config: Some(ContainerConfig {
                labels: Some(HashMap::from(labels)),
                ..ContainerConfig::default()
            }),
            network_settings: Some(NetworkSettings {
                networks: Some(HashMap::from([
                    ("a".to_owned(), detached),
                    ("bridge".to_owned(), network),
                ])),
                ..NetworkSettings::default()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    #[test]
    fn every_state_of_a_container_is_one_of_a_machine() {
        let state = |status| Seen::inspected(inspection("/x", status)).unwrap().state();
        assert_eq!(state(Status::CREATED), State::Pending);
        assert_eq!(state(Status::RUNNING), State::Running);
        assert_eq!(state(Status::RESTARTING), State::Running);
        // Not hibernated: its memory is in use, and lost with the power.
        assert_eq!(state(Status::PAUSED), State::Running);
        assert_eq!(state(Status::EXITED), State::Stopped(Halt::Off));
        assert_eq!(state(Status::STOPPING), State::Stopping(Halt::Off));
        assert_eq!(state(Status::REMOVING), State::ShuttingDown);
        assert_eq!(state(Status::DEAD), State::ShuttingDown);
    }

    #[test]
    fn labels_without_the_name_are_no_mark() {
        let ours = Seen::inspected(inspection("/muster-m-1", Status::RUNNING)).unwrap();
        assert_eq!(ours.mark(), Some(mark()));
        let copy = Seen::inspected(inspection("/somebody", Status::RUNNING)).unwrap();
        assert_eq!(copy.mark(), None);
    }

    #[test]
    fn a_list_shows_the_same_as_an_inspection() {
        let inspected = Seen::inspected(inspection("/muster-m-1", Status::PAUSED)).unwrap();
        let it = inspection("/muster-m-1", Status::PAUSED);
        let networks = it.network_settings.unwrap().networks;
        let summary = ContainerSummary {
            id: it.id,
            names: Some(vec!["/other/alias".to_owned(), "/muster-m-1".to_owned()]),
            labels: it.config.unwrap().labels,
            state: Some(SummaryStatus::PAUSED),
            network_settings: Some(bollard::models::ContainerSummaryNetworkSettings { networks }),
            ..ContainerSummary::default()
        };
        assert_eq!(Seen::listed(summary), Some(inspected.clone()));
        let described = inspected.describe(mark(), &Capabilities::new());
        assert_eq!(described.address, Some([10, 0, 0, 2].into()));
        assert_eq!(described.details["paused"], "true");
    }
}
