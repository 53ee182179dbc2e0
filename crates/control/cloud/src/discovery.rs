//! Asking where the cloud is.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use muster_tls::{ClientTls, ConnectTlsError, TlsIo};
use serde::{Deserialize, Serialize};

use crate::message::{Secret, VERSION};

/// A few addresses and a token take far less.
const LARGEST_ANSWER: usize = 64 * 1024;
/// Addresses that are looked at.
const MOST_ADDRESSES: usize = 16;

/// Why nobody said where the cloud is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoverError {
    #[error("cannot connect to the service discovery")]
    Connect(#[source] Box<ReachError>),
    #[error("the exchange with the service discovery failed")]
    Exchange(#[source] hyper::Error),
    #[error("the service discovery's answer cannot be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the service discovery answered {status}")]
    Status { status: StatusCode },
    #[error("the service discovery's answer is not right")]
    Answer(#[source] serde_json::Error),
    #[error("the service discovery answered version {version} of the protocol")]
    Version { version: u64 },
    #[error("the service discovery answered for another system")]
    System,
    #[error("the service discovery refused with code {code}")]
    Refused {
        code: i64,
        /// When to ask again.
        pause: Option<Duration>,
    },
    #[error("the service discovery names no address that can be used")]
    NoAddress,
    #[error("the service discovery did not answer within {after:?}")]
    Late { after: Duration },
}

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(
        "{uri} does not say that it is protected, or says so where no certificate is configured"
    )]
    Protection { uri: Uri },
    #[error("{uri} names no host")]
    NoHost { uri: Uri },
    #[error("no connection to {uri}")]
    Connect {
        uri: Uri,
        #[source]
        source: ConnectTlsError,
    },
}

/// Connects to the host of an address, protected if and only if both sides say so.
pub(crate) async fn reach(tls: &ClientTls, uri: &Uri) -> Result<TlsIo, ReachError> {
    let protected = matches!(uri.scheme_str(), Some("https" | "wss"));
    if protected != tls.configuration().is_some() {
        return Err(ReachError::Protection { uri: uri.clone() });
    }
    let Some(host) = uri.host() else {
        return Err(ReachError::NoHost { uri: uri.clone() });
    };
    // An IPv6 address stands in brackets in an address only.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if protected { 443 } else { 80 });
    let connected = tls.connect(host, port).await;
    connected.map_err(|source| ReachError::Connect {
        uri: uri.clone(),
        source,
    })
}

/// Where the cloud is.
#[derive(Debug)]
pub(crate) struct Discovered {
    pub(crate) urls: Vec<Uri>,
    pub(crate) token: Secret,
    pub(crate) pause: Option<Duration>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    version: u64,
    system_id: &'a str,
    supported_protocols: [&'a str; 1],
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    version: u64,
    #[serde(default)]
    system_id: Option<String>,
    #[serde(default)]
    next_request_delay: Option<u64>,
    #[serde(default)]
    connection_info: Option<Vec<String>>,
    #[serde(default)]
    auth_token: Option<Secret>,
    #[serde(default)]
    error_code: i64,
}

/// Asks.
pub(crate) async fn discover(
    tls: &ClientTls,
    uri: &Uri,
    system_id: &str,
    after: Duration,
) -> Result<Discovered, DiscoverError> {
    let asked = tokio::time::timeout(after, ask(tls, uri, system_id)).await;
    let answer = asked.map_err(|_| DiscoverError::Late { after })??;
    judge(&answer, system_id)
}

async fn ask(tls: &ClientTls, uri: &Uri, system_id: &str) -> Result<Bytes, DiscoverError> {
    let io = reach(tls, uri).await;
    let io = io.map_err(|error| DiscoverError::Connect(Box::new(error)))?;
    let handshake = http1::handshake(TokioIo::new(io)).await;
    let (mut sender, connection) = handshake.map_err(DiscoverError::Exchange)?;
    let question = Question {
        version: VERSION,
        system_id,
        supported_protocols: ["wss"],
    };
    let body = serde_json::to_vec(&question).expect("a question has text keys");
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let host = uri.authority().map_or("", |it| it.as_str());
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, host)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))
        .expect("the parts are those of a valid address");
    let exchange = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(DiscoverError::Exchange)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(DiscoverError::Status { status });
        }
        let body = Limited::new(response.into_body(), LARGEST_ANSWER);
        let body = body.collect().await.map_err(DiscoverError::Read)?;
        Ok(body.to_bytes())
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection may be done before its last bytes are looked at.
        _ = connection => exchange.await,
    }
}

fn judge(answer: &[u8], system_id: &str) -> Result<Discovered, DiscoverError> {
    let answer: Answer = serde_json::from_slice(answer).map_err(DiscoverError::Answer)?;
    if answer.version != VERSION {
        let version = answer.version;
        return Err(DiscoverError::Version { version });
    }
    if answer.system_id.is_some_and(|it| it != system_id) {
        return Err(DiscoverError::System);
    }
    let pause = answer
        .next_request_delay
        .filter(|it| *it > 0)
        .map(Duration::from_millis);
    if answer.error_code != 0 {
        let code = answer.error_code;
        return Err(DiscoverError::Refused { code, pause });
    }
    let urls = answer.connection_info.unwrap_or_default();
    let urls: Vec<Uri> = urls
        .iter()
        .take(MOST_ADDRESSES)
        .filter_map(|it| it.parse().ok())
        .collect();
    if urls.is_empty() {
        return Err(DiscoverError::NoAddress);
    }
    Ok(Discovered {
        urls,
        token: answer.auth_token.unwrap_or_default(),
        pause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Result<Discovered, DiscoverError> {
        judge(text.as_bytes(), "unit")
    }

    #[test]
    fn an_answer_is_read() {
        let answer = r#"{"version":7,"systemId":"unit","nextRequestDelay":1500,
            "connectionInfo":["wss://cloud:1/x"," ","wss://b"],"authToken":"t0ken","errorCode":0}"#;
        let found = judged(answer).expect("it is right");
        assert_eq!(found.urls, ["wss://cloud:1/x", "wss://b"]);
        assert_eq!(found.token.expose(), "t0ken");
        assert_eq!(found.pause, Some(Duration::from_millis(1500)));
        assert!(!format!("{found:?}").contains("t0ken"), "{found:?}");
    }

    #[test]
    fn what_is_not_for_us_is_refused() {
        let refused = [
            (r"{}", "answer is not right"),
            (r#"{"version":6}"#, "version 6"),
            (r#"{"version":7,"systemId":"other"}"#, "another system"),
            (r#"{"version":7,"connectionInfo":[]}"#, "no address"),
            (
                r#"{"version":7,"errorCode":2,"nextRequestDelay":5}"#,
                "code 2",
            ),
        ];
        for (answer, words) in refused {
            let error = judged(answer).expect_err(answer).to_string();
            assert!(error.contains(words), "{answer}: {error}");
        }
    }
}
