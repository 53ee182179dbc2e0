//! The control socket: `io.muster.Manager` for `sctl` and others.
//!
//! ```text
//!   Token::Control -> Server::turn -> dispatch -> a reply at once, or a request to the engine and a reply when it answers
//!   actions of the engine -> control_answer, control_job_ended, control_state_changed -> replies and events
//!   everything applied -> control_settled -> events to subscribers, replies to the sockets
//! ```
//!
//! Who may connect may read; only root and the manager's own user may change anything ([`dispatch`]). Reading changes
//! nothing, not even what is loaded. What a change needs in order to survive is recorded before its client is answered;
//! clients themselves do not survive a restart of the manager: they come back and ask for their jobs by number.
//!
//! - [`jobs`]: submitting jobs and waiting for them. [`events`]: subscriptions. [`rows`]: lists.
//! - [`status`], [`show`], [`why`]: one unit. [`reason`]: why it is as it is, in sentences.
//! - [`settings`], [`transient`]: units and settings made by requests, written as unit files.
//! - [`processes`]: signals, freezing, cleaning. [`machine`]: the manager and the machine as a whole.

mod dispatch;
mod events;
mod fault;
mod jobs;
mod machine;
mod processes;
mod reason;
mod rows;
mod settings;
mod show;
mod status;
mod transient;
mod why;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use muster_control::manager::{Change, JobGone};
use muster_engine::event::Answer;
use muster_engine::ids::{Clock, JobId, RequestId, Time, UnitId};
use muster_engine::job::{JobResult, JobType};
use muster_engine::protocol::ActiveState;
use muster_unit_file::name::UnitName;
use muster_varlink::{ReplyError, Server, ServerOptions};

use crate::core::{Core, CoreError};
use crate::platform::{Ready, Token};
use crate::recover::Kept;
use events::{EventLog, Subscriber};
use jobs::Waiters;
use transient::Transients;

/// The name of the listening socket in `muster-init`.
const KEY: &str = "control";
/// Connections that wait to be accepted while core is away.
const BACKLOG: i32 = 4096;
/// Calls that are answered before anything else has its turn.
const CALLS_PER_TURN: usize = 4;
/// Each core's numbers of events begin so many after those of the core before.
const EPOCH_BITS: u32 = 32;

/// Clients, what they wait for, and what came with their requests.
#[derive(Debug, Default)]
pub(crate) struct Control {
    server: Option<Server>,
    waiters: Waiters,
    log: EventLog,
    subscribers: Vec<Subscriber>,
    pub(crate) transients: Transients,
    /// When this core opened its socket.
    began: Clock,
    /// Whether units are enabled, as far as somebody asked since the last reload.
    file_states: HashMap<UnitName, status::FileState>,
    /// The machine's state as subscribers were last told.
    told_state: &'static str,
}

impl Control {
    /// Whether a client waits for this request.
    pub(crate) fn is_waiting(&self, request: RequestId) -> bool {
        self.waiters.has(request)
    }
}

impl Core {
    /// Opens the control socket, or takes the one that was kept.
    ///
    /// # Errors
    /// If it can neither be taken nor made.
    pub(crate) fn open_control(&mut self, kept: &mut Kept) -> Result<(), CoreError> {
        let path = self.options.runtime.join(muster_control::CONTROL_SOCKET);
        let failed = |source| CoreError::Open {
            what: format!("the control socket {}", path.display()),
            source,
        };
        let listener = match kept.take(KEY) {
            Some(listener) => listener,
            None => {
                let listener = listen(&path).map_err(failed)?;
                let copy = listener.try_clone().map_err(failed)?;
                self.platform.keep(KEY.to_owned(), copy);
                listener
            }
        };
        let options = ServerOptions {
            calls_per_turn: CALLS_PER_TURN,
            ..ServerOptions::default()
        };
        let server =
            Server::new(listener, options).map_err(|error| failed(io::Error::other(error)))?;
        self.platform
            .watch(server.as_fd(), Token::Control, false)
            .map_err(failed)?;
        self.control.server = Some(server);
        self.control.began = self.now();
        let epoch = u64::from(self.memory.recoveries) << EPOCH_BITS;
        self.control.log.begin(epoch);
        self.restore_transients(kept);
        Ok(())
    }

