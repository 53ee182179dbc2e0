//! What init tells core.

use std::fmt;

use crate::bytes::{DecodeError, Names, Payload, Reader};

const BEGIN: u16 = 65;
const STORED: u16 = 66;
const END: u16 = 67;
const EXITS: u16 = 68;
const PING: u16 = 69;
const SIGNAL: u16 = 70;
const REFUSED: u16 = 71;

const FLAG_SAFE_MODE: u8 = 1;
const FLAG_SUPERVISED: u8 = 2;

/// The bytes of one [`Exit`] in a message.
const EXIT_SIZE: usize = 16;

/// A message from init to core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToCore<'a> {
    /// The first message: why core was started.
    Begin(Begin),
    /// Kept descriptors; as many come with the message.
    Stored(Names<'a>),
    /// Everything that was kept, and every exit that was not acknowledged, has been sent.
    End,
    /// Processes that have ended.
    Exits(Exits<'a>),
    /// Is core alive? It answers with `Pong`.
    Ping,
    /// Init received a signal that is for core to act upon.
    Signal(Signal),
    /// Descriptors that could not be kept, since the last such message.
    Refused {
        /// How many.
        count: u32,
    },
}

/// Why and how core was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION) that init was built with.
    pub init_version: u32,
    /// Why this core was started.
    pub cause: Cause,
    /// How often cores have crashed lately.
    pub crashes: u32,
    /// Core must start nothing by itself.
    pub safe_mode: bool,
    /// Init is not PID 1 but a supervisor beside another init.
    pub supervised: bool,
}

/// Why a core was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// There was none before.
    FirstBoot,
    /// The former one ended without being asked to.
    Crash {
        /// How it ended.
        outcome: Outcome,
    },
    /// The former one did not answer and was killed.
    Hang,
    /// The former one asked for it.
    Upgrade,
    /// An upgrade did not work; this is the program that was used before.
    RolledBack {
        /// How the new one ended.
        outcome: Outcome,
    },
    /// All processes were ended to begin anew.
    SoftReboot,
}

/// How a process ended: what `wait(2)` says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The status as the kernel gives it.
    pub raw: i32,
}

impl Outcome {
    /// The exit code, if it exited by itself.
    pub fn code(self) -> Option<i32> {
        (self.raw & 0x7f == 0).then_some((self.raw >> 8) & 0xff)
    }

    /// The signal that killed it, if one did.
    pub fn signal(self) -> Option<i32> {
        let signal = self.raw & 0x7f;
        (signal != 0 && signal != 0x7f).then_some(signal)
    }

    /// Whether it was killed and its memory was dumped.
    pub fn dumped_core(self) -> bool {
        self.signal().is_some() && self.raw & 0x80 != 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code(), self.signal()) {
            (Some(code), _) => write!(formatter, "exited with code {code}"),
            (None, Some(signal)) => write!(formatter, "killed by signal {signal}"),
            (None, None) => write!(formatter, "ended with status {:#x}", self.raw),
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A process that has ended and was reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Counts exits since init's start; never reused, also not across cores.
    pub seq: u64,
    /// The process. The kernel may have given the number to another process since.
    pub pid: i32,
    /// How it ended.
    pub outcome: Outcome,
}

/// A signal that init received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its number, as in `kill -l`.
    pub number: u32,
    /// Who sent it; 0 for the kernel and for processes outside the PID namespace.
    pub sender: u32,
}

/// A list of exits, in the order of their numbers.
#[derive(Clone, Copy)]
pub struct Exits<'a> {
    first: Reader<'a>,
    number: u16,
}

impl<'a> Exits<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = reader.u16()?;
        let first = *reader;
        for _ in 0..number {
            read_exit(reader)?;
        }
        Ok(Self { first, number })
    }

    /// The exits.
    pub fn iter(&self) -> ExitsIter<'a> {
        ExitsIter {
            next: self.first,
            left: self.number,
        }
    }
}

impl<'a> IntoIterator for Exits<'a> {
    type Item = Exit;
    type IntoIter = ExitsIter<'a>;

    fn into_iter(self) -> ExitsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Exits<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Exits<'_> {}

impl fmt::Debug for Exits<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`Exits`].
#[derive(Clone)]
pub struct ExitsIter<'a> {
    next: Reader<'a>,
    left: u16,
}

