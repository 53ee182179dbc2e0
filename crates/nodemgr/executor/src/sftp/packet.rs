//! Packets of SFTP version 3. What comes from a machine is not trusted: every length is checked before it is used.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::files::{Entry, Kind};

/// The longest packet that is accepted.
pub(super) const MOST: usize = 512 * 1024;

/// How many names one answer may hold.
const MOST_NAMES: u32 = 100_000;

/// Kinds of requests.
pub(super) mod kind {
    pub(in crate::sftp) const INIT: u8 = 1;
    pub(in crate::sftp) const OPEN: u8 = 3;
    pub(in crate::sftp) const CLOSE: u8 = 4;
    pub(in crate::sftp) const READ: u8 = 5;
    pub(in crate::sftp) const WRITE: u8 = 6;
    pub(in crate::sftp) const LSTAT: u8 = 7;
    pub(in crate::sftp) const SETSTAT: u8 = 9;
    pub(in crate::sftp) const FSETSTAT: u8 = 10;
    pub(in crate::sftp) const OPENDIR: u8 = 11;
    pub(in crate::sftp) const READDIR: u8 = 12;
    pub(in crate::sftp) const REMOVE: u8 = 13;
    pub(in crate::sftp) const MKDIR: u8 = 14;
    pub(in crate::sftp) const RMDIR: u8 = 15;
    pub(in crate::sftp) const STAT: u8 = 17;
    pub(in crate::sftp) const RENAME: u8 = 18;
    pub(in crate::sftp) const READLINK: u8 = 19;
    pub(in crate::sftp) const SYMLINK: u8 = 20;
    pub(in crate::sftp) const EXTENDED: u8 = 200;
}

/// How a file is opened.
pub(super) mod open {
    pub(in crate::sftp) const READ: u32 = 1;
    pub(in crate::sftp) const WRITE: u32 = 2;
    pub(in crate::sftp) const CREATE: u32 = 8;
    pub(in crate::sftp) const TRUNCATE: u32 = 16;
}

const VERSION: u8 = 2;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const EXTENDED_REPLY: u8 = 201;

const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
const HAS_MODE: u32 = 4;
const HAS_TIMES: u32 = 8;
const HAS_MORE: u32 = 0x8000_0000;

/// Bytes that are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the machine's answer makes no sense: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// What a machine said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Status(Status),
    Handle(Bytes),
    Data(Bytes),
    Names(Vec<(Bytes, Attrs)>),
    Attrs(Attrs),
    Extended(Bytes),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the machine says: {message} (status {code})")]
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: String,
}

impl Status {
    pub(super) const OK: u32 = 0;
    pub(super) const END: u32 = 1;
    pub(super) const MISSING: u32 = 2;
    pub(super) const DENIED: u32 = 3;
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Attrs {
    pub(super) size: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) mtime: Option<u32>,
}

impl Attrs {
    /// Permissions and time.
    pub(super) fn settled(mode: u32, mtime: i64) -> Self {
        Self {
            size: None,
            mode: Some(mode & 0o777),
            // SFTP has no others.
            mtime: Some(u32::try_from(mtime.max(0)).unwrap_or(u32::MAX)),
        }
    }

    /// What it is; of a link only that it is one.
    pub(super) fn entry(&self) -> Entry {
        let mode = self.mode.unwrap_or(0);
        let kind = match mode & 0o170_000 {
            0o040_000 => Kind::Folder,
            0o100_000 => Kind::File {
                size: self.size.unwrap_or(0),
            },
            0o120_000 => Kind::Link { target: Vec::new() },
            _ => Kind::Special,
        };
        Entry {
            kind,
            mode: mode & 0o777,
            mtime: self.mtime.unwrap_or(0).into(),
        }
    }
}

/// A request, as it is put together.
#[derive(Debug)]
pub(super) struct Request(BytesMut);

impl Request {
    pub(super) fn new(kind: u8, id: u32) -> Self {
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_u32(0);
        bytes.put_u8(kind);
        bytes.put_u32(id);
        Self(bytes)
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.put_u32(value);
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.put_u64(value);
        self
    }

    pub(super) fn text(mut self, text: &[u8]) -> Self {
        self.0
            .put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text);
        self
    }

    pub(super) fn attrs(mut self, attrs: Attrs) -> Self {
        let flag = |has: bool, flag: u32| if has { flag } else { 0 };
        let flags = flag(attrs.size.is_some(), HAS_SIZE)
            | flag(attrs.mode.is_some(), HAS_MODE)
            | flag(attrs.mtime.is_some(), HAS_TIMES);
        self.0.put_u32(flags);
        if let Some(size) = attrs.size {
            self.0.put_u64(size);
        }
        if let Some(mode) = attrs.mode {
            self.0.put_u32(mode);
        }
        if let Some(mtime) = attrs.mtime {
            self.0.put_u32(mtime);
            self.0.put_u32(mtime);
        }
        self
    }

    pub(super) fn finish(mut self) -> Bytes {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0.freeze()
    }
}

