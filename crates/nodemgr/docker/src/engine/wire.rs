//! One request and its answer, and in which version of the API it is made.

use bollard::errors::Error as Refusal;
use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;

use super::{EngineError, NEWEST, OLDEST, PATIENCE};
use crate::endpoint::Endpoint;

type Version = (usize, usize);

pub(super) fn unreachable(endpoint: &Endpoint, error: Refusal) -> EngineError {
    EngineError::Unreachable {
        endpoint: endpoint.clone(),
        source: error.into(),
    }
}

/// A request for a path.
pub(super) fn plain(method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}

/// The newest version that an engine and this crate both speak.
pub(super) async fn version_of(endpoint: &Endpoint) -> Result<Version, EngineError> {
    let request = plain(Method::GET, "/_ping", Bytes::new());
    let response = tokio::time::timeout(PATIENCE, send(endpoint, request)).await;
    let response = response
        .unwrap_or(Err(Refusal::RequestTimeoutError))
        .map_err(|error| unreachable(endpoint, error))?;
    let found = response.headers().get("api-version");
    let found = found.and_then(|value| value.to_str().ok()).unwrap_or("");
    match version(found) {
        Some(version) if version >= OLDEST => Ok(version.min(NEWEST)),
        _ => Err(EngineError::TooOld {
            endpoint: endpoint.clone(),
            found: found.to_owned(),
        }),
    }
}

fn version(text: &str) -> Option<Version> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The version that a path names, and the rest of it.
fn versioned(path: &str) -> Option<(Version, &str)> {
    let (named, rest) = path.strip_prefix("/v")?.split_once('/')?;
    Some((version(named)?, rest))
}

/// One request whose path names a version. An engine that refuses it may have been upgraded since its version was asked, and not speak
/// that one any more: then it is asked anew, and the request is made once more. Nothing was done the first time.
pub(super) async fn exchange(
    endpoint: &Endpoint,
    request: Request<Full<Bytes>>,
    forget: impl FnOnce(),
) -> Result<Response<Incoming>, Refusal> {
    let mut again = request.clone();
    let response = send(endpoint, request).await?;
    if response.status() != StatusCode::BAD_REQUEST {
        return Ok(response);
    }
    let Some((spoken, rest)) = versioned(again.uri().path()) else {
        return Ok(response);
    };
    let Ok(now) = version_of(endpoint).await else {
        return Ok(response);
    };
    if now == spoken {
        return Ok(response);
    }
    tracing::info!(%endpoint, from = ?spoken, to = ?now, "an engine of Docker speaks another version now");
    forget();
    let path = format!("/v{}.{}/{rest}", now.0, now.1);
    *again.uri_mut() = path.parse().map_err(http::Error::from)?;
    send(endpoint, again).await
}

/// One request over a connection of its own. What the engine is busy with for long then holds nobody else up.
pub(super) async fn send<B>(
    endpoint: &Endpoint,
    mut request: Request<B>,
) -> Result<Response<Incoming>, Refusal>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connection = endpoint.connect().await?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(connection));
    let (mut sender, connection) = handshake.await?;
    // Ends with the exchange, or when the body or the upgraded connection is dropped.
    tokio::spawn(connection.with_upgrades());
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    let host = HeaderValue::try_from(endpoint.authority()).map_err(http::Error::from)?;
    request.headers_mut().insert(HOST, host);
    Ok(sender.send_request(request).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("1.41"), Some((1, 41)));
        for wrong in ["", "1", "1.", "a.b", "1.2.3"] {
            assert_eq!(version(wrong), None, "{wrong}");
        }
        assert_eq!(versioned("/v1.41/exec/1"), Some(((1, 41), "exec/1")));
        for wrong in ["/_ping", "/v1.41", "/volumes/1.41", "/vx/info", ""] {
            assert_eq!(versioned(wrong), None, "{wrong}");
        }
    }
}
