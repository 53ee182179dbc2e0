//! The two ports: what protects each, and one task that keeps them so.
//!
//! What a port does follows from the node's phase and whether it has a certificate ([`mode`]). When
//! that changes, the listener stays open: the next server takes over, so that a client that is just
//! connecting is served by it, and calls under way get a moment to end.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::time::Duration;

use muster_rpc::ListenAddress;
use muster_rpc::server::{RunningServer, ServerConfig, StartServerError};
use muster_telemetry::{CancellationToken, ErrorChain};
use muster_tls::{
    IdentityPolicy, Insecure, MappingRule, NoReasonError, ServerOptions, ServerTls, TlsSetupError,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::caller::Door;
use crate::config::Port;
use crate::own_cert::InUse;
use crate::provisioning::phase::Phase;
use crate::services::Services;

/// How long calls under way get to end when a port changes its ways. Their answers are short, and
/// streams have to be opened anew.
const GRACE: Duration = Duration::from_secs(1);
/// How long until a port that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// How a port is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all.
    Closed,
    /// In the clear.
    Plain,
    /// With TLS; on the protected port, of both sides.
    Tls,
}

/// How a port is to be served. A member is never reached in the clear; a node that is none is, where
/// the configuration says so, until it has become one.
pub(crate) fn mode(port: Port, phase: Phase, certified: bool, insecure: &BTreeSet<Port>) -> Mode {
    if !phase.is_member() && insecure.contains(&port) {
        Mode::Plain
    } else if certified {
        Mode::Tls
    } else {
        Mode::Closed
    }
}

/// Why a port is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServePortError {
    /// It cannot be listened on.
    #[error("cannot listen on {address}, the {port}")]
    Listen {
        /// Which port.
        port: Door,
        /// The configured address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the {port}")]
    Tls {
        /// Which port.
        port: Door,
        /// What is wrong.
        source: TlsSetupError,
    },
    /// The server cannot be started.
    #[error("cannot serve the {port}")]
    Start {
        /// Which port.
        port: Door,
        /// What is wrong.
        source: StartServerError,
    },
    /// A port in the clear has to say why.
    #[error("cannot serve the {port} in the clear")]
    Reason {
        /// Which port.
        port: Door,
        /// What is wrong.
        source: NoReasonError,
    },
}

/// One port.
#[derive(Debug)]
struct PortServer {
    port: Port,
    address: ListenAddress,
    services: Services,
    /// Kept from one server to the next.
    listener: Option<(StdTcpListener, SocketAddr)>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    mode: Mode,
    /// Which certificate it was started with.
    number: u64,
    server: RunningServer,
}

/// What both ports are told.
#[derive(Debug)]
pub(crate) struct Signals {
    /// How far the node is.
    pub(crate) phase: watch::Receiver<Phase>,
    /// Its certificate.
    pub(crate) certificate: watch::Receiver<Option<InUse>>,
}

/// Both ports.
#[derive(Debug)]
pub(crate) struct Servers {
    ports: [PortServer; 2],
    insecure: BTreeSet<Port>,
    policy: IdentityPolicy,
    signals: Signals,
    /// Servers that let their last calls end.
    leaving: JoinSet<()>,
}

impl Servers {
    /// Opens the ports as they have to be now. `public` and `protected` are addresses and what is
    /// served there.
    ///
    /// # Errors
    /// A port that cannot be opened.
    pub(crate) async fn start(
        public: (ListenAddress, Services),
        protected: (ListenAddress, Services),
        insecure: BTreeSet<Port>,
        mapping: Vec<MappingRule>,
        signals: Signals,
    ) -> Result<Self, ServePortError> {
        let server = |port, (address, services)| PortServer {
            port,
            address,
            services,
            listener: None,
            running: None,
        };
        let mut servers = Self {
            ports: [
                server(Port::Public, public),
                server(Port::Protected, protected),
            ],
            insecure,
            policy: IdentityPolicy::spiffe_only().with_rules(mapping),
            signals,
            leaving: JoinSet::new(),
        };
        servers.follow().await?;
        Ok(servers)
    }

    /// The task; ends when `stop` is cancelled, with every call.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut failing = false;
        loop {
            tokio::select! {
                changed = self.signals.phase.changed() => if changed.is_err() {
                    break;
                },
                changed = self.signals.certificate.changed() => if changed.is_err() {
                    break;
                },
                Some(_) = self.leaving.join_next() => continue,
                () = sleep(RETRY), if failing => {}
                () = stop.cancelled() => break,
            }
            failing = match self.follow().await {
                Ok(()) => false,
                Err(failed) => {
                    error!(error = %ErrorChain(&failed), "a port is not served, trying again");
                    true
                }
            };
        }
        for server in &mut self.ports {
            server.leave(&mut self.leaving);
        }
        while self.leaving.join_next().await.is_some() {}
    }

    /// Makes both ports what they have to be.
    async fn follow(&mut self) -> Result<(), ServePortError> {
        let phase = *self.signals.phase.borrow_and_update();
        let certificate = self.signals.certificate.borrow_and_update().clone();
        let mut outcome = Ok(());
        for server in &mut self.ports {
            let mode = mode(server.port, phase, certificate.is_some(), &self.insecure);
            let number = certificate.as_ref().map_or(0, |in_use| in_use.number);
            if server.is(mode, number) {
                continue;
            }
            server.leave(&mut self.leaving);
            let tls = match (mode, &certificate) {
                (Mode::Plain, _) => server.plain(),
                (Mode::Tls, Some(in_use)) => server.tls(in_use, &self.policy),
                (Mode::Tls, None) | (Mode::Closed, _) => {
                    server.close();
                    continue;
                }
            };
            let started = match tls {
                Ok(tls) => server.start(mode, number, &tls).await,
                Err(failed) => Err(failed),
            };
            // The other port is served all the same.
            outcome = outcome.and(started);
        }
        outcome
    }
}

