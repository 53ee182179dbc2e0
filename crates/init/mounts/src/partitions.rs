//! Which file systems are where in a disk image: its partition table, of which no byte is trusted.
//!
//! [`read_head`] looks at the first bytes of an image. A GPT has its list of partitions somewhere else, so whoever reads
//! the image asks [`Gpt::list`] where, and gives what is there to [`Gpt::partitions`]. [`choose`] says what of all that is
//! mounted. Nothing here reads anything, and no table makes it take more than [`MAX_LIST`] bytes.

mod types;

use crate::image::Part;
use types::{LINUX, part_of};

pub(crate) use types::architecture;

/// How many bytes of the beginning of an image show which table it has.
pub const HEAD: usize = 8192;
/// How long a list of partitions may be: a usual one has 16 KiB.
pub const MAX_LIST: usize = 1 << 20;

/// The sizes of a sector, one of which all numbers of a GPT count.
const SECTORS: [u64; 2] = [512, 4096];
const SIGNATURE: &[u8] = b"EFI PART";
/// The least that a header and an entry can have.
const MIN_HEADER: usize = 92;
const MIN_ENTRY: usize = 128;
const MAX_ENTRY: usize = 4096;
/// Attributes of partitions that are mounted without being asked for.
const READ_ONLY: u64 = 1 << 60;
const LEFT_ALONE: u64 = 1 << 63;
/// The name of a partition that has a place, but no content yet.
const EMPTY: &str = "_empty";

/// What is at the beginning of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// No partition table.
    Nothing,
    /// All partitions of the older kind of table that Linux can use.
    Partitions(Vec<Partition>),
    /// A table of the newer kind, whose list is still to be read.
    Gpt(Gpt),
}

/// The beginning of a GPT, which says where its list of partitions is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpt {
    sector: u64,
    /// Of the image.
    size: u64,
    list: u64,
    list_length: usize,
    entry: usize,
    checksum: u32,
}

/// A partition that may hold a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// What it is for; `None` does not say.
    pub part: Option<Part>,
    /// Its first byte in the image.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Nobody writes there.
    pub read_only: bool,
}

/// A partition that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What it is for.
    pub part: Part,
    /// Its first byte in the image.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Nobody writes there.
    pub read_only: bool,
}

/// The partitions of an image cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A table that nobody writes like that.
    #[error("its partition table is damaged: {0}")]
    Damaged(&'static str),
    /// Nothing to mount.
    #[error("it has no partition for the root of a system on this kind of machine")]
    NoRoot,
    /// Too much to mount.
    #[error("it has several partitions that could be {}", .0.folder())]
    Several(Part),
}

/// Which partition table an image of this size has, by its first [`HEAD`] bytes, or all that it has.
///
/// # Errors
/// It has one that is damaged.
pub fn read_head(head: &[u8], size: u64) -> Result<Table, TableError> {
    for sector in SECTORS {
        let start = usize::try_from(sector).unwrap_or(usize::MAX);
        let header = head.get(start..).unwrap_or_default();
        if header.starts_with(SIGNATURE) {
            return Gpt::read(header, sector, size).map(Table::Gpt);
        }
    }
    read_old(head, size)
}

/// The table of the first computers with disks.
fn read_old(head: &[u8], size: u64) -> Result<Table, TableError> {
    const ENTRIES: usize = 446;
    const ENTRY: usize = 16;
    const FOR_LINUX: u8 = 0x83;
    const GPT_FOLLOWS: u8 = 0xEE;
    if head.get(510..512) != Some(&[0x55, 0xAA]) {
        return Ok(Table::Nothing);
    }
    let mut partitions = Vec::new();
    for entry in head[ENTRIES..510].chunks_exact(ENTRY) {
        let (kind, first, count) = (entry[4], number(entry, 8, 4), number(entry, 12, 4));
        match kind {
            GPT_FOLLOWS => return Err(TableError::Damaged("it announces a GPT, and has none")),
            FOR_LINUX => {
                let range = extent(first, count, SECTORS[0], size)?;
                partitions.push(Partition {
                    part: None,
                    offset: range.0,
                    size: range.1,
                    read_only: false,
                });
            }
            _ => {}
        }
    }
    Ok(Table::Partitions(partitions))
}