impl Iterator for ExitsIter<'_> {
    type Item = Exit;

    fn next(&mut self) -> Option<Exit> {
        self.left = self.left.checked_sub(1)?;
        // The list was read once before, so this does not fail.
        read_exit(&mut self.next).ok()
    }
}

impl fmt::Debug for ExitsIter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> ToCore<'a> {
    /// Reads a message; none if its kind is not known.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(bytes)?;
        Ok(Some(match reader.kind() {
            BEGIN => Self::Begin(read_begin(&mut reader)?),
            STORED => Self::Stored(Names::read(&mut reader)?),
            END => Self::End,
            EXITS => Self::Exits(Exits::read(&mut reader)?),
            PING => Self::Ping,
            SIGNAL => Self::Signal(Signal {
                number: reader.u32()?,
                sender: reader.u32()?,
            }),
            REFUSED => Self::Refused {
                count: reader.u32()?,
            },
            _ => return Ok(None),
        }))
    }
}

fn read_exit(reader: &mut Reader<'_>) -> Result<Exit, DecodeError> {
    Ok(Exit {
        seq: reader.u64()?,
        pid: reader.i32()?,
        outcome: Outcome { raw: reader.i32()? },
    })
}

fn read_begin(reader: &mut Reader<'_>) -> Result<Begin, DecodeError> {
    let init_version = reader.u32()?;
    let cause = reader.u8()?;
    let outcome = Outcome { raw: reader.i32()? };
    let crashes = reader.u32()?;
    let flags = reader.u8()?;
    Ok(Begin {
        init_version,
        cause: match cause {
            0 => Cause::FirstBoot,
            1 => Cause::Crash { outcome },
            2 => Cause::Hang,
            3 => Cause::Upgrade,
            4 => Cause::RolledBack { outcome },
            5 => Cause::SoftReboot,
            other => return Err(reader.unknown_value(other)),
        },
        crashes,
        safe_mode: flags & FLAG_SAFE_MODE != 0,
        supervised: flags & FLAG_SUPERVISED != 0,
    })
}

pub(crate) fn begin(begin: &Begin) -> Payload {
    let (cause, raw) = match begin.cause {
        Cause::FirstBoot => (0, 0),
        Cause::Crash { outcome } => (1, outcome.raw),
        Cause::Hang => (2, 0),
        Cause::Upgrade => (3, 0),
        Cause::RolledBack { outcome } => (4, outcome.raw),
        Cause::SoftReboot => (5, 0),
    };
    let mut flags = 0;
    if begin.safe_mode {
        flags |= FLAG_SAFE_MODE;
    }
    if begin.supervised {
        flags |= FLAG_SUPERVISED;
    }
    let mut payload = Payload::new(BEGIN);
    payload.u32(begin.init_version);
    payload.u8(cause);
    payload.i32(raw);
    payload.u32(begin.crashes);
    payload.u8(flags);
    payload
}

/// An empty list; names are added by the caller.
pub(crate) fn stored() -> Payload {
    Payload::new(STORED)
}

pub(crate) fn end() -> Payload {
    Payload::new(END)
}

/// As many of the exits as fit, and how many these are.
pub(crate) fn exits(exits: impl Iterator<Item = Exit>) -> (Payload, usize) {
    let mut payload = Payload::new(EXITS);
    let mut count = payload.list();
    let mut taken = 0;
    for exit in exits {
        if payload.room() < EXIT_SIZE {
            break;
        }
        payload.u64(exit.seq);
        payload.i32(exit.pid);
        payload.i32(exit.outcome.raw);
        payload.count(&mut count);
        taken += 1;
    }
    (payload, taken)
}

pub(crate) fn ping() -> Payload {
    Payload::new(PING)
}

pub(crate) fn signal(signal: Signal) -> Payload {
    let mut payload = Payload::new(SIGNAL);
    payload.u32(signal.number);
    payload.u32(signal.sender);
    payload
}

pub(crate) fn refused(count: u32) -> Payload {
    let mut payload = Payload::new(REFUSED);
    payload.u32(count);
    payload
}

#[cfg(test)]
mod tests;
