//! The one task that speaks to the cloud: connects, and connects again.

mod inbox;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{StatusCode, Uri};
use muster_telemetry::ErrorChain;
use muster_tls::TlsIo;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tracing::{info, warn};

use self::inbox::Inbox;
use self::session::SessionError;
use crate::database::Outbox;
use crate::delivery::Delivery;
use crate::discovery::{DiscoverError, ReachError, discover, reach};
use crate::home::home;
use crate::link::{ConnectionState, Published};
use crate::message::incoming::BlobInfo;
use crate::message::{Outgoing, Secret};
use crate::reconnect::{Failure, Reconnect};
use crate::report::Reporter;
use crate::settings::{Access, DiscoveryHost, Settings, discovery_url};
use crate::window::{Slot, Window};

/// A request that somebody waits for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) message: Outgoing,
    pub(crate) answer: oneshot::Sender<Vec<BlobInfo>>,
}

/// A request on its way.
#[derive(Debug)]
struct Pending {
    txn: String,
    correlation: String,
    data: String,
    answer: oneshot::Sender<Vec<BlobInfo>>,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("nobody said where the cloud is")]
    Discover(#[source] DiscoverError),
    #[error("cannot connect to the cloud")]
    Reach(#[source] ReachError),
    #[error("the cloud's token cannot stand in a header")]
    Token,
    #[error("the cloud refused the WebSocket with {status}")]
    Refused { status: StatusCode },
    #[error("no WebSocket to {uri}")]
    WebSocket {
        uri: Uri,
        #[source]
        source: Box<tungstenite::Error>,
    },
    #[error("the cloud did not answer the WebSocket's handshake within {after:?}")]
    Late { after: Duration },
    #[error("the link to the cloud was lost")]
    Session(#[source] SessionError),
}

/// This side of the handle's channels.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) outbox: Outbox,
    pub(crate) news: Arc<Notify>,
    pub(crate) statuses: watch::Receiver<Published>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) connected: watch::Sender<ConnectionState>,
    pub(crate) deliver: mpsc::Sender<Delivery>,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Driver {
    settings: Settings,
    access: Access,
    outbox: Outbox,
    news: Arc<Notify>,
    statuses: watch::Receiver<Published>,
    requests: mpsc::Receiver<Request>,
    connected: watch::Sender<ConnectionState>,
    inbox: Inbox,
    window: Window,
    reporter: Reporter,
    reconnect: Reconnect,
    pending: BTreeMap<u64, Pending>,
    last_request: u64,
    /// The status that is under way.
    status: String,
}

impl Driver {
    pub(crate) fn new(settings: Settings, access: Access, ends: Ends) -> Self {
        Self {
            window: Window::new(settings.in_flight, settings.response_timeout),
            reporter: Reporter::new(settings.status_period),
            reconnect: Reconnect::new(settings.pauses),
            inbox: Inbox::new(ends.deliver),
            settings,
            access,
            outbox: ends.outbox,
            news: ends.news,
            statuses: ends.statuses,
            requests: ends.requests,
            connected: ends.connected,
            pending: BTreeMap::new(),
            last_request: 0,
            status: String::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut said: Option<String> = None;
        let mut recovered = false;
        loop {
            if !recovered {
                recovered = self.recover().await;
            }
            let error = match self.connect().await {
                Ok(socket) => {
                    said = None;
                    LinkError::Session(self.session(socket).await)
                }
                Err(error) => error,
            };
            self.window.disconnected();
            let problem = ErrorChain(&error).to_string();
            if said.as_ref() != Some(&problem) {
                warn!(%problem, "the cloud is away; what it shall know is kept");
                said = Some(problem.clone());
            }
            self.connected.send_replace(ConnectionState::Away {
                problem: Some(problem),
            });
            let pause = self.reconnect.pause(rand::random());
            sleep(pause).await;
        }
    }

    /// Takes up what was on its way when the process ended.
    async fn recover(&mut self) -> bool {
        match self.outbox.taken_before().await {
            Ok(taken) => {
                for message in taken {
                    self.window.add(Slot::Row(message.id), message.txn);
                }
                true
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "cannot read what is kept for the cloud");
                false
            }
        }
    }

    async fn connect(&mut self) -> Result<WebSocketStream<TlsIo>, LinkError> {
        let (uri, token) = match self.reconnect.endpoint() {
            Some((uri, token)) => (uri.clone(), token.clone()),
            None => self.discover().await?,
        };
        let after = self.settings.io_timeout;
        let opened = timeout(after, self.open(&uri, &token)).await;
        let opened = opened.unwrap_or(Err(LinkError::Late { after }));
        if let Err(error) = &opened {
            self.reconnect.failed(match error {
                LinkError::Refused { status } if *status == StatusCode::UNAUTHORIZED => {
                    Failure::Unauthorized
                }
                _ => Failure::Address,
            });
        } else {
            info!(%uri, "the cloud is there");
        }
        opened
    }

    async fn discover(&mut self) -> Result<(Uri, Secret), LinkError> {
        let Access { tls, system_id, .. } = &self.access;
        let named = match self.settings.discovery_host {
            DiscoveryHost::Certificate => home(tls),
            DiscoveryHost::Configuration => None,
        };
        let uri = discovery_url(&self.settings.discovery, named.as_ref());
        match discover(tls, &uri, system_id, self.settings.io_timeout).await {
            Ok(found) => {
                let first = (found.urls[0].clone(), found.token.clone());
                self.reconnect
                    .discovered(found.urls, found.token, found.pause);
                Ok(first)
            }
            Err(error) => {
                let pause = match &error {
                    DiscoverError::Refused { pause, .. } => *pause,
                    _ => None,
                };
                self.reconnect.undiscovered(pause);
                Err(LinkError::Discover(error))
            }
        }
    }

    async fn open(&self, uri: &Uri, token: &Secret) -> Result<WebSocketStream<TlsIo>, LinkError> {
        let io = reach(&self.access.tls, uri)
            .await
            .map_err(LinkError::Reach)?;
        let failed = |source| LinkError::WebSocket {
            uri: uri.clone(),
            source: Box::new(source),
        };
        let mut request = uri.into_client_request().map_err(failed)?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .map_err(|_| LinkError::Token)?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let largest = self.settings.largest_message;
        let limits = WebSocketConfig::default()
            .read_buffer_size(16 * 1024)
            .write_buffer_size(0)
            .max_write_buffer_size(largest.saturating_add(64 * 1024))
            .max_message_size(Some(largest))
            .max_frame_size(Some(largest));
        match client_async_with_config(request, io, Some(limits)).await {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::Error::Http(response)) => Err(LinkError::Refused {
                status: response.status(),
            }),
            Err(error) => Err(failed(error)),
        }
    }

    /// Requests whose askers still wait.
    fn prune(&mut self) {
        let window = &mut self.window;
        self.pending.retain(|id, pending| {
            let waited_for = !pending.answer.is_closed();
            if !waited_for {
                window.remove(Slot::Request(*id));
            }
            waited_for
        });
    }
}