/// The first request.
pub(super) fn init() -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u32(5);
    bytes.put_u8(kind::INIT);
    bytes.put_u32(3);
    bytes.freeze()
}

/// Takes the next whole packet out of what has come.
pub(super) fn next(buffer: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some(length) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length == 0 || length > MOST {
        return Err(Malformed("a packet's length"));
    }
    if buffer.len() < 4 + length {
        buffer.reserve(4 + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(4);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The names of the extensions that a server has.
pub(super) fn version(mut packet: Bytes) -> Result<Vec<Bytes>, Malformed> {
    if take_u8(&mut packet)? != VERSION {
        return Err(Malformed("no version"));
    }
    if take_u32(&mut packet)? < 3 {
        return Err(Malformed("its version is too old"));
    }
    let mut extensions = Vec::new();
    while !packet.is_empty() {
        extensions.push(take_text(&mut packet)?);
        take_text(&mut packet)?;
    }
    Ok(extensions)
}

/// Reads an answer, and the number of the request that it belongs to.
pub(super) fn reply(mut packet: Bytes) -> Result<(u32, Reply), Malformed> {
    let kind = take_u8(&mut packet)?;
    let id = take_u32(&mut packet)?;
    let reply = match kind {
        STATUS => {
            let code = take_u32(&mut packet)?;
            let message = take_text(&mut packet).unwrap_or_default();
            let message: String = String::from_utf8_lossy(&message)
                .chars()
                .take(200)
                .collect();
            Reply::Status(Status { code, message })
        }
        HANDLE => Reply::Handle(take_text(&mut packet)?),
        DATA => Reply::Data(take_text(&mut packet)?),
        NAME => {
            let count = take_u32(&mut packet)?;
            if count > MOST_NAMES {
                return Err(Malformed("too many names"));
            }
            let mut names = Vec::new();
            for _ in 0..count {
                let name = take_text(&mut packet)?;
                take_text(&mut packet)?;
                names.push((name, take_attrs(&mut packet)?));
            }
            Reply::Names(names)
        }
        ATTRS => Reply::Attrs(take_attrs(&mut packet)?),
        EXTENDED_REPLY => Reply::Extended(packet),
        _ => return Err(Malformed("an unknown kind of answer")),
    };
    Ok((id, reply))
}

/// How much may be read and written at once, as a server says.
pub(super) fn limits(mut reply: Bytes) -> Result<(u64, u64), Malformed> {
    let _packet = take_u64(&mut reply)?;
    let read = take_u64(&mut reply)?;
    Ok((read, take_u64(&mut reply)?))
}

fn take_u8(from: &mut Bytes) -> Result<u8, Malformed> {
    from.try_get_u8().map_err(|_| Malformed("it is too short"))
}

fn take_u32(from: &mut Bytes) -> Result<u32, Malformed> {
    from.try_get_u32().map_err(|_| Malformed("it is too short"))
}

fn take_u64(from: &mut Bytes) -> Result<u64, Malformed> {
    from.try_get_u64().map_err(|_| Malformed("it is too short"))
}

fn take_text(from: &mut Bytes) -> Result<Bytes, Malformed> {
    let length = usize::try_from(take_u32(from)?).unwrap_or(usize::MAX);
    if length > from.len() {
        return Err(Malformed("it is too short"));
    }
    Ok(from.split_to(length))
}

fn take_attrs(from: &mut Bytes) -> Result<Attrs, Malformed> {
    let flags = take_u32(from)?;
    let mut attrs = Attrs::default();
    if flags & HAS_SIZE != 0 {
        attrs.size = Some(take_u64(from)?);
    }
    if flags & HAS_OWNER != 0 {
        take_u64(from)?;
    }
    if flags & HAS_MODE != 0 {
        attrs.mode = Some(take_u32(from)?);
    }
    if flags & HAS_TIMES != 0 {
        take_u32(from)?;
        attrs.mtime = Some(take_u32(from)?);
    }
    if flags & HAS_MORE != 0 {
        for _ in 0..take_u32(from)? {
            take_text(from)?;
            take_text(from)?;
        }
    }
    Ok(attrs)
}

#[cfg(test)]
mod tests;