impl PortServer {
    fn door(&self) -> Door {
        Door::Port(self.port)
    }

    fn is(&self, mode: Mode, number: u64) -> bool {
        match &self.running {
            None => mode == Mode::Closed && self.listener.is_none(),
            Some(running) => {
                running.mode == mode && (mode == Mode::Plain || running.number == number)
            }
        }
    }

    /// Lets calls under way end, elsewhere; the listener stays.
    fn leave(&mut self, leaving: &mut JoinSet<()>) {
        if let Some(running) = self.running.take() {
            leaving.spawn(running.server.shutdown());
        }
    }

    fn close(&mut self) {
        if self.listener.take().is_some() {
            info!(port = %self.door(), "closed");
        }
    }

    fn plain(&self) -> Result<ServerTls, ServePortError> {
        let port = self.door();
        warn!(
            %port,
            "INSECURE: this port is in the clear until the node is provisioned, as \
             insecureUntilProvisioned says; whoever reaches it can make the node its own"
        );
        Insecure::because(
            "the node is not provisioned, and insecureUntilProvisioned names this port",
        )
        .map(|permission| ServerTls::insecure(permission, ServerOptions::default()))
        .map_err(|source| ServePortError::Reason { port, source })
    }

    fn tls(&self, in_use: &InUse, policy: &IdentityPolicy) -> Result<ServerTls, ServePortError> {
        let options = ServerOptions::default();
        let tls = match self.port {
            Port::Public => ServerTls::server_only(&in_use.store, options),
            Port::Protected => ServerTls::mutual(&in_use.store, policy.clone(), options),
        };
        tls.map_err(|source| ServePortError::Tls {
            port: self.door(),
            source,
        })
    }

    async fn start(
        &mut self,
        mode: Mode,
        number: u64,
        tls: &ServerTls,
    ) -> Result<(), ServePortError> {
        let (listener, address) = self.listener().map_err(|source| ServePortError::Listen {
            port: self.door(),
            address: self.address.0,
            source,
        })?;
        let config = ServerConfig {
            shutdown_grace: GRACE,
            ..ServerConfig::default()
        };
        let server = self.services.server(self.door(), config);
        let server = server.start_on(listener, address, tls).await;
        let server = server.map_err(|source| ServePortError::Start {
            port: self.door(),
            source,
        })?;
        info!(port = %self.door(), %address, ?mode, "open");
        self.running = Some(Running {
            mode,
            number,
            server,
        });
        Ok(())
    }

    /// A descriptor of the listener, which is opened if it is not yet.
    fn listener(&mut self) -> io::Result<(TcpListener, SocketAddr)> {
        let (listener, address) = match self.listener.take() {
            Some(open) => self.listener.insert(open),
            None => {
                let listener = StdTcpListener::bind(self.address.0)?;
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                self.listener.insert((listener, address))
            }
        };
        Ok((TcpListener::from_std(listener.try_clone()?)?, *address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cell: phase, certified, and the mode without and with the port named as insecure.
    #[test]
    fn a_member_is_never_in_the_clear_and_without_a_certificate_it_is_closed() {
        use Mode::{Closed, Plain, Tls};
        let table = [
            (Phase::Unprovisioned, false, Closed, Plain),
            (Phase::Unprovisioned, true, Tls, Plain),
            (Phase::Started, false, Closed, Plain),
            (Phase::Started, true, Tls, Plain),
            (Phase::Provisioned, false, Closed, Closed),
            (Phase::Provisioned, true, Tls, Tls),
            (Phase::Paused, false, Closed, Closed),
            (Phase::Paused, true, Tls, Tls),
            (Phase::Deprovisioning, false, Closed, Plain),
            (Phase::Deprovisioning, true, Tls, Plain),
        ];
        for (phase, certified, secure, insecure) in table {
            for port in [Port::Public, Port::Protected] {
                let none = BTreeSet::new();
                let other = BTreeSet::from([match port {
                    Port::Public => Port::Protected,
                    Port::Protected => Port::Public,
                }]);
                let own = BTreeSet::from([port]);
                assert_eq!(mode(port, phase, certified, &none), secure, "{phase}");
                assert_eq!(mode(port, phase, certified, &other), secure, "{phase}");
                assert_eq!(mode(port, phase, certified, &own), insecure, "{phase}");
            }
        }
    }
}