    /// Something at the control socket is ready.
    pub(crate) fn control_ready(&mut self, _ready: Ready) {
        let now = self.control_clock();
        let Some(server) = &mut self.control.server else {
            return;
        };
        server.turn(now);
        while let Some(call) = self
            .control
            .server
            .as_mut()
            .and_then(|server| server.next_call(now))
        {
            self.dispatch(call);
        }
    }

    /// Everything that came in is applied: replies go out, and calls that waited for that are answered.
    pub(crate) fn control_settled(&mut self) {
        self.release_stdio();
        self.forget_ended_transients();
        if !self.control.subscribers.is_empty() {
            self.note_machine_state();
            self.tell_subscribers();
        }
        let now = self.control_clock();
        if let Some(server) = &mut self.control.server {
            server.flush(now);
        }
    }

    /// When a client's time is over.
    pub(crate) fn control_deadline(&self) -> Option<Time> {
        let at = self.control.server.as_ref()?.next_deadline()?;
        Some(Time(u64::try_from(at.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Clients whose time is over are let go.
    pub(crate) fn control_time_has_passed(&mut self) {
        let now = self.control_clock();
        if let Some(server) = &mut self.control.server
            && server.next_deadline().is_some_and(|at| at <= now)
        {
            server.turn(now);
        }
    }

    pub(crate) fn control_clock(&self) -> Duration {
        Duration::from_micros(self.now().monotonic.0)
    }

    /// How a request was taken.
    pub(crate) fn control_answer(&mut self, request: RequestId, answer: &Answer) {
        self.request_answered(request, answer);
    }

    /// A job was queued.
    pub(crate) fn control_job_added(&mut self, job: JobId) {
        let Some(queued) = self.engine.job(job) else {
            return;
        };
        let change = Change::JobNew {
            job: job.0,
            unit: self.engine.unit(queued.unit).name.to_string(),
            kind: queued.job_type.as_str().to_owned(),
        };
        self.note(change);
    }

    /// A job ended.
    pub(crate) fn control_job_ended(
        &mut self,
        job: JobId,
        unit: UnitId,
        kind: JobType,
        result: JobResult,
        waiters: &[RequestId],
    ) {
        self.tell_job_ended(job, unit, result, waiters);
        let name = self.engine.get(unit).map(|record| record.name.to_string());
        self.note(Change::JobGone(JobGone {
            job: job.0,
            unit: name.unwrap_or_default(),
            kind: kind.as_str().to_owned(),
            result: result.as_str().to_owned(),
        }));
        self.consider_transient(unit);
    }

    /// A unit's state changed.
    pub(crate) fn control_state_changed(
        &mut self,
        unit: UnitId,
        _old: ActiveState,
        new: ActiveState,
    ) {
        if new.is_down() {
            self.tell_unit_down(unit);
            self.consider_transient(unit);
        }
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let change = Change::Unit {
            unit: record.name.to_string(),
            active: new.as_str().to_owned(),
            sub: record.machine.sub_state().to_owned(),
        };
        self.note(change);
    }

    /// Unit files were read again.
    pub(crate) fn control_reloaded(&mut self) {
        self.control.file_states.clear();
        self.note(Change::Reloaded {});
    }

    fn note(&mut self, change: Change) {
        let real = self.engine.now().real;
        self.control.log.add(real, change);
    }

    fn note_machine_state(&mut self) {
        let state = self.machine_state();
        if state != self.control.told_state {
            self.control.told_state = state;
            let state = state.to_owned();
            self.note(Change::Machine { state });
        }
    }

    /// Tells every subscriber what is new. Who does not read is told later that it has missed something.
    fn tell_subscribers(&mut self) {
        let Control {
            server: Some(server),
            subscribers,
            log,
            ..
        } = &mut self.control
        else {
            return;
        };
        subscribers.retain_mut(|subscriber| {
            while let Some(news) = subscriber.next_reply(log) {
                let reply = muster_varlink::Reply::of(&news).and_more();
                match server.reply(subscriber.call, reply) {
                    Ok(()) => subscriber.told(news.sequence),
                    // It is told when it has read what waits; if that is too long from now, it must read anew.
                    Err(ReplyError::Full(_)) => return true,
                    Err(ReplyError::NobodyWaits | ReplyError::NotMore) => return false,
                }
            }
            true
        });
    }
}

/// Makes the socket. Everybody may connect: what a client may do is decided by who it is.
pub(crate) fn listen(path: &std::path::Path) -> io::Result<OwnedFd> {
    if let Some(folder) = path.parent() {
        settings::make_folder(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener.into())
}
