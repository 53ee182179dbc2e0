//! Core's end of the link.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::sockopt::socket_type;
use rustix::net::{RecvFlags, SendFlags, SocketType};

use crate::bytes::{DecodeError, NameError, Payload, check_name};
use crate::channel::{self, Inbox};
use crate::to_core::{Begin, Cause, Exit, Signal, ToCore};
use crate::to_init::{self, Selector, ShutdownKind, Upgrade};
use crate::{LINK_VARIABLE, MAX_TEXT, PROTOCOL_VERSION};

/// Messages that one call of [`CoreLink::receive`] reads at most, so that an event loop stays fair.
const MESSAGES_PER_CALL: usize = 32;

/// Core's end of the link to init.
///
/// Sending blocks if need be (see the crate's documentation), receiving never does. The descriptor is
/// for waiting until it is readable, level-triggered.
#[derive(Debug)]
pub struct CoreLink {
    socket: OwnedFd,
    inbox: Box<Inbox>,
}

/// What init had to hand over.
#[derive(Debug)]
pub struct Begun {
    /// Why this core was started.
    pub cause: Cause,
    /// How often cores have crashed lately.
    pub crashes: u32,
    /// Nothing is to be started without being asked for.
    pub safe_mode: bool,
    /// Init is not PID 1 but a supervisor beside another init.
    pub supervised: bool,
    /// What init speaks.
    pub init_version: u32,
    /// Everything that was kept, by name.
    pub kept: BTreeMap<String, OwnedFd>,
    /// Exits that no core has acknowledged, oldest first. Their processes are gone for good.
    pub exits: Vec<Exit>,
}

/// What init says while core runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromInit {
    /// A process has ended; to be acknowledged by [`CoreLink::ack`] when it is recorded.
    Exit(Exit),
    /// To be answered by [`CoreLink::pong`].
    Ping,
    /// A signal for core to act upon.
    Signal(Signal),
    /// So many descriptors could not be kept, because init has no room; a restart would lose them.
    Refused(u32),
}

