//! The blocking side: programs that ask a daemon.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    connect, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::frame::{FrameReader, MessageTooLong};
use crate::message::{Call, CallMode, MalformedMessage, Parameters, Reply, to_raw};
use crate::socket;

/// Why a daemon could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no socket, or nobody listens at it.
    #[error("{service} is not running (no socket at {path})")]
    NotRunning {
        /// The daemon.
        service: Box<str>,
        /// Where its socket should be.
        path: PathBuf,
    },
    /// There is a socket, and connecting to it failed.
    #[error("cannot connect to {service} at {path}")]
    Connect {
        /// The daemon.
        service: Box<str>,
        /// Where its socket is.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why a call has no answer, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The daemon answered with an error.
    #[error("{method} was refused")]
    Refused {
        /// The method.
        method: Box<str>,
        /// What it said.
        #[source]
        error: RemoteError,
    },
    /// The call could not be sent.
    #[error("cannot send the call {method}")]
    Send {
        /// The method.
        method: Box<str>,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The answer could not be received.
    #[error("cannot receive the answer to {method}")]
    Receive {
        /// The method.
        method: Box<str>,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The daemon closed the connection before it answered.
    #[error("the connection was closed before {method} was answered")]
    Closed {
        /// The method.
        method: Box<str>,
    },
    /// No answer came in time.
    #[error("{method} was not answered within {waited:?}")]
    TimedOut {
        /// The method.
        method: Box<str>,
        /// How long was waited.
        waited: Duration,
    },
    /// The answer is longer than this client takes.
    #[error("the answer to {method} is too long")]
    TooLong {
        /// The method.
        method: Box<str>,
        /// The limit.
        #[source]
        source: MessageTooLong,
    },
    /// The answer is no varlink message.
    #[error("the answer to {method} is not a varlink message")]
    Malformed {
        /// The method.
        method: Box<str>,
        /// Why.
        #[source]
        source: MalformedMessage,
    },
    /// The answer is a varlink message of another shape than expected.
    #[error("the answer to {method} is not as this program expects it")]
    Unexpected {
        /// The method.
        method: Box<str>,
        /// What differs.
        #[source]
        source: crate::service::ServiceError,
    },
}

/// An error that a daemon answered with.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name} {}", parameters.text())]
pub struct RemoteError {
    /// Its full name.
    pub name: Box<str>,
    /// What it says.
    pub parameters: Parameters,
}

/// Longest message that a client takes: lists of units are long, and the daemon is trusted.
const MAX_REPLY: usize = 256 << 20;
const MAX_DEPTH: usize = 64;
const CHUNK: usize = 64 * 1024;

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    reader: FrameReader,
    fds: Vec<OwnedFd>,
    timeout: Option<Duration>,
}

impl Client {
    /// Connects to the socket of `service`.
    ///
    /// # Errors
    /// If nobody listens there, or may not be reached.
    pub fn connect(service: &str, path: &Path) -> Result<Self, ConnectError> {
        let open = || {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self::over(socket)),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => {
                Err(ConnectError::NotRunning {
                    service: service.into(),
                    path: path.into(),
                })
            }
            Err(errno) => Err(ConnectError::Connect {
                service: service.into(),
                path: path.into(),
                source: errno.into(),
            }),
        }
    }

    /// Speaks over a connected, blocking stream socket.
    #[must_use]
    pub fn over(socket: OwnedFd) -> Self {
        Self {
            socket,
            reader: FrameReader::new(MAX_REPLY),
            fds: Vec::new(),
            timeout: None,
        }
    }

    /// How long to wait for each answer; `None`, as at first, for ever.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Calls a method that is answered once.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub fn call<P, R>(&mut self, method: &str, parameters: &P) -> Result<R, CallError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let (value, _) = self.call_with_fds(method, parameters, &[])?;
        Ok(value)
    }

    /// Calls a method and sends descriptors with the call. Descriptors that come with the answer are given back.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_with_fds<P, R>(
        &mut self,
        method: &str,
        parameters: &P,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(R, Vec<OwnedFd>), CallError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let reply = self.exchange(method, &to_raw(parameters), fds)?;
        let value = read(method, &reply.parameters)?;
        Ok((value, reply.fds))
    }

    fn exchange(
        &mut self,
        method: &str,
        parameters: &RawValue,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Reply, CallError> {
        let reply = self
            .send(method, parameters, CallMode::Once, fds)
            .and_then(|()| self.receive(method));
        if !matches!(reply, Ok(_) | Err(CallError::Refused { .. })) {
            // What comes late must not be taken for the answer to the next call.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        }
        reply
    }

    /// Calls a method and does not wait for it to be carried out.
    ///
    /// # Errors
    /// If the call could not be sent.
    pub fn call_oneway<P: Serialize + ?Sized>(
        &mut self,
        method: &str,
        parameters: &P,
    ) -> Result<(), CallError> {
        self.send(method, &to_raw(parameters), CallMode::Oneway, &[])
    }

    /// Calls a method that is answered many times. The connection belongs to the answers from then on; dropping them is
    /// how a client says that it has seen enough.
    ///
    /// # Errors
    /// If the call could not be sent.
    pub fn call_more<P, R>(self, method: &str, parameters: &P) -> Result<Replies<R>, CallError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        self.call_more_with_fds(method, parameters, &[])
    }

    /// The same, and sends descriptors with the call.
    ///
    /// # Errors
    /// As [`call_more`](Self::call_more).
    pub fn call_more_with_fds<P, R>(
        mut self,
        method: &str,
        parameters: &P,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Replies<R>, CallError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        self.send(method, &to_raw(parameters), CallMode::More, fds)?;
        Ok(Replies {
            client: self,
            method: method.into(),
            over: false,
            of: PhantomData,
        })
    }

    fn send(
        &mut self,
        method: &str,
        parameters: &RawValue,
        mode: CallMode,
        mut fds: &[BorrowedFd<'_>],
    ) -> Result<(), CallError> {
        let failed = |errno: Errno| CallError::Send {
            method: method.into(),
            source: errno.into(),
        };
        set_socket_timeout(&self.socket, Timeout::Send, self.timeout).map_err(failed)?;
        let message = Call::encode(method, parameters, mode);
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            let slices = [io::IoSlice::new(rest)];
            match socket::send(&self.socket, &slices, fds, SendFlags::empty()) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN) => return Err(self.timed_out(method)),
                // Why the daemon hung up may be among what it sent last.
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    return Err(match self.receive(method) {
                        Err(told @ CallError::Refused { .. }) => told,
                        _ => CallError::Closed {
                            method: method.into(),
                        },
                    });
                }
                Err(errno) => return Err(failed(errno)),
            }
            fds = &[];
        }
        Ok(())
    }

    /// The next reply; errors that the daemon answers with become errors here.
    fn receive(&mut self, method: &str) -> Result<Reply, CallError> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut chunk = vec![0; CHUNK];
        loop {
            match self.reader.next_frame() {
                Ok(Some((_, message))) => {
                    let decoded = Reply::decode(message, MAX_DEPTH);
                    let fds = std::mem::take(&mut self.fds);
                    return judge(method, decoded, fds);
                }
                Ok(None) => {}
                Err(source) => {
                    return Err(CallError::TooLong {
                        method: method.into(),
                        source,
                    });
                }
            }
            self.receive_chunk(method, deadline, &mut chunk)?;
        }
    }

    fn receive_chunk(
        &mut self,
        method: &str,
        deadline: Option<Instant>,
        chunk: &mut [u8],
    ) -> Result<(), CallError> {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(self.timed_out(method));
        }
        let got = set_socket_timeout(&self.socket, Timeout::Recv, left)
            .and_then(|()| socket::receive(&self.socket, chunk, RecvFlags::empty()));
        match got {
            Ok(got) if got.bytes == 0 => Err(CallError::Closed {
                method: method.into(),
            }),
            Ok(got) => {
                self.reader.push(&chunk[..got.bytes]);
                self.fds.extend(got.fds);
                Ok(())
            }
            Err(Errno::AGAIN) => Err(self.timed_out(method)),
            Err(Errno::CONNRESET) => Err(CallError::Closed {
                method: method.into(),
            }),
            Err(errno) => Err(CallError::Receive {
                method: method.into(),
                source: errno.into(),
            }),
        }
    }

    fn timed_out(&self, method: &str) -> CallError {
        CallError::TimedOut {
            method: method.into(),
            waited: self.timeout.unwrap_or_default(),
        }
    }
}

