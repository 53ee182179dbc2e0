//! One HTTP client for requests and for credentials.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::{Bytes, BytesMut};
use muster_provider::BoxError;
use reqwest::redirect::Policy;

/// An answer, at most, in bytes. A page of instances has some two megabytes.
const LARGEST: usize = 16 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub struct HttpSetupError(#[source] BoxError);

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It did not get there, or its answer did not come back.
    #[error("{url} cannot be reached")]
    Unreachable {
        /// Where it was sent, without what may be secret.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// There is nothing to send it with.
    #[error("nothing can be sent to {url}")]
    Setup {
        /// Where it was to be sent.
        url: String,
        /// Why.
        #[source]
        source: HttpSetupError,
    },
    /// The answer is larger than any answer.
    #[error("the answer of {url} has more than {LARGEST} bytes")]
    TooLarge {
        /// Who answered.
        url: String,
    },
}

/// The client.
#[derive(Debug)]
pub(crate) struct Http {
    /// Without TLS only this machine and its host are asked, which no proxy reaches.
    plain: reqwest::Client,
    /// For everybody else, through the proxy that the environment names, if it does. It knows whom the system trusts, which takes a
    /// moment to read, and so is made when it is needed.
    secure: OnceLock<reqwest::Client>,
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, HttpSetupError> {
    let client = builder.connect_timeout(CONNECT).redirect(Policy::none());
    client.build().map_err(|error| HttpSetupError(error.into()))
}

fn trusting_nobody() -> Result<rustls::ClientConfig, HttpSetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| HttpSetupError(error.into()))?;
    let nobody = rustls::RootCertStore::empty();
    Ok(config.with_root_certificates(nobody).with_no_client_auth())
}

impl Http {
    pub(crate) fn new() -> Result<Self, HttpSetupError> {
        let plain = reqwest::Client::builder().no_proxy();
        Ok(Self {
            plain: build(plain.tls_backend_preconfigured(trusting_nobody()?))?,
            secure: OnceLock::new(),
        })
    }

    fn client(&self, uri: &http::Uri) -> Result<&reqwest::Client, HttpSetupError> {
        if uri.scheme_str() == Some("http") {
            return Ok(&self.plain);
        }
        if let Some(client) = self.secure.get() {
            return Ok(client);
        }
        // Whoever installed one before meant it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = build(reqwest::Client::builder())?;
        Ok(self.secure.get_or_init(|| client))
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(
        &self,
        request: http::Request<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<http::Response<Bytes>, SendError> {
        let (parts, body) = request.into_parts();
        let shown = format!("{}{}", shown_host(&parts.uri), parts.uri.path());
        let failed = |source: reqwest::Error| SendError::Unreachable {
            url: shown.clone(),
            source: source.without_url(),
        };
        let client = self.client(&parts.uri).map_err(|source| SendError::Setup {
            url: shown.clone(),
            source,
        })?;
        let mut builder = client
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .body(body);
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        let mut response = builder.send().await.map_err(failed)?;
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(failed)? {
            if body.len() + part.len() > LARGEST {
                return Err(SendError::TooLarge { url: shown });
            }
            body.extend_from_slice(&part);
        }
        let mut answer = http::Response::new(body.freeze());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }
}

fn shown_host(uri: &http::Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    format!("{scheme}://{}", uri.host().unwrap_or_default())
}

/// The same client, as the chain of credentials wants it.
#[derive(Debug, Clone)]
pub(crate) struct CredentialsHttp(pub(crate) Arc<Http>);

#[derive(Debug)]
struct Connector {
    http: Arc<Http>,
    timeout: Option<Duration>,
}

impl HttpClient for CredentialsHttp {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let timeouts = [settings.connect_timeout(), settings.read_timeout()];
        let timeout = timeouts.into_iter().flatten().reduce(|one, two| one + two);
        SharedHttpConnector::new(Connector {
            http: Arc::clone(&self.0),
            timeout,
        })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (http, timeout) = (Arc::clone(&self.http), self.timeout);
        HttpConnectorFuture::new(async move {
            let user = |error| ConnectorError::user(Box::new(error));
            let request = request.try_into_http1x().map_err(user)?;
            let request = request.map(|body| Bytes::copy_from_slice(body.bytes().unwrap_or(&[])));
            let answer = http.send(request, timeout).await;
            let answer = answer.map_err(|error| match &error {
                SendError::Unreachable { source, .. } if source.is_timeout() => {
                    ConnectorError::timeout(Box::new(error))
                }
                _ => ConnectorError::io(Box::new(error)),
            })?;
            HttpResponse::try_from(answer.map(SdkBody::from)).map_err(user)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_the_system_trusts_is_read_when_it_is_needed() {
        let http = Http::new().unwrap();
        http.client(&"http://169.254.169.254/".parse().unwrap())
            .unwrap();
        assert!(http.secure.get().is_none());
        let uri = "https://ec2.eu-central-1.amazonaws.com/".parse().unwrap();
        http.client(&uri).unwrap();
        assert!(http.secure.get().is_some());
    }
}
