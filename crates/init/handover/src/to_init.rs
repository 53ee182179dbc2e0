//! What core tells init.

use crate::bytes::{DecodeError, Names, Payload, Reader};

const HELLO: u16 = 1;
const STORE: u16 = 2;
const DROP: u16 = 3;
const ADOPTED: u16 = 4;
const ACK: u16 = 5;
const PONG: u16 = 6;
const UPGRADE: u16 = 7;
const SHUTDOWN: u16 = 8;

/// A message from core to init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToInit<'a> {
    /// Core has been executed and takes over.
    Hello {
        /// The [`PROTOCOL_VERSION`](crate::PROTOCOL_VERSION) that core was built with.
        version: u32,
    },
    /// Keep these; as many descriptors come with the message. A name that is there is replaced.
    Store(Names<'a>),
    /// Close these.
    Drop(Selector<'a>),
    /// Recovery is finished: exits may be reaped again.
    Adopted,
    /// The exits up to and with this one are recorded and need not be told again.
    Ack {
        /// The last exit's number.
        seq: u64,
    },
    /// The answer to `Ping`.
    Pong,
    /// Core is about to exit; start another one.
    Upgrade(Upgrade<'a>),
    /// All units are stopped: end what is left, and the machine.
    Shutdown(ShutdownKind<'a>),
}

/// Which kept descriptors are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector<'a> {
    /// The one with this name.
    Name(&'a str),
    /// All whose names begin so.
    Prefix(&'a str),
}

/// What to start in place of the core that asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upgrade<'a> {
    /// The new program; none for the path that was used before (where there may be a new file).
    pub core: Option<&'a str>,
    /// Whether init executes its own program anew first.
    pub init: bool,
}

/// How it all ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownKind<'a> {
    /// Power off.
    PowerOff,
    /// Restart the machine; the argument, which may be empty, is for the firmware.
    Reboot {
        /// Passed to `reboot(2)`.
        argument: &'a str,
    },
    /// Stop without power-off.
    Halt,
    /// Start the kernel that was loaded before.
    Kexec,
    /// End init itself: of a container, or under another init.
    Exit {
        /// Init's exit code.
        code: u8,
    },
    /// End all processes and begin anew without restarting the kernel.
    SoftReboot,
}

impl<'a> ToInit<'a> {
    /// Reads a message; none if its kind is not known.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(bytes)?;
        Ok(Some(match reader.kind() {
            HELLO => Self::Hello {
                version: reader.u32()?,
            },
            STORE => Self::Store(Names::read(&mut reader)?),
            DROP => Self::Drop(read_selector(&mut reader)?),
            ADOPTED => Self::Adopted,
            ACK => Self::Ack { seq: reader.u64()? },
            PONG => Self::Pong,
            UPGRADE => Self::Upgrade(read_upgrade(&mut reader)?),
            SHUTDOWN => Self::Shutdown(read_shutdown(&mut reader)?),
            _ => return Ok(None),
        }))
    }
}

fn read_selector<'a>(reader: &mut Reader<'a>) -> Result<Selector<'a>, DecodeError> {
    let scope = reader.u8()?;
    let name = reader.name()?;
    match scope {
        0 => Ok(Selector::Name(name)),
        1 => Ok(Selector::Prefix(name)),
        other => Err(reader.unknown_value(other)),
    }
}

fn read_upgrade<'a>(reader: &mut Reader<'a>) -> Result<Upgrade<'a>, DecodeError> {
    let init = reader.u8()? != 0;
    let path = reader.text()?;
    Ok(Upgrade {
        core: (!path.is_empty()).then_some(path),
        init,
    })
}

fn read_shutdown<'a>(reader: &mut Reader<'a>) -> Result<ShutdownKind<'a>, DecodeError> {
    let kind = reader.u8()?;
    let code = reader.u8()?;
    let argument = reader.text()?;
    Ok(match kind {
        0 => ShutdownKind::PowerOff,
        1 => ShutdownKind::Reboot { argument },
        2 => ShutdownKind::Halt,
        3 => ShutdownKind::Kexec,
        4 => ShutdownKind::Exit { code },
        5 => ShutdownKind::SoftReboot,
        other => return Err(reader.unknown_value(other)),
    })
}

pub(crate) fn hello(version: u32) -> Payload {
    let mut payload = Payload::new(HELLO);
    payload.u32(version);
    payload
}

pub(crate) fn adopted() -> Payload {
    Payload::new(ADOPTED)
}

pub(crate) fn ack(seq: u64) -> Payload {
    let mut payload = Payload::new(ACK);
    payload.u64(seq);
    payload
}

pub(crate) fn pong() -> Payload {
    Payload::new(PONG)
}

/// An empty list; names are added by the caller.
pub(crate) fn store() -> Payload {
    Payload::new(STORE)
}

/// None if the name is too long for any message.
pub(crate) fn drop(selector: Selector<'_>) -> Option<Payload> {
    let mut payload = Payload::new(DROP);
    let (scope, name) = match selector {
        Selector::Name(name) => (0, name),
        Selector::Prefix(name) => (1, name),
    };
    payload.u8(scope);
    payload.text(name).then_some(payload)
}

/// None if the path is too long for any message.
pub(crate) fn upgrade(upgrade: Upgrade<'_>) -> Option<Payload> {
    let mut payload = Payload::new(UPGRADE);
    payload.u8(u8::from(upgrade.init));
    payload
        .text(upgrade.core.unwrap_or_default())
        .then_some(payload)
}

/// None if the argument is too long for any message.
pub(crate) fn shutdown(kind: ShutdownKind<'_>) -> Option<Payload> {
    let mut payload = Payload::new(SHUTDOWN);
    let (kind, code, argument) = match kind {
        ShutdownKind::PowerOff => (0, 0, ""),
        ShutdownKind::Reboot { argument } => (1, 0, argument),
        ShutdownKind::Halt => (2, 0, ""),
        ShutdownKind::Kexec => (3, 0, ""),
        ShutdownKind::Exit { code } => (4, code, ""),
        ShutdownKind::SoftReboot => (5, 0, ""),
    };
    payload.u8(kind);
    payload.u8(code);
    payload.text(argument).then_some(payload)
}

#[cfg(test)]
mod tests;
