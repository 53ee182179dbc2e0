//! Entries as a reader gets them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::file::{EntryObject, JournalFile, ReadError, skip_damage};
use crate::format::Id128;

/// An entry of a journal. It keeps its file open, so its fields can be read at any time, also after
/// the file was deleted.
#[derive(Debug, Clone)]
pub struct Entry {
    file: Arc<JournalFile>,
    object: EntryObject,
}

impl Entry {
    pub(crate) fn new(file: Arc<JournalFile>, object: EntryObject) -> Self {
        Self { file, object }
    }

    /// The entry's name.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor {
            seqnum_id: Some(self.file.seqnum_id()),
            seqnum: Some(self.object.seqnum),
            boot_id: Some(self.object.boot_id),
            monotonic: Some(self.object.monotonic),
            realtime: Some(self.object.realtime),
            xor_hash: Some(self.object.xor_hash),
        }
    }

    /// Whether this is the entry that `cursor` names, as far as it says.
    #[must_use]
    pub fn is_at(&self, cursor: &Cursor) -> bool {
        fn agrees<T: PartialEq>(wanted: Option<T>, found: Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let own = self.cursor();
        // Numbers of another source say nothing.
        let same_source = agrees(cursor.seqnum_id, own.seqnum_id);
        (!same_source || agrees(cursor.seqnum, own.seqnum))
            && agrees(cursor.boot_id, own.boot_id)
            && agrees(cursor.monotonic, own.monotonic)
            && agrees(cursor.realtime, own.realtime)
            && agrees(cursor.xor_hash, own.xor_hash)
    }

    /// The sequence number.
    #[must_use]
    pub fn seqnum(&self) -> u64 {
        self.object.seqnum
    }

    /// Microseconds since 1970.
    #[must_use]
    pub fn realtime(&self) -> u64 {
        self.object.realtime
    }

    /// Microseconds since the boot.
    #[must_use]
    pub fn monotonic(&self) -> u64 {
        self.object.monotonic
    }

    /// The boot.
    #[must_use]
    pub fn boot_id(&self) -> Id128 {
        self.object.boot_id
    }

    /// Calls `each` with every field, `NAME=value`, until it returns false.
    ///
    /// # Errors
    /// When a field cannot be read. Use [`fields_lossy`](Self::fields_lossy) to step over damage.
    pub fn each_field(&self, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), ReadError> {
        let fail = |fault| self.file.fail(fault);
        for offset in self.file.items(&self.object).map_err(fail)? {
            let payload = self
                .file
                .data(offset)
                .and_then(|data| self.file.payload(&data))
                .map_err(fail)?;
            if !each(&payload) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with the first `max` bytes of every field that can be read, `NAME=value`, and with how long it is in
    /// all, until it returns false. For whoever must not be made to use memory, or to stop, by what is in a log.
    ///
    /// # Errors
    /// When the disk refuses. Damage is stepped over.
    pub fn each_field_start(
        &self,
        max: usize,
        mut each: impl FnMut(&[u8], u64) -> bool,
    ) -> Result<(), ReadError> {
        let items = skip_damage(self.file.items(&self.object));
        let items = items.map_err(|fault| self.file.fail(fault))?;
        for offset in items.unwrap_or_default() {
            let start = self
                .file
                .data(offset)
                .and_then(|data| self.file.payload_start(&data, max));
            let start = skip_damage(start).map_err(|fault| self.file.fail(fault))?;
            if let Some((start, length)) = start
                && !each(&start, length)
            {
                break;
            }
        }
        Ok(())
    }

    /// All fields, each `NAME=value`, in the order in which they stand in the file.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn fields(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut fields = Vec::new();
        self.each_field(|field| {
            fields.push(field.to_vec());
            true
        })?;
        Ok(fields)
    }

    /// All fields that can be read, and how many cannot.
    #[must_use]
    pub fn fields_lossy(&self) -> (Vec<Vec<u8>>, usize) {
        let Ok(items) = self.file.items(&self.object) else {
            return (Vec::new(), 1);
        };
        let total = items.len();
        let fields: Vec<_> = items
            .into_iter()
            .filter_map(|offset| {
                self.file
                    .data(offset)
                    .and_then(|data| self.file.payload(&data))
                    .ok()
            })
            .collect();
        let lost = total - fields.len();
        (fields, lost)
    }

    /// The value of the first field with this name.
    ///
    /// # Errors
    /// When a field before it cannot be read.
    pub fn field(&self, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let mut value = None;
        self.each_field(|field| {
            value = field
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(b"="))
                .map(<[u8]>::to_vec);
            value.is_none()
        })?;
        Ok(value)
    }
}

/// The order in which journald shows entries: by number if both come from one source, else by time
/// since the boot if both are of one boot, else by wall clock; the checksum breaks ties.
pub(crate) fn order(
    (a_source, a): (Id128, &EntryObject),
    (b_source, b): (Id128, &EntryObject),
) -> Ordering {
    if a_source == b_source && a.seqnum != b.seqnum {
        return a.seqnum.cmp(&b.seqnum);
    }
    if a.boot_id == b.boot_id && a.monotonic != b.monotonic {
        return a.monotonic.cmp(&b.monotonic);
    }
    a.realtime
        .cmp(&b.realtime)
        .then(a.xor_hash.cmp(&b.xor_hash))
}
