//! Fields of messages: written into and read from a fixed buffer.

use std::fmt;

use crate::{MAX_MESSAGE, MAX_NAME};

/// Why a message could not be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is longer than [`MAX_MESSAGE`].
    #[error("a message has more than {MAX_MESSAGE} bytes")]
    TooLong,
    /// It ends within a field.
    #[error("a message of kind {kind} ends too early, at byte {at}")]
    Truncated {
        /// The kind of the message; 0 if even that is missing.
        kind: u16,
        /// Where the field begins that is not complete.
        at: usize,
    },
    /// A text is not UTF-8.
    #[error("a text in a message of kind {kind} is not UTF-8")]
    NotText {
        /// The kind of the message.
        kind: u16,
    },
    /// A name is empty or too long.
    #[error("a name in a message of kind {kind} has {length} bytes")]
    BadName {
        /// The kind of the message.
        kind: u16,
        /// The length of the name.
        length: usize,
    },
    /// A field has a value without a meaning.
    #[error("a field of a message of kind {kind} has the unknown value {value}")]
    UnknownValue {
        /// The kind of the message.
        kind: u16,
        /// The value.
        value: u8,
    },
}

/// Why a name cannot be used for a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name of a descriptor has {length} bytes; 1 to {MAX_NAME} are allowed")]
pub struct NameError {
    /// The length of the name.
    pub length: usize,
}

/// Whether a name can be used for a descriptor.
pub(crate) fn check_name(name: &str) -> Result<(), NameError> {
    let length = name.len();
    if (1..=MAX_NAME).contains(&length) {
        Ok(())
    } else {
        Err(NameError { length })
    }
}

/// A message that is being written.
pub(crate) struct Payload {
    bytes: [u8; MAX_MESSAGE],
    length: usize,
}

/// Where the number of elements of a list stands.
pub(crate) struct Count {
    at: usize,
    number: u16,
}

impl Payload {
    pub(crate) fn new(kind: u16) -> Self {
        let mut payload = Self {
            bytes: [0; MAX_MESSAGE],
            length: 0,
        };
        payload.u16(kind);
        payload
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the bytes, or leaves the message as it is when they do not fit.
    #[must_use]
    fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(space) = self.bytes.get_mut(self.length..self.length + bytes.len()) else {
            return false;
        };
        space.copy_from_slice(bytes);
        self.length += bytes.len();
        true
    }

    /// Fields of fixed size. The callers write a few dozen bytes of them into an empty message.
    fn fixed(&mut self, bytes: &[u8]) {
        let fits = self.append(bytes);
        debug_assert!(fits, "fixed fields fill a message");
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.fixed(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.fixed(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.fixed(&value.to_le_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.fixed(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.fixed(&value.to_le_bytes());
    }

    /// Appends a text, or leaves the message as it is when the text does not fit.
    #[must_use]
    pub(crate) fn text(&mut self, text: &str) -> bool {
        let before = self.length;
        let Ok(length) = u16::try_from(text.len()) else {
            return false;
        };
        let fits = self.append(&length.to_le_bytes()) && self.append(text.as_bytes());
        if !fits {
            self.length = before;
        }
        fits
    }

    /// Begins a list without elements.
    pub(crate) fn list(&mut self) -> Count {
        let at = self.length;
        self.u16(0);
        Count { at, number: 0 }
    }

    /// Adds one to the number of elements of a list.
    pub(crate) fn count(&mut self, count: &mut Count) {
        count.number += 1;
        self.bytes[count.at..count.at + 2].copy_from_slice(&count.number.to_le_bytes());
    }

    /// How many bytes still fit.
    pub(crate) fn room(&self) -> usize {
        MAX_MESSAGE - self.length
    }
}

/// A message that is being read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    kind: u16,
}

impl<'a> Reader<'a> {
    /// Reads the kind.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(DecodeError::TooLong);
        }
        let mut reader = Self {
            bytes,
            at: 0,
            kind: 0,
        };
        reader.kind = reader.u16()?;
        Ok(reader)
    }

    pub(crate) fn kind(&self) -> u16 {
        self.kind
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self
            .at
            .checked_add(length)
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or(DecodeError::Truncated {
                kind: self.kind,
                at: self.at,
            })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.u16()?;
        let bytes = self.take(usize::from(length))?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotText { kind: self.kind })
    }

    pub(crate) fn name(&mut self) -> Result<&'a str, DecodeError> {
        let name = self.text()?;
        check_name(name).map_err(|error| DecodeError::BadName {
            kind: self.kind,
            length: error.length,
        })?;
        Ok(name)
    }

    pub(crate) fn unknown_value(&self, value: u8) -> DecodeError {
        DecodeError::UnknownValue {
            kind: self.kind,
            value,
        }
    }
}

/// A list of names, all of them checked.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    first: Reader<'a>,
    number: u16,
}

impl<'a> Names<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = reader.u16()?;
        let first = *reader;
        for _ in 0..number {
            reader.name()?;
        }
        Ok(Self { first, number })
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        usize::from(self.number)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// The names, in the order in which they were sent.
    pub fn iter(&self) -> NamesIter<'a> {
        NamesIter {
            next: self.first,
            left: self.number,
        }
    }
}

impl<'a> IntoIterator for Names<'a> {
    type Item = &'a str;
    type IntoIter = NamesIter<'a>;

    fn into_iter(self) -> NamesIter<'a> {
        self.iter()
    }
}

impl PartialEq for Names<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Names<'_> {}

impl fmt::Debug for Names<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`Names`].
#[derive(Clone)]
pub struct NamesIter<'a> {
    next: Reader<'a>,
    left: u16,
}

impl<'a> Iterator for NamesIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        // The list was read once before, so this does not fail.
        self.next.name().ok()
    }
}

impl fmt::Debug for NamesIter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.clone()).finish()
    }
}
