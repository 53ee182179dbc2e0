//! Calls to core's control socket, asynchronous. One connection per call: it costs some microseconds, and an answer can
//! never be taken for another call's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_control::manager::Failure;
use muster_varlink::frame::FrameReader;
use muster_varlink::{Call, CallMode, Reply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::error::AskError;

/// Core answers everything at once that it does not have to wait for.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Ours are short; a list of very many units is the longest.
const MAX_REPLY: usize = 16 << 20;
const MAX_DEPTH: usize = 32;
const CHUNK: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub(super) struct CoreClient {
    path: PathBuf,
}

impl CoreClient {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A call that is answered once.
    pub(super) async fn call<P, R>(&self, method: &str, parameters: &P) -> Result<R, AskError>
    where
        P: Serialize + Sync,
        R: DeserializeOwned,
    {
        let answer = async {
            let mut replies = self.send(method, parameters, CallMode::Once).await?;
            let (reply, _) = replies.next().await?;
            Ok(reply)
        };
        let timed_out = |_| AskError::TimedOut {
            within: ANSWER_TIME,
        };
        tokio::time::timeout(ANSWER_TIME, answer)
            .await
            .map_err(timed_out)?
    }

    /// A call that is answered as often as there is something to say.
    pub(super) async fn call_more<P: Serialize + Sync>(
        &self,
        method: &str,
        parameters: &P,
    ) -> Result<Replies, AskError> {
        self.send(method, parameters, CallMode::More).await
    }

    async fn send<P: Serialize + Sync>(
        &self,
        method: &str,
        parameters: &P,
        mode: CallMode,
    ) -> Result<Replies, AskError> {
        let parameters = serde_json::value::to_raw_value(parameters)
            .map_err(|error| AskError::Malformed(error.into()))?;
        let mut stream =
            UnixStream::connect(&self.path)
                .await
                .map_err(|source| AskError::Connect {
                    path: self.path.clone(),
                    source,
                })?;
        let sent = stream
            .write_all(&Call::encode(method, &parameters, mode))
            .await;
        sent.map_err(|source| AskError::Broken {
            path: self.path.clone(),
            source,
        })?;
        Ok(Replies {
            path: self.path.clone(),
            stream,
            reader: FrameReader::new(MAX_REPLY),
        })
    }
}

/// The answers to one call.
#[derive(Debug)]
pub(super) struct Replies {
    path: PathBuf,
    stream: UnixStream,
    reader: FrameReader,
}

impl Replies {
    /// The next one, and whether more follow. Cancel safe: what was read stays in the buffer.
    pub(super) async fn next<R: DeserializeOwned>(&mut self) -> Result<(R, bool), AskError> {
        let mut chunk = [0; CHUNK];
        loop {
            let frame = self.reader.next_frame();
            if let Some((_, message)) = frame.map_err(|error| AskError::Malformed(error.into()))? {
                return judge(message);
            }
            let read = self.stream.read(&mut chunk).await;
            match read {
                Ok(0) => {
                    return Err(AskError::Closed {
                        path: self.path.clone(),
                    });
                }
                Ok(count) => self.reader.push(&chunk[..count]),
                Err(source) => {
                    return Err(AskError::Broken {
                        path: self.path.clone(),
                        source,
                    });
                }
            };
        }
    }

    /// The last one.
    pub(super) async fn last<R: DeserializeOwned>(&mut self) -> Result<R, AskError> {
        loop {
            let (reply, continues) = self.next().await?;
            if !continues {
                return Ok(reply);
            }
        }
    }
}

fn judge<R: DeserializeOwned>(message: &[u8]) -> Result<(R, bool), AskError> {
    let reply =
        Reply::decode(message, MAX_DEPTH).map_err(|error| AskError::Malformed(error.into()))?;
    if let Some(name) = reply.error {
        let failure: Failure = reply.parameters.read().unwrap_or_default();
        return Err(AskError::Refused {
            name: name.into_owned(),
            message: failure.message,
        });
    }
    let value = reply
        .parameters
        .read()
        .map_err(|error| AskError::Malformed(error.into()))?;
    Ok((value, reply.continues))
}
