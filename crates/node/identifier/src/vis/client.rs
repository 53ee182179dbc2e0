//! The connection to the server, made again for ever.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use muster_telemetry::ErrorChain;
use muster_tls::{
    Alpn, CertStore, ClientOptions, ClientTls, ConnectTlsError, FileCertSource, Insecure,
    ServerName, TlsIo,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tracing::{info, warn};

use crate::config::{VisConfig, VisTransport};
use crate::identity::Identity;
use crate::plugin::StartIdentifierError;

use super::session::{News, Session, SessionError};

/// Subjects and a vehicle's number take far less.
const LARGEST_MESSAGE: usize = 1024 * 1024;

/// Why a connection could not be made or was lost.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("cannot connect to the VIS server")]
    Connect(#[source] ConnectTlsError),
    #[error("the VIS server did not answer within {after:?}")]
    Late { after: Duration },
    #[error("the WebSocket to the VIS server failed")]
    WebSocket(#[source] Box<tungstenite::Error>),
    #[error("the VIS server closed the connection")]
    Closed,
    #[error("the VIS server is of no use")]
    Session(#[source] SessionError),
}

impl From<tungstenite::Error> for ConnectionError {
    fn from(error: tungstenite::Error) -> Self {
        Self::WebSocket(Box::new(error))
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Client {
    config: VisConfig,
    tls: ClientTls,
}

impl Client {
    pub(crate) async fn new(config: &VisConfig) -> Result<Self, StartIdentifierError> {
        let options = ClientOptions {
            alpn: Alpn::Http1,
            connect_deadline: config.timeout,
        };
        let tls = match &config.transport {
            VisTransport::Insecure => {
                let permission = Insecure::because("the identifier's configuration says insecure")
                    .expect("the reason is not empty");
                ClientTls::insecure(&permission, options)
            }
            VisTransport::Tls { ca } => {
                let store = CertStore::open(FileCertSource::trust_only(ca))
                    .await
                    .map_err(|source| StartIdentifierError::Ca {
                        path: ca.clone(),
                        source: Box::new(source),
                    })?;
                ClientTls::without_certificate(&store, ServerName::Dns, options)
                    .map_err(StartIdentifierError::Tls)?
            }
        };
        Ok(Self {
            config: config.clone(),
            tls,
        })
    }

    /// Publishes what the server says, until it is ended.
    pub(crate) async fn run(self, identity: watch::Sender<Identity>) {
        let (first, longest) = self.config.pauses;
        let mut pause = first;
        loop {
            let mut settled = false;
            let Err(error) = self.connection(&identity, &mut settled).await;
            // A server that had answered everything is tried again soon.
            if settled {
                pause = first;
            }
            let problem = format!("{}: {}", self.config.server, ErrorChain(&error));
            identity.send_if_modified(|identity| {
                let changed = identity.problem.as_ref() != Some(&problem);
                if changed {
                    warn!(%problem, "the VIS server cannot be used; what was known stays");
                    identity.problem = Some(problem);
                }
                changed
            });
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(longest);
        }
    }

    /// One connection, from the first attempt to its end.
    async fn connection(
        &self,
        identity: &watch::Sender<Identity>,
        settled: &mut bool,
    ) -> Result<std::convert::Infallible, ConnectionError> {
        let mut socket = self.connect().await?;
        let mut session = Session::new(&self.config);
        let answers_by = Instant::now() + self.config.timeout;
        for request in session.requests() {
            self.in_time(socket.send(Message::text(request))).await?;
        }
        loop {
            let text = if session.settled() {
                self.next_change(&mut socket).await?
            } else {
                match timeout_at(answers_by, next_text(&mut socket)).await {
                    Ok(text) => text?,
                    Err(_) => return Err(self.late()),
                }
            };
            if let Some(news) = session.receive(&text).map_err(ConnectionError::Session)? {
                publish(identity, news);
            }
            if session.settled() && !*settled {
                *settled = true;
                info!(server = %self.config.server, "the VIS server answers");
                identity.send_if_modified(|identity| identity.problem.take().is_some());
            }
        }
    }

    async fn connect(&self) -> Result<WebSocketStream<TlsIo>, ConnectionError> {
        let server = &self.config.server;
        let host = server.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let default_port = match self.config.transport {
            VisTransport::Tls { .. } => 443,
            VisTransport::Insecure => 80,
        };
        let port = server.port_u16().unwrap_or(default_port);
        let io = self
            .tls
            .connect(host, port)
            .await
            .map_err(ConnectionError::Connect)?;
        let limits = WebSocketConfig::default()
            .read_buffer_size(16 * 1024)
            .write_buffer_size(0)
            .max_write_buffer_size(LARGEST_MESSAGE)
            .max_message_size(Some(LARGEST_MESSAGE))
            .max_frame_size(Some(LARGEST_MESSAGE));
        let handshake = client_async_with_config(server.clone(), io, Some(limits));
        let (socket, _) = self.in_time(handshake).await?;
        Ok(socket)
    }

    /// The next text, however long it takes, as long as the server answers pings.
    async fn next_change(
        &self,
        socket: &mut WebSocketStream<TlsIo>,
    ) -> Result<String, ConnectionError> {
        loop {
            if let Ok(text) = timeout(self.config.ping_after, next_text(socket)).await {
                return text;
            }
            self.in_time(socket.send(Message::Ping(Vec::new().into())))
                .await?;
            let answer = async {
                match socket.next().await {
                    Some(message) => Ok(message?),
                    None => Err(ConnectionError::Closed),
                }
            };
            let answer = timeout(self.config.timeout, answer)
                .await
                .map_err(|_| self.late())??;
            if let Message::Text(text) = answer {
                return Ok(text.as_str().to_owned());
            }
        }
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, tungstenite::Error>>,
    ) -> Result<T, ConnectionError> {
        match timeout(self.config.timeout, work).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> ConnectionError {
        ConnectionError::Late {
            after: self.config.timeout,
        }
    }
}

async fn next_text(socket: &mut WebSocketStream<TlsIo>) -> Result<String, ConnectionError> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            // Pings are answered by the library; a change never comes as anything but text.
            Some(Ok(Message::Close(_))) | None => return Err(ConnectionError::Closed),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
}

fn publish(identity: &watch::Sender<Identity>, news: News) {
    identity.send_if_modified(|identity| {
        let before = identity.clone();
        match news {
            News::System(system) => identity.system = Some(system),
            News::Subjects(subjects, left_out) => {
                if left_out > 0 {
                    warn!(left_out, "the VIS server names subjects that cannot be any");
                }
                identity.subjects = subjects;
            }
        }
        *identity != before
    });
}
