//! A port of this machine that leads to a port of another.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::Executor;
use crate::ssh::Endpoint;

/// How many connections are carried at once; more wait to be accepted.
const CONNECTIONS: usize = 256;

/// How long to wait when this process has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections here and carries each to a port in the machine.
#[derive(Debug)]
pub struct Forwarder {
    listener: TcpListener,
    address: SocketAddr,
    executor: Arc<dyn Executor>,
    host: String,
    port: u16,
}

impl Forwarder {
    /// Listens on `listen` (port 0 takes a free one) for connections to `host` and `port` as seen from the machine.
    ///
    /// # Errors
    /// When that address cannot be listened on.
    pub async fn bind(
        executor: Arc<dyn Executor>,
        listen: SocketAddr,
        host: impl Into<String>,
        port: u16,
    ) -> Result<Self, ExecutorError> {
        let failed = |source: io::Error| {
            let class = FailureClass::Refused;
            ExecutorError::new(Operation::Forward, listen.to_string(), class, source)
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            executor,
            host: host.into(),
            port,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where connections are carried, as seen from the machine.
    #[must_use]
    pub fn target(&self) -> String {
        Endpoint::new(&*self.host, self.port).to_string()
    }

    /// Carries connections until it is dropped, which ends those that are open. A connection that the machine refuses is
    /// closed and logged.
    pub async fn run(self) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let carry = carry(Arc::clone(&self.executor), self.host.clone(), self.port, stream);
                        connections.spawn(carry);
                    }
                    Err(error) => {
                        tracing::warn!(%error, address = %self.address, "cannot accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn carry(executor: Arc<dyn Executor>, host: String, port: u16, mut near: TcpStream) {
    match executor.connect(&host, port).await {
        // Whoever ends first, the other side is told by the end of its own connection.
        Ok(mut far) => drop(tokio::io::copy_bidirectional(&mut near, &mut far).await),
        Err(error) => {
            tracing::warn!(error = %error, cause = %error.source, "cannot forward a connection");
        }
    }
}
