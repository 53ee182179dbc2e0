//! One line of `/proc/self/mountinfo`.

use std::borrow::Cow;

use thiserror::Error;

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseMountLineError {
    /// A field is missing.
    #[error("the mount line has no {field}")]
    Missing {
        /// Which.
        field: &'static str,
    },
    /// A number is none.
    #[error("the {field} of the mount line is not a number")]
    Number {
        /// Which.
        field: &'static str,
    },
    /// A text is not UTF-8.
    #[error("the {field} of the mount line is not UTF-8")]
    NotUtf8 {
        /// Which.
        field: &'static str,
    },
}

/// One line, split but not copied. Texts are as the kernel wrote them, with octal escapes.
///
/// ```text
/// 36 35 98:0 /mnt1 /mnt/parent rw,noatime shared:1 - ext3 /dev/root rw,errors=continue
/// id parent device root place  options    optional - type source    options of the file system
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLine<'a> {
    /// The mount's number; used again after it is gone.
    pub id: u64,
    /// The mount that it lies in.
    pub parent: u64,
    /// What of the file system is mounted.
    pub root: &'a [u8],
    /// Where.
    pub place: &'a [u8],
    /// The mount's own options.
    pub options: &'a [u8],
    /// The type of the file system.
    pub fs_type: &'a [u8],
    /// What is mounted.
    pub source: &'a [u8],
    /// The options of the file system.
    pub fs_options: &'a [u8],
}

impl<'a> MountLine<'a> {
    /// Splits a line.
    ///
    /// # Errors
    /// A field is missing or a number is none.
    pub fn parse(line: &'a [u8]) -> Result<Self, ParseMountLineError> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut next = |field| {
            let text = fields.next().filter(|text| !text.is_empty());
            text.ok_or(ParseMountLineError::Missing { field })
        };
        let id = number(next("id")?, "id")?;
        let parent = number(next("parent")?, "parent")?;
        let _device = next("device")?;
        let root = next("root")?;
        let place = next("place")?;
        let options = next("options")?;
        // Any number of tagged fields, ended by a lone hyphen.
        while next("separator")? != b"-" {}
        let fs_type = next("type")?;
        // An empty source is written as nothing at all.
        let source = fields
            .next()
            .ok_or(ParseMountLineError::Missing { field: "source" })?;
        let fs_options = fields.next().unwrap_or_default();
        Ok(Self {
            id,
            parent,
            root,
            place,
            options,
            fs_type,
            source,
            fs_options,
        })
    }
}

pub(super) fn number(text: &[u8], field: &'static str) -> Result<u64, ParseMountLineError> {
    let digits = std::str::from_utf8(text).ok();
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or(ParseMountLineError::Number { field })
}

/// A text with its `\ooo` escapes undone.
pub(super) fn unescape<'a>(
    text: &'a [u8],
    field: &'static str,
) -> Result<Cow<'a, str>, ParseMountLineError> {
    let not_utf8 = ParseMountLineError::NotUtf8 { field };
    if !text.contains(&b'\\') {
        let plain = std::str::from_utf8(text).map_err(|_| not_utf8)?;
        return Ok(Cow::Borrowed(plain));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| not_utf8)
}