impl Gpt {
    fn read(header: &[u8], sector: u64, size: u64) -> Result<Self, TableError> {
        let damaged = TableError::Damaged;
        if header.len() < MIN_HEADER {
            return Err(damaged("its header is cut off"));
        }
        let length = usize::try_from(number(header, 12, 4)).unwrap_or(usize::MAX);
        let whole = header.get(..length).filter(|_| {
            length >= MIN_HEADER && u64::try_from(length).is_ok_and(|length| length <= sector)
        });
        let whole = whole.ok_or(damaged("its header has an impossible length"))?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&whole[..16]);
        hasher.update(&[0; 4]);
        hasher.update(&whole[20..]);
        if u64::from(hasher.finalize()) != number(whole, 16, 4) {
            return Err(damaged("the checksum of its header is wrong"));
        }
        if number(whole, 24, 8) != 1 {
            return Err(damaged("its header is not where it says"));
        }
        let count = usize::try_from(number(whole, 80, 4)).unwrap_or(usize::MAX);
        let entry = usize::try_from(number(whole, 84, 4)).unwrap_or(usize::MAX);
        if !(MIN_ENTRY..=MAX_ENTRY).contains(&entry) || !entry.is_multiple_of(8) {
            return Err(damaged("its entries have an impossible size"));
        }
        let list_length = count.checked_mul(entry).filter(|all| *all <= MAX_LIST);
        let list_length = list_length.ok_or(damaged("its list is too long"))?;
        let list = number(whole, 72, 8).checked_mul(sector);
        let list = list.filter(|start| {
            let length = u64::try_from(list_length).ok();
            let end = length.and_then(|length| start.checked_add(length));
            end.is_some_and(|end| end <= size)
        });
        Ok(Self {
            sector,
            size,
            list: list.ok_or(damaged("its list is outside of the image"))?,
            list_length,
            entry,
            checksum: u32::try_from(number(whole, 88, 4)).unwrap_or(0),
        })
    }

    /// Where the list of partitions is in the image, and how long it is.
    #[must_use]
    pub fn list(&self) -> (u64, usize) {
        (self.list, self.list_length)
    }

    /// The partitions that may hold a file system for this machine, given the list.
    ///
    /// # Errors
    /// The list is damaged, or has one that is not in the image.
    pub fn partitions(&self, list: &[u8]) -> Result<Vec<Partition>, TableError> {
        if list.len() != self.list_length || crc32fast::hash(list) != self.checksum {
            return Err(TableError::Damaged("the checksum of its list is wrong"));
        }
        let mut partitions = Vec::new();
        for entry in list.chunks_exact(self.entry) {
            let part = match part_of(&entry[..16]) {
                Some(part) => Some(part),
                None if entry[..16] == LINUX => None,
                None => continue,
            };
            let attributes = number(entry, 48, 8);
            if attributes & LEFT_ALONE != 0 || is_named(entry, EMPTY) {
                continue;
            }
            let (first, last) = (number(entry, 32, 8), number(entry, 40, 8));
            let count = last
                .checked_sub(first)
                .and_then(|count| count.checked_add(1));
            let count = count.ok_or(TableError::Damaged("a partition ends before it begins"))?;
            let (offset, size) = extent(first, count, self.sector, self.size)?;
            partitions.push(Partition {
                part,
                offset,
                size,
                read_only: attributes & READ_ONLY != 0,
            });
        }
        Ok(partitions)
    }
}

/// Whether an entry has this name, in the two bytes for each letter that it is written in.
fn is_named(entry: &[u8], name: &str) -> bool {
    let letters = entry[56..MIN_ENTRY].as_chunks::<2>().0.iter();
    let letters = letters
        .map(|letter| u16::from_le_bytes(*letter))
        .take_while(|letter| *letter != 0);
    letters.eq(name.encode_utf16())
}

/// The bytes of a partition, which must be in the image and after its first sector.
fn extent(first: u64, count: u64, sector: u64, image: u64) -> Result<(u64, u64), TableError> {
    let (offset, size) = (first.checked_mul(sector), count.checked_mul(sector));
    let (Some(offset @ 1..), Some(size @ 1..)) = (offset, size) else {
        return Err(TableError::Damaged("a partition has no place"));
    };
    match offset.checked_add(size) {
        Some(end) if end <= image => Ok((offset, size)),
        _ => Err(TableError::Damaged("a partition ends behind the image")),
    }
}

/// The number in some bytes, the lowest first. All callers have checked that they are there.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(length);
    bytes.rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Which partitions are mounted, the root first: those that say what they are for, and one that does not where it is the
/// only one and there is no other root. Of several for something else than the system the first counts.
///
/// # Errors
/// There is no root, or several, or partitions overlap.
pub fn choose(partitions: &[Partition]) -> Result<Vec<Chosen>, TableError> {
    let mut chosen: Vec<Chosen> = Vec::new();
    for partition in partitions {
        let Some(part) = partition.part else { continue };
        let is_known = chosen.iter().any(|known| known.part == part);
        match part {
            Part::Root | Part::Usr if is_known => return Err(TableError::Several(part)),
            _ if is_known => {}
            _ => chosen.push(partition.serving(part)),
        }
    }
    if chosen.iter().all(|known| known.part != Part::Root) {
        let mut others = partitions.iter().filter(|other| other.part.is_none());
        match (others.next(), others.next()) {
            (Some(only), None) => chosen.push(only.serving(Part::Root)),
            (Some(_), Some(_)) => return Err(TableError::Several(Part::Root)),
            (None, _) => return Err(TableError::NoRoot),
        }
    }
    chosen.sort_unstable_by_key(|chosen| chosen.offset);
    // Two file systems in one place would write over each other.
    let overlap = |two: &[Chosen]| two[0].offset + two[0].size > two[1].offset;
    if chosen.windows(2).any(overlap) {
        return Err(TableError::Damaged("partitions overlap"));
    }
    chosen.sort_unstable_by_key(|chosen| chosen.part);
    Ok(chosen)
}

impl Partition {
    fn serving(&self, part: Part) -> Chosen {
        Chosen {
            part,
            offset: self.offset,
            size: self.size,
            read_only: self.read_only,
        }
    }
}

#[cfg(test)]
mod tests;
