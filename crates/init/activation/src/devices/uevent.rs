//! Messages about devices, as the kernel sends them and as udev sends them on.
//!
//! ```text
//! kernel: add@/devices/...\0ACTION=add\0DEVPATH=/devices/...\0SUBSYSTEM=block\0...
//! udev:   libudev\0 magic, size of the header, offset and length of the properties, filters ... ACTION=add\0...
//! ```

use thiserror::Error;

/// The longest message that is taken. The kernel's have at most 2 KiB, udev's with many links a few more.
pub(super) const MAX_MESSAGE: usize = 64 << 10;
/// Properties that one message may have.
const MAX_PROPERTIES: usize = 1024;
const UDEV_PREFIX: &[u8] = b"libudev\0";
const UDEV_MAGIC: u32 = 0xfeed_cafe;

/// Why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseUeventError {
    /// It is longer than what is taken, or has too many properties.
    #[error("the device message is too long")]
    TooLong,
    /// It is cut off, or its header does not fit.
    #[error("the device message is cut off or its header is wrong")]
    Header,
    /// Something in it is not UTF-8.
    #[error("the device message is not UTF-8")]
    NotUtf8,
    /// A property that every message has is missing.
    #[error("the device message has no usable {property}")]
    Missing {
        /// Which.
        property: &'static str,
    },
}

/// What happened to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UeventAction {
    /// It is there.
    Add,
    /// It is gone.
    Remove,
    /// Something about it is different now.
    Change,
    /// It has another name now.
    Move,
    /// It can be used.
    Online,
    /// It cannot be used.
    Offline,
    /// It has a driver.
    Bind,
    /// It has no driver.
    Unbind,
}

impl UeventAction {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "add" => Self::Add,
            "remove" => Self::Remove,
            "change" => Self::Change,
            "move" => Self::Move,
            "online" => Self::Online,
            "offline" => Self::Offline,
            "bind" => Self::Bind,
            "unbind" => Self::Unbind,
            _ => return None,
        })
    }
}

/// A message, split but not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uevent<'a> {
    /// What happened.
    pub action: UeventAction,
    /// To which device: its place below `/sys`.
    pub device: &'a str,
    /// Everything the message says, in its order.
    pub properties: Vec<(&'a str, &'a str)>,
}

impl<'a> Uevent<'a> {
    /// Reads a message of either kind.
    ///
    /// # Errors
    /// It is not one.
    pub fn parse(message: &'a [u8]) -> Result<Self, ParseUeventError> {
        if message.len() > MAX_MESSAGE {
            return Err(ParseUeventError::TooLong);
        }
        let fields = if message.starts_with(UDEV_PREFIX) {
            udev_properties(message)?
        } else {
            kernel_properties(message)?
        };
        let mut properties = Vec::new();
        for field in fields.split(|byte| *byte == 0).filter(|f| !f.is_empty()) {
            if properties.len() == MAX_PROPERTIES {
                return Err(ParseUeventError::TooLong);
            }
            let text = std::str::from_utf8(field).map_err(|_| ParseUeventError::NotUtf8)?;
            // What is no assignment says nothing.
            properties.extend(text.split_once('='));
        }
        let find = |key: &str| properties.iter().find(|(name, _)| *name == key);
        let missing = |property| ParseUeventError::Missing { property };
        let action = find("ACTION").and_then(|(_, word)| UeventAction::from_word(word));
        let device = find("DEVPATH").map(|(_, path)| *path);
        let device = device.filter(|path| path.starts_with('/') && !path.contains("/../"));
        Ok(Self {
            action: action.ok_or(missing("ACTION"))?,
            device: device.ok_or(missing("DEVPATH"))?,
            properties,
        })
    }

    /// The value of a property.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        let found = self.properties.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }
}

/// After the summary `action@devpath`, which the properties repeat.
fn kernel_properties(message: &[u8]) -> Result<&[u8], ParseUeventError> {
    let end = message.iter().position(|byte| *byte == 0);
    let (summary, properties) = message.split_at(end.ok_or(ParseUeventError::Header)?);
    if !summary.contains(&b'@') {
        return Err(ParseUeventError::Header);
    }
    Ok(properties)
}

fn udev_properties(message: &[u8]) -> Result<&[u8], ParseUeventError> {
    let word = |at: usize| -> Result<[u8; 4], ParseUeventError> {
        let bytes = message.get(at..at + 4).ok_or(ParseUeventError::Header)?;
        bytes.try_into().map_err(|_| ParseUeventError::Header)
    };
    if u32::from_be_bytes(word(8)?) != UDEV_MAGIC {
        return Err(ParseUeventError::Header);
    }
    let number = |at| Ok(u32::from_ne_bytes(word(at)?) as usize);
    let (start, length) = (number(16)?, number(20)?);
    let end = start.checked_add(length).ok_or(ParseUeventError::Header)?;
    message.get(start..end).ok_or(ParseUeventError::Header)
}
