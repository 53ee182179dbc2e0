//! The servers of all networks, and who starts and ends them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::decide::NetworkSettings;
use crate::records::Hosts;
use crate::server::{Limits, Serve, Server};

const COMMANDS: usize = 32;

/// Why names are not served as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeNamesError {
    /// The server's address cannot be listened on.
    #[error("cannot serve the names of the network {network} on {listen}")]
    Listen {
        /// Which network.
        network: String,
        /// Where.
        listen: SocketAddr,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It would ask itself.
    #[error("the name server of the network {network} would ask itself on {listen}")]
    Loop {
        /// Which network.
        network: String,
        /// Where it listens.
        listen: SocketAddr,
    },
    /// Names of a network that was never put.
    #[error("there is no name server for the network {network}")]
    NoSuchNetwork {
        /// Which network.
        network: String,
    },
    /// The process is about to end.
    #[error("the name server has ended")]
    Ended,
}

/// Serves the names of networks.
///
/// Everything is idempotent, and nothing needs a restart of anything.
pub trait NameServer: fmt::Debug + Send + Sync + 'static {
    /// Begins to serve a network, or serves it differently from now on. Its hosts stay.
    fn put_network<'a>(
        &'a self,
        network: &'a str,
        settings: NetworkSettings,
    ) -> BoxFuture<'a, Result<(), ServeNamesError>>;

    /// From now on these are all the names of a network.
    fn set_hosts<'a>(
        &'a self,
        network: &'a str,
        hosts: Hosts,
    ) -> BoxFuture<'a, Result<(), ServeNamesError>>;

    /// Ends serving a network.
    fn remove_network<'a>(&'a self, network: &'a str)
    -> BoxFuture<'a, Result<(), ServeNamesError>>;
}

#[derive(Debug)]
struct Command {
    network: String,
    what: What,
    outcome: oneshot::Sender<Result<(), ServeNamesError>>,
}

#[derive(Debug)]
enum What {
    Put(NetworkSettings),
    Set(Hosts),
    Remove,
}

/// Servers inside this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Resolver {
    commands: mpsc::Sender<Command>,
}

/// What the handles talk to.
#[derive(Debug)]
pub struct ResolverTask {
    commands: mpsc::Receiver<Command>,
    limits: Limits,
    networks: BTreeMap<String, Network>,
}

#[derive(Debug)]
struct Network {
    settings: Arc<NetworkSettings>,
    hosts: watch::Sender<Arc<Hosts>>,
    server: JoinHandle<()>,
}

impl Drop for Network {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Resolver {
    /// A handle, and the task that must run for it.
    pub fn new(limits: Limits) -> (Self, ResolverTask) {
        let (sender, commands) = mpsc::channel(COMMANDS);
        let task = ResolverTask {
            commands,
            limits,
            networks: BTreeMap::new(),
        };
        (Self { commands: sender }, task)
    }

    async fn ask(&self, network: &str, what: What) -> Result<(), ServeNamesError> {
        let (outcome, done) = oneshot::channel();
        let command = Command {
            network: network.to_owned(),
            what,
            outcome,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| ServeNamesError::Ended)?;
        done.await.map_err(|_| ServeNamesError::Ended)?
    }
}

impl NameServer for Resolver {
    fn put_network<'a>(
        &'a self,
        network: &'a str,
        settings: NetworkSettings,
    ) -> BoxFuture<'a, Result<(), ServeNamesError>> {
        Box::pin(self.ask(network, What::Put(settings)))
    }

    fn set_hosts<'a>(
        &'a self,
        network: &'a str,
        hosts: Hosts,
    ) -> BoxFuture<'a, Result<(), ServeNamesError>> {
        Box::pin(self.ask(network, What::Set(hosts)))
    }

    fn remove_network<'a>(
        &'a self,
        network: &'a str,
    ) -> BoxFuture<'a, Result<(), ServeNamesError>> {
        Box::pin(self.ask(network, What::Remove))
    }
}

impl ResolverTask {
    /// Serves until every handle is gone, or this is dropped.
    pub async fn run(mut self) {
        while let Some(command) = self.commands.recv().await {
            let Command {
                network,
                what,
                outcome,
            } = command;
            let done = match what {
                What::Put(settings) => self.put(network, settings).await,
                What::Set(hosts) => self.set(network, hosts),
                What::Remove => {
                    self.end(&network).await;
                    Ok(())
                }
            };
            // Who asked may have stopped waiting.
            let _ = outcome.send(done);
        }
    }

    async fn put(
        &mut self,
        network: String,
        settings: NetworkSettings,
    ) -> Result<(), ServeNamesError> {
        let listen = settings.listen;
        let mut asked = settings.upstreams.iter().chain(&settings.controllers);
        if asked.any(|it| *it == listen) {
            return Err(ServeNamesError::Loop { network, listen });
        }
        let hosts = match self.networks.get(&network) {
            Some(before) if *before.settings == settings && !before.server.is_finished() => {
                return Ok(());
            }
            Some(before) => before.hosts.borrow().clone(),
            None => Arc::default(),
        };
        // The address must be free before it is taken anew.
        self.end(&network).await;
        let settings = Arc::new(settings);
        let (hosts, watched) = watch::channel(hosts);
        let serve = Serve::Network {
            settings: Arc::clone(&settings),
            hosts: watched,
        };
        let server = Server::bind(listen, serve, self.limits);
        let server = server.map_err(|source| ServeNamesError::Listen {
            network: network.clone(),
            listen,
            source,
        })?;
        let name = network.clone();
        let server = tokio::spawn(async move {
            tracing::debug!(network = name, %listen, "names are served");
            server.run().await;
        });
        let running = Network {
            settings,
            hosts,
            server,
        };
        self.networks.insert(network, running);
        Ok(())
    }

    fn set(&self, network: String, hosts: Hosts) -> Result<(), ServeNamesError> {
        let Some(running) = self.networks.get(&network) else {
            return Err(ServeNamesError::NoSuchNetwork { network });
        };
        running.hosts.send_replace(Arc::new(hosts));
        Ok(())
    }

    /// Returns when the sockets are closed.
    async fn end(&mut self, network: &str) {
        if let Some(mut gone) = self.networks.remove(network) {
            gone.server.abort();
            let _ = (&mut gone.server).await;
        }
    }
}
