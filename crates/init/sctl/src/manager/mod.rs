//! The running manager, asked over its control socket, here or by ssh on another machine.
//!
//! [`Manager`] is the way in: [`Manager::ask`] for questions, which are asked again if the manager was replaced in the
//! middle, [`Manager::tell`] for requests, which are not, and [`Manager::open`] for answers that come in parts. [`wait`]
//! queues jobs and waits for them, also across a restart of the manager.

mod error;
mod line;
pub(crate) mod wait;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_control::manager as wire;
use muster_varlink::{CallError, Client, Replies};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use error::ManagerError;
pub(crate) use line::{Bridge, bridge, remote_command};

use crate::cli::Global;

/// A restarted manager is back in some milliseconds; one that is not back by then has failed.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);
/// How often a socket without a listener is tried.
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// Answers that wait for nothing come soon, or something is very wrong.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Where a manager is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind a socket of this machine.
    Socket(PathBuf),
    /// On another machine.
    Host {
        /// `[USER@]HOST`
        host: String,
        /// Its socket there; what `sctl` there says if not given.
        socket: Option<PathBuf>,
    },
}

/// The manager. Connects when it is first needed.
#[derive(Debug)]
pub(crate) struct Manager {
    place: Place,
    /// Somebody said which manager is meant.
    chosen: bool,
    line: Option<line::Line>,
}

impl Manager {
    /// The one that the options mean.
    pub(crate) fn new(global: &Global) -> Self {
        let place = match &global.host {
            Some(host) => Place::Host {
                host: host.clone(),
                socket: global.socket.clone(),
            },
            None => Place::Socket(muster_control::socket_path(global.socket.clone())),
        };
        Self {
            place,
            chosen: global.host.is_some() || global.socket.is_some(),
            line: None,
        }
    }

    /// The other machine, if it is one.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.place {
            Place::Socket(_) => None,
            Place::Host { host, .. } => Some(host),
        }
    }

    /// Whether it answers. An error is one that the user must know: there is a manager, or one was named, and it cannot be
    /// reached.
    pub(crate) fn is_there(&mut self) -> Result<bool, ManagerError> {
        if self.line.is_some() {
            return Ok(true);
        }
        match self.place.connect() {
            Ok(line) => {
                self.line = Some(line);
                Ok(true)
            }
            Err(error) if error.nobody_listens() && !self.chosen => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks a question. It changes nothing, so it is asked again if the manager went away before it answered.
    pub(crate) fn ask<P, R>(&mut self, method: &'static str, call: &P) -> Result<R, ManagerError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        match self.tell(method, call) {
            Err(error) if error.is_lost() => {
                self.come_back()?;
                self.tell(method, call)
            }
            answer => answer,
        }
    }

    /// Requests something, once.
    pub(crate) fn tell<P, R>(&mut self, method: &'static str, call: &P) -> Result<R, ManagerError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let line = match &mut self.line {
            Some(line) => line,
            none => none.insert(self.place.connect()?),
        };
        line.client.set_timeout(Some(ANSWERS_WITHIN));
        let answer = line.client.call(method, call);
        answer.map_err(|source| {
            let error = ManagerError::of_call(source);
            if error.is_lost() {
                self.line = None;
            }
            error
        })
    }

    /// A question or request that is answered in parts, over a connection of its own.
    pub(crate) fn open<P, R>(
        &self,
        method: &'static str,
        call: &P,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Parts<R>, ManagerError>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let line::Line { client, helper } = self.place.connect()?;
        let replies = client
            .call_more_with_fds(method, call, descriptors)
            .map_err(ManagerError::of_call)?;
        Ok(Parts {
            replies,
            _helper: helper,
        })
    }

    /// Waits until a manager that went away answers again.
    pub(crate) fn come_back(&mut self) -> Result<(), ManagerError> {
        self.line = None;
        let deadline = Instant::now() + COMES_BACK_WITHIN;
        loop {
            match self.place.connect() {
                Ok(line) => {
                    self.line = Some(line);
                    return Ok(());
                }
                Err(error) if error.nobody_listens() && Instant::now() < deadline => {
                    std::thread::sleep(RETRY_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Units in rows, however many.
    pub(crate) fn list(
        &mut self,
        call: &wire::ListUnitsCall,
    ) -> Result<Vec<wire::UnitRow>, ManagerError> {
        match self.list_once(call) {
            Err(error) if error.is_lost() => {
                self.come_back()?;
                self.list_once(call)
            }
            rows => rows,
        }
    }

    fn list_once(&self, call: &wire::ListUnitsCall) -> Result<Vec<wire::UnitRow>, ManagerError> {
        let mut rows = Vec::new();
        let parts: Parts<wire::ListUnitsReply> = self.open(wire::method::LIST_UNITS, call, &[])?;
        for part in parts {
            rows.extend(part?.units);
        }
        Ok(rows)
    }

    /// One unit in full.
    pub(crate) fn status(&mut self, unit: &str) -> Result<wire::UnitStatus, ManagerError> {
        let unit = unit.to_owned();
        self.ask(wire::method::STATUS, &wire::UnitCall { unit })
    }

    /// The manager itself.
    pub(crate) fn machine(&mut self) -> Result<wire::MachineStatus, ManagerError> {
        self.ask(wire::method::MACHINE, &wire::Empty {})
    }

    /// Properties of a unit.
    pub(crate) fn show(
        &mut self,
        call: &wire::ShowCall,
    ) -> Result<Vec<(String, String)>, ManagerError> {
        let reply: wire::ShowReply = self.ask(wire::method::SHOW, call)?;
        Ok(reply.properties)
    }
}

/// Answers that come in parts.
#[derive(Debug)]
pub(crate) struct Parts<R> {
    replies: Replies<R>,
    /// The connection's way to another machine ends with it.
    _helper: Option<line::Helper>,
}

impl<R: DeserializeOwned> Iterator for Parts<R> {
    type Item = Result<R, ManagerError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reply: Option<Result<R, CallError>> = self.replies.next();
        reply.map(|reply| reply.map_err(ManagerError::of_call))
    }
}

impl Place {
    fn connect(&self) -> Result<line::Line, ManagerError> {
        match self {
            Self::Socket(path) => {
                let client = Client::connect("the service manager", path)
                    .map_err(|source| ManagerError::Connect { source })?;
                Ok(line::Line {
                    client,
                    helper: None,
                })
            }
            Self::Host { host, socket } => line::by_ssh(host, socket.as_deref()),
        }
    }
}
