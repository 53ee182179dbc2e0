//! The Communication Manager, as an operator speaks with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_control_api::v1::watch_event::Event;
use muster_control_api::v1::{
    ApplyRequest, DocumentFormat, GetOverviewRequest, Instance, Kind, Node, WatchRequest,
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A daemon that starts is asked again after so long.
const AGAIN: Duration = Duration::from_millis(20);

/// What the Communication Manager does not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// There is no way to speak with it.
    #[error("cannot speak with a daemon")]
    Runtime(#[source] std::io::Error),
    /// Its socket cannot be named.
    #[error("{} cannot be the socket of a daemon", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: tonic::transport::Error,
    },
    /// It does not answer.
    #[error("the Communication Manager does not answer at {}", path.display())]
    Silent {
        /// Its socket.
        path: PathBuf,
        /// What came instead.
        source: Box<Status>,
    },
    /// It refuses what shall run.
    #[error("the Communication Manager refuses {}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<Status>,
    },
    /// It does not tell what happens.
    #[error("the Communication Manager does not tell what happens")]
    Watch(#[source] Box<Status>),
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceRow {
    /// `item/subject/number`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it is; empty while it has no place.
    pub node: String,
    /// `activating`, `active`, `inactive`, `failed` or `unplaced`.
    pub state: String,
    /// Its address; empty without a network.
    pub address: String,
    /// What is wrong with it.
    pub error: String,
}

/// How nodes and instances are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Nodes, and whether they are connected.
    pub nodes: BTreeMap<String, bool>,
    /// Instances by their names.
    pub instances: BTreeMap<String, InstanceRow>,
}

impl Picture {
    /// Takes a change in; whether it was one.
    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Node(Node {
                node_id, connected, ..
            }) => self.nodes.insert(node_id, connected) != Some(connected),
            Event::NodeGone(node) => self.nodes.remove(&node).is_some(),
            Event::Instance(instance) => {
                let row = row(instance);
                let before = self.instances.insert(row.name.clone(), row.clone());
                before != Some(row)
            }
            Event::InstanceGone(ident) => {
                let name = format!("{}/{}/{}", ident.item_id, ident.subject_id, ident.instance);
                self.instances.remove(&name).is_some()
            }
            _ => false,
        }
    }

    /// Nodes that are connected.
    pub fn connected(&self) -> usize {
        self.nodes.values().filter(|it| **it).count()
    }

    /// Instances that are not active.
    pub fn waiting(&self) -> usize {
        let is_active = |it: &&InstanceRow| it.state == "active";
        self.instances.len() - self.instances.values().filter(is_active).count()
    }
}

fn row(instance: Instance) -> InstanceRow {
    let ident = instance.ident.unwrap_or_default();
    InstanceRow {
        name: format!("{}/{}/{}", ident.item_id, ident.subject_id, ident.instance),
        version: instance.version,
        node: instance.node_id,
        state: instance.state,
        address: instance.address,
        error: instance.error.map(|it| it.message).unwrap_or_default(),
    }
}

/// The Communication Manager.
#[derive(Debug)]
pub(crate) struct Unit {
    client: ControlServiceClient<Channel>,
    socket: PathBuf,
}

impl Unit {
    /// Prepares the way.
    pub(crate) fn new(socket: &Path) -> Result<Self, UnitError> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()));
        let endpoint = endpoint.map_err(|source| UnitError::Socket {
            path: socket.to_owned(),
            source,
        })?;
        Ok(Self {
            client: ControlServiceClient::new(endpoint.connect_lazy()),
            socket: socket.to_owned(),
        })
    }

    /// Waits until it answers.
    pub(crate) async fn wait(&mut self, deadline: Instant) -> Result<(), UnitError> {
        let mut last = Status::deadline_exceeded("no answer in time");
        loop {
            let asked = timeout_at(deadline, self.client.get_overview(GetOverviewRequest {})).await;
            match asked.unwrap_or_else(|_| Err(last.clone())) {
                Ok(_) => return Ok(()),
                Err(status) if status.code() == Code::Unavailable && Instant::now() < deadline => {
                    last = status;
                    sleep(AGAIN).await;
                }
                Err(status) => {
                    return Err(UnitError::Silent {
                        path: self.socket.clone(),
                        source: Box::new(status),
                    });
                }
            }
        }
    }

    /// Has it want what a file says.
    pub(crate) async fn apply(&mut self, path: &Path, document: Vec<u8>) -> Result<(), UnitError> {
        let request = ApplyRequest {
            document,
            format: DocumentFormat::Yaml.into(),
            name: path.display().to_string(),
            dry_run: false,
        };
        match self.client.apply(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(UnitError::Refused {
                path: path.to_owned(),
                source: Box::new(status),
            }),
        }
    }

    /// Follows what happens until `is_there`, or the time is over. A stream that breaks is opened again.
    pub(crate) async fn follow(
        &mut self,
        deadline: Instant,
        is_there: &mut dyn FnMut(&Picture) -> bool,
    ) -> Result<Picture, UnitError> {
        loop {
            let mut picture = Picture::default();
            match self.follow_once(&mut picture, deadline, is_there).await {
                Err(status) if status.code() == Code::Unavailable && Instant::now() < deadline => {
                    sleep(AGAIN).await;
                }
                Err(status) => return Err(UnitError::Watch(Box::new(status))),
                Ok(true) => return Ok(picture),
                Ok(false) if Instant::now() >= deadline => return Ok(picture),
                Ok(false) => {}
            }
        }
    }

    /// Whether it was there before the end of the stream or of the time.
    async fn follow_once(
        &mut self,
        picture: &mut Picture,
        deadline: Instant,
        is_there: &mut dyn FnMut(&Picture) -> bool,
    ) -> Result<bool, Status> {
        let kinds = [Kind::Nodes, Kind::Instances].map(Into::into).to_vec();
        let mut events = self
            .client
            .watch(WatchRequest { kinds })
            .await?
            .into_inner();
        let mut is_synced = false;
        while let Ok(Some(event)) = timeout_at(deadline, events.next()).await {
            let changed = match event?.event {
                Some(Event::Synced(_)) => {
                    is_synced = true;
                    true
                }
                Some(event) => picture.take(event),
                None => false,
            };
            if is_synced && changed && is_there(picture) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use muster_api::common::v2::InstanceIdent;

    use super::*;

    fn instance(number: u64, state: &str) -> Event {
        let ident = InstanceIdent {
            item_id: "web".into(),
            subject_id: "demo".into(),
            instance: number,
            ..InstanceIdent::default()
        };
        Event::Instance(Instance {
            ident: Some(ident),
            state: state.into(),
            ..Instance::default()
        })
    }

    #[test]
    fn a_picture_follows_what_is_told() {
        let mut picture = Picture::default();
        assert!(picture.take(instance(0, "activating")));
        assert!(picture.take(instance(1, "active")));
        assert!(!picture.take(instance(1, "active")), "nothing new");
        assert_eq!(picture.waiting(), 1);
        assert!(picture.take(instance(0, "active")));
        assert_eq!(picture.waiting(), 0);
        let gone = InstanceIdent {
            item_id: "web".into(),
            subject_id: "demo".into(),
            instance: 1,
            ..InstanceIdent::default()
        };
        assert!(picture.take(Event::InstanceGone(gone)));
        assert_eq!(picture.instances.len(), 1);
    }
}