fn judge(
    method: &str,
    decoded: Result<Reply, MalformedMessage>,
    fds: Vec<OwnedFd>,
) -> Result<Reply, CallError> {
    let reply = decoded.map_err(|source| CallError::Malformed {
        method: method.into(),
        source,
    })?;
    match reply.error {
        Some(name) => Err(CallError::Refused {
            method: method.into(),
            error: RemoteError {
                name: name.into(),
                parameters: reply.parameters,
            },
        }),
        None => Ok(reply.with_fds(fds)),
    }
}

fn read<R: DeserializeOwned>(method: &str, parameters: &Parameters) -> Result<R, CallError> {
    parameters.read().map_err(|source| CallError::Unexpected {
        method: method.into(),
        source,
    })
}

/// The answers to a call that is answered many times.
#[derive(Debug)]
pub struct Replies<R> {
    client: Client,
    method: Box<str>,
    over: bool,
    of: PhantomData<fn() -> R>,
}

impl<R> Replies<R> {
    /// How long to wait for each further answer.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.client.set_timeout(timeout);
    }
}

impl<R: DeserializeOwned> Iterator for Replies<R> {
    type Item = Result<R, CallError>;

    /// The next answer. After a failure there is none, except that one that did not come in time may still come.
    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let reply = match self.client.receive(&self.method) {
            Ok(reply) => reply,
            Err(error) => {
                self.over = !matches!(error, CallError::TimedOut { .. });
                return Some(Err(error));
            }
        };
        self.over = !reply.continues;
        Some(read(&self.method, &reply.parameters))
    }
}

impl<R> AsFd for Replies<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