/// Why the link could not be taken over, or was lost.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The environment variable is not set: core was not started by `muster-init`.
    #[error("{LINK_VARIABLE} is not set")]
    NotGiven,
    /// The environment variable is not a number.
    #[error("{LINK_VARIABLE} is not the number of a descriptor: {value:?}")]
    NotANumber {
        /// Its value.
        value: String,
    },
    /// The descriptor is no such socket.
    #[error("descriptor {descriptor} is not a link to init")]
    NotALink {
        /// Its number.
        descriptor: RawFd,
        /// What the system reported, if it is no socket at all.
        #[source]
        source: Option<Errno>,
    },
    /// Nothing could be received.
    #[error("cannot receive from init")]
    Receive(#[source] Errno),
    /// A message could not be understood.
    #[error("init sent a message that cannot be understood")]
    Malformed(#[source] DecodeError),
    /// Init did not say why it started this core.
    #[error("init did not begin with Begin")]
    NoBegin,
    /// Init has gone.
    #[error("init has closed its link")]
    Closed,
    /// Init could not be greeted.
    #[error(transparent)]
    Hello(SendError),
}

/// Why init could not be told something.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The name cannot be used.
    #[error("cannot keep a descriptor in init")]
    Name(#[source] NameError),
    /// A path or an argument is longer than [`MAX_TEXT`].
    #[error("cannot tell init a text of {length} bytes; at most {MAX_TEXT} are allowed")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The message could not be sent.
    #[error("cannot send {message} to init")]
    Send {
        /// The kind of the message.
        message: &'static str,
        /// What the system reported.
        #[source]
        source: Errno,
    },
}

impl CoreLink {
    /// Takes over what init gave to this process. Blocks until init has sent everything.
    ///
    /// To be called once, early: the descriptor that [`LINK_VARIABLE`] names belongs to the link
    /// afterwards, and is close-on-exec.
    pub fn take_from_env() -> Result<(Self, Begun), TakeError> {
        let value = std::env::var_os(LINK_VARIABLE).ok_or(TakeError::NotGiven)?;
        let number = value.to_str().and_then(|text| text.parse::<RawFd>().ok());
        let Some(number @ 3..) = number else {
            return Err(TakeError::NotANumber {
                value: value.to_string_lossy().into_owned(),
            });
        };
        Self::take(adopt_link(number)?)
    }

    /// Takes over on a given socket: the other end of [`InitLink::pair`](crate::InitLink::pair).
    pub fn take(socket: OwnedFd) -> Result<(Self, Begun), TakeError> {
        let mut link = Self {
            socket,
            inbox: Box::default(),
        };
        link.send("Hello", &to_init::hello(PROTOCOL_VERSION))
            .map_err(TakeError::Hello)?;
        let mut begin = None;
        let mut kept = BTreeMap::new();
        let mut exits = Vec::new();
        loop {
            let (message, descriptors) = match link.next(RecvFlags::empty())? {
                Some((Some(message), descriptors)) => (message, descriptors),
                // A newer init says more than this core knows of.
                Some((None, _)) => continue,
                None => return Err(TakeError::Receive(Errno::AGAIN)),
            };
            match message {
                ToCore::Begin(value) => begin = Some(value),
                ToCore::Stored(names) => {
                    kept.extend(names.iter().map(str::to_owned).zip(descriptors));
                }
                ToCore::Exits(list) => exits.extend(list),
                ToCore::End => break,
                // None of these is sent before the end.
                ToCore::Ping | ToCore::Signal(_) | ToCore::Refused { .. } => {}
            }
        }
        let begin: Begin = begin.ok_or(TakeError::NoBegin)?;
        let begun = Begun {
            cause: begin.cause,
            crashes: begin.crashes,
            safe_mode: begin.safe_mode,
            supervised: begin.supervised,
            init_version: begin.init_version,
            kept,
            exits,
        };
        Ok((link, begun))
    }

    /// Receives what is there, without blocking, and calls `on` for each thing in order.
    ///
    /// Stops after a bounded number of messages, and the descriptor is then still readable.
    pub fn receive(&mut self, on: &mut dyn FnMut(FromInit)) -> Result<(), TakeError> {
        for _ in 0..MESSAGES_PER_CALL {
            let Some((message, _)) = self.next(RecvFlags::DONTWAIT)? else {
                break;
            };
            match message {
                Some(ToCore::Exits(exits)) => exits.iter().map(FromInit::Exit).for_each(&mut *on),
                Some(ToCore::Ping) => on(FromInit::Ping),
                Some(ToCore::Signal(signal)) => on(FromInit::Signal(signal)),
                Some(ToCore::Refused { count }) => on(FromInit::Refused(count)),
                Some(ToCore::Begin(_) | ToCore::Stored(_) | ToCore::End) | None => {}
            }
        }
        Ok(())
    }

    /// Gives init descriptors to keep: they come back in [`Begun::kept`] of the next core. What is kept
    /// under the same name is replaced. No limit on the number; a name is not empty and has at most
    /// [`MAX_NAME`](crate::MAX_NAME) bytes, or nothing at all is sent.
    pub fn store(&self, named: &[(&str, BorrowedFd<'_>)]) -> Result<(), SendError> {
        for (name, _) in named {
            check_name(name).map_err(SendError::Name)?;
        }
        let mut left = named;
        while !left.is_empty() {
            let sent = channel::send_named(
                self.socket.as_fd(),
                to_init::store(),
                left.iter().copied(),
                SendFlags::empty(),
            );
            let taken = sent.map_err(|source| SendError::Send {
                message: "Store",
                source,
            })?;
            left = &left[taken..];
        }
        Ok(())
    }

    /// Lets init close what it keeps under a name; nothing happens if there is nothing.
    pub fn drop_name(&self, name: &str) -> Result<(), SendError> {
        self.drop(Selector::Name(name))
    }

    /// Lets init close everything whose name begins so.
    pub fn drop_prefix(&self, prefix: &str) -> Result<(), SendError> {
        self.drop(Selector::Prefix(prefix))
    }

    fn drop(&self, selector: Selector<'_>) -> Result<(), SendError> {
        let (Selector::Name(name) | Selector::Prefix(name)) = selector;
        check_name(name).map_err(SendError::Name)?;
        let payload = to_init::drop(selector);
        self.send_text("Drop", name, payload)
    }

    /// Says that recovery is finished: everything that runs is known again. From now on exits are
    /// reaped and reported, so a pid that this core has no pidfd of may be reused.
    pub fn adopted(&self) -> Result<(), SendError> {
        self.send("Adopted", &to_init::adopted())
    }

    /// Says that the exits up to and with `seq` are recorded; they will not be reported again.
    pub fn ack(&self, seq: u64) -> Result<(), SendError> {
        self.send("Ack", &to_init::ack(seq))
    }

    /// Answers [`FromInit::Ping`].
    pub fn pong(&self) -> Result<(), SendError> {
        self.send("Pong", &to_init::pong())
    }

    /// Asks for another core; this one must exit now. If the new one does not get as far as
    /// [`CoreLink::adopted`], init goes back to the program of this one.
    pub fn upgrade(&self, upgrade: Upgrade<'_>) -> Result<(), SendError> {
        let text = upgrade.core.unwrap_or_default();
        self.send_text("Upgrade", text, to_init::upgrade(upgrade))
    }

    /// Ends everything. All units must be stopped; core may exit, and is killed if it does not.
    pub fn shutdown(&self, kind: ShutdownKind<'_>) -> Result<(), SendError> {
        let text = match kind {
            ShutdownKind::Reboot { argument } => argument,
            _ => "",
        };
        self.send_text("Shutdown", text, to_init::shutdown(kind))
    }

    fn send_text(
        &self,
        message: &'static str,
        text: &str,
        payload: Option<Payload>,
    ) -> Result<(), SendError> {
        let length = text.len();
        match payload.filter(|_| length <= MAX_TEXT) {
            Some(payload) => self.send(message, &payload),
            None => Err(SendError::TooLong { length }),
        }
    }

    fn send(&self, message: &'static str, payload: &Payload) -> Result<(), SendError> {
        channel::send(self.socket.as_fd(), payload, &[], SendFlags::empty())
            .map_err(|source| SendError::Send { message, source })
    }

    /// The next message, unless nothing is there; inner none if its kind is not known.
    fn next(
        &mut self,
        flags: RecvFlags,
    ) -> Result<Option<(Option<ToCore<'_>>, channel::Descriptors<'_>)>, TakeError> {
        match channel::receive(self.socket.as_fd(), &mut self.inbox, flags) {
            Ok(true) => {}
            Ok(false) => return Err(TakeError::Closed),
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(TakeError::Receive(error)),
        }
        if self.inbox.is_truncated() {
            return Err(TakeError::Malformed(DecodeError::TooLong));
        }
        let (bytes, descriptors) = self.inbox.open();
        let message = ToCore::decode(bytes).map_err(TakeError::Malformed)?;
        Ok(Some((message, descriptors)))
    }
}

impl AsFd for CoreLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes the descriptor with this number ours, if it is a link.
#[expect(
    unsafe_code,
    reason = "a descriptor that comes with the process is known by its number only"
)]
fn adopt_link(number: RawFd) -> Result<OwnedFd, TakeError> {
    let not_a_link = |source| TakeError::NotALink {
        descriptor: number,
        source,
    };
    // SAFETY: the number is not -1, and the borrow ends before anything could close the descriptor. If
    // it is not open, the calls below say so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let kind = socket_type(borrowed).map_err(|error| not_a_link(Some(error)))?;
    if kind != SocketType::SEQPACKET {
        return Err(not_a_link(None));
    }
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| not_a_link(Some(error)))?;
    // SAFETY: it is open, and the variable that names it says that init gave it to this process to own.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests;
