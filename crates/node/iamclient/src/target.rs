//! Where IAM is, and the channels to it.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use muster_rpc::{ChannelConfig, Keepalive, Target, channel};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// Channels carry streams whose headers may come any time later; calls have deadlines of their own.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Where IAM listens.
#[derive(Debug, Clone)]
pub enum IamTarget {
    /// A host and port, with the TLS to speak there.
    Tcp(Target),
    /// A unix socket on the same node, whose folder decides who may connect.
    Unix(PathBuf),
}

impl IamTarget {
    /// A channel that connects at the first call, and again after every loss. Needs a tokio runtime
    /// around it.
    pub(crate) fn channel(&self) -> Channel {
        match self {
            Self::Tcp(target) => {
                let config = ChannelConfig {
                    call_timeout: NO_LIMIT,
                    ..ChannelConfig::default()
                };
                channel(target, config)
            }
            Self::Unix(path) => {
                let keepalive = Keepalive::default();
                // The name is only that of the request; the connector knows the way.
                Endpoint::from_static("http://iam.local")
                    .http2_keep_alive_interval(keepalive.interval)
                    .keep_alive_timeout(keepalive.timeout)
                    .connect_with_connector_lazy(UnixConnector(path.clone()))
            }
        }
    }
}

#[derive(Debug, Clone)]
struct UnixConnector(PathBuf);

impl Service<Uri> for UnixConnector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move {
            let stream = UnixStream::connect(&path).await.map_err(|error| {
                let message = format!("cannot connect to {}: {error}", path.display());
                io::Error::new(error.kind(), message)
            })?;
            Ok(TokioIo::new(stream))
        })
    }
}
