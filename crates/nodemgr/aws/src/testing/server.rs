//! The fake's HTTP server, in a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::params::Params;
use super::world::{Refusal, refuse};
use super::{FakeSettings, Recorded, Shared, keys, lock, signature, write};
use crate::ec2::{Action as _, GetCallerIdentity};

/// A request, at most, in bytes.
const LARGEST: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(shared: Arc<Mutex<Shared>>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new().name("fake-ec2".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("inside a runtime");
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Whatever went wrong in there, the test has seen by its requests.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(Arc::clone(&shared), request));
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that went away is no trouble of ours.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The answer is lost: the connection is closed without one.
#[derive(Debug, thiserror::Error)]
#[error("the answer is lost")]
struct Lost;

async fn serve(
    shared: Arc<Mutex<Shared>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Lost> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST)
        .collect()
        .await
        .map_err(|_| Lost)?;
    let body = body.to_bytes();
    let host = parts
        .headers
        .get("host")
        .and_then(|host| host.to_str().ok());
    let url = format!("http://{}{}", host.unwrap_or_default(), parts.uri.path());
    if parts.method != http::Method::POST {
        return Ok(keys::answer(&parts));
    }
    let mut shared = lock(&shared);
    let params = Params::parse(&body);
    let answer = judge(&mut shared, &parts, &url, &params, &body);
    let (service, action) = named(&parts, &params);
    let settings = &mut shared.settings;
    if answer.is_ok() && settings.lose.1 > 0 && settings.lose.0 == action {
        settings.lose.1 -= 1;
        return Err(Lost);
    }
    let (status, text) = match answer {
        Ok(text) => (200, text),
        Err(refusal) if service == "ssm" => {
            let fault = serde_json::json!({ "__type": refusal.code, "message": refusal.message });
            (refusal.status, fault.to_string())
        }
        Err(refusal) => (refusal.status, write::refusal(&refusal)),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status.try_into().expect("a status");
    Ok(response)
}

/// The service and the name of a request.
fn named(parts: &Parts, params: &Params) -> (&'static str, String) {
    let target = parts.headers.get("x-amz-target");
    match target.and_then(|target| target.to_str().ok()) {
        Some(target) => ("ssm", target.trim_start_matches("AmazonSSM.").to_owned()),
        None => {
            let sts = params.get("Version") == Some(GetCallerIdentity::API);
            let service = if sts {
                GetCallerIdentity::SERVICE
            } else {
                "ec2"
            };
            let action = params.get("Action").unwrap_or_default();
            (service, action.to_owned())
        }
    }
}

fn judge(
    shared: &mut Shared,
    parts: &Parts,
    url: &str,
    params: &Params,
    body: &[u8],
) -> Result<String, Refusal> {
    let (service, action) = named(parts, params);
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap_or_default();
        (name.to_string(), value.to_owned())
    });
    shared.requests.push(Recorded {
        action: action.clone(),
        method: parts.method.to_string(),
        url: url.to_owned(),
        headers: headers.collect(),
        body: String::from_utf8_lossy(body).into_owned(),
    });
    let scope = signature::check(parts, url, body)?;
    if scope.service != service {
        return Err(refuse(
            403,
            "SignatureDoesNotMatch",
            "it is signed for another service",
        ));
    }
    let Shared {
        world, settings, ..
    } = shared;
    if settings.throttle > 0 {
        settings.throttle -= 1;
        return Err(refuse(
            503,
            "RequestLimitExceeded",
            "request limit exceeded",
        ));
    }
    if settings.forbidden == Some(action.as_str()) {
        let message = "you are not authorized to perform this operation";
        return Err(refuse(403, "UnauthorizedOperation", message));
    }
    match service {
        "ssm" => return parameter(settings, body),
        "sts" if action == GetCallerIdentity::NAME => return Ok(write::identity(settings.account)),
        "sts" => return Err(refuse(400, "InvalidAction", action)),
        _ => {}
    }
    let inside = world.answer(&action, params, settings, Instant::now())?;
    Ok(write::answer(&action, &inside))
}

fn parameter(settings: &FakeSettings, body: &[u8]) -> Result<String, Refusal> {
    let request: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let name = request["Name"].as_str().unwrap_or_default();
    let value = settings.parameters.get(name);
    let value = value.ok_or_else(|| refuse(400, "ParameterNotFound", name))?;
    Ok(serde_json::json!({ "Parameter": { "Name": name, "Value": value } }).to_string())
}
