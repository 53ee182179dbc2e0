//! Where the kernel keeps what a program about files has to look at.
//!
//! The kernel describes its own types in BTF: a header, then one record after the other, then the names. Records refer to each
//! other by their place in that order, so that all of them have to be walked over; only a few are looked at.

/// Most bytes of a description that are looked at; real ones take five megabytes.
pub const MAX_BTF: usize = 64 << 20;
const MAGIC: u16 = 0xeb9f;
/// Magic, version, flags and length of the header; then four numbers that say where the two parts are.
const HEADER: usize = 24;
/// The hook's function, and the structures from an open file to its file system with the members that lead there.
const FUNCTION: &[u8] = b"bpf_lsm_file_open";
const FILE: (&[u8], &[u8]) = (b"file", b"f_inode");
const INODE: (&[u8], &[u8]) = (b"inode", b"i_sb");
const SUPER_BLOCK: (&[u8], &[u8]) = (b"super_block", b"s_magic");

/// What a program has to know of the kernel that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// The number by which the kernel knows the function that asks whether a file may be opened.
    pub function: u32,
    /// Where a file has its inode, in bytes.
    pub inode: i16,
    /// Where an inode has its file system.
    pub super_block: i16,
    /// Where a file system has the number of its kind.
    pub magic: i16,
}

/// A description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// It is none, of another byte order or damaged.
    #[error("the kernel's description of its types cannot be read: {0}")]
    Damaged(&'static str),
    /// Something is not in it.
    #[error("the kernel has no {0}")]
    Missing(&'static str),
}

impl FileLayout {
    /// Looks for everything in a description of the kernel's types.
    ///
    /// # Errors
    /// It is damaged, or the kernel lacks something.
    pub fn read(btf: &[u8]) -> Result<Self, LayoutError> {
        let (types, names) = parts(btf)?;
        let mut found = Found::default();
        let mut rest = types;
        // Number 0 stands for nothing and has no record.
        let mut number: u32 = 0;
        while !rest.is_empty() {
            number = number.saturating_add(1);
            let record = Record::take(&mut rest)?;
            found.look_at(number, &record, names);
        }
        let missing = LayoutError::Missing;
        Ok(Self {
            function: found
                .function
                .ok_or(missing("hook for files that are opened"))?,
            inode: found.inode.ok_or(missing("inode of a file"))?,
            super_block: found
                .super_block
                .ok_or(missing("file system of an inode"))?,
            magic: found.magic.ok_or(missing("number of a file system"))?,
        })
    }
}

#[derive(Default)]
struct Found {
    function: Option<u32>,
    inode: Option<i16>,
    super_block: Option<i16>,
    magic: Option<i16>,
}

impl Found {
    fn look_at(&mut self, number: u32, record: &Record<'_>, names: &[u8]) {
        let is = |name: &[u8]| names_it(names, record.name, name);
        match record.kind {
            Kind::Function if self.function.is_none() && is(FUNCTION) => {
                self.function = Some(number);
            }
            Kind::Structure => {
                let wanted = [
                    (FILE, &mut self.inode),
                    (INODE, &mut self.super_block),
                    (SUPER_BLOCK, &mut self.magic),
                ];
                for ((structure, member), place) in wanted {
                    if place.is_none() && is(structure) {
                        *place = record.member(names, member);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The records, and the names.
fn parts(btf: &[u8]) -> Result<(&[u8], &[u8]), LayoutError> {
    let damaged = LayoutError::Damaged;
    if btf.len() > MAX_BTF {
        return Err(damaged("it is too large"));
    }
    let short = || damaged("it ends early");
    let magic = btf.first_chunk().ok_or_else(short)?;
    if u16::from_ne_bytes(*magic) != MAGIC {
        return Err(damaged("it begins with other bytes"));
    }
    let number = |at: usize| word(btf, at).ok_or_else(short);
    let header = number(4)?;
    if header < HEADER {
        return Err(damaged("its header is too short"));
    }
    let part = |offset: usize, length: usize| -> Result<&[u8], LayoutError> {
        let start = header.checked_add(number(offset)?).ok_or_else(short)?;
        let end = start.checked_add(number(length)?).ok_or_else(short)?;
        btf.get(start..end).ok_or_else(short)
    };
    Ok((part(8, 12)?, part(16, 20)?))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_ne_bytes(*word)).ok()
}

fn names_it(names: &[u8], at: usize, name: &[u8]) -> bool {
    let text = names.get(at..).and_then(|rest| rest.strip_prefix(name));
    text.is_some_and(|rest| rest.first() == Some(&0))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Structure,
    Function,
    Other,
}

/// One record.
struct Record<'a> {
    name: usize,
    kind: Kind,
    /// Places of members are counted in bits, beside a width in the upper byte.
    has_widths: bool,
    members: &'a [u8],
}

const MEMBER: usize = 12;
/// Name, kind and count, size or type.
const FIXED: usize = 12;

impl<'a> Record<'a> {
    /// Takes the first of several records.
    fn take(rest: &mut &'a [u8]) -> Result<Self, LayoutError> {
        let damaged = LayoutError::Damaged;
        let bytes = *rest;
        let short = || damaged("a record ends early");
        let name = word(bytes, 0).ok_or_else(short)?;
        let what = word(bytes, 4).ok_or_else(short)?;
        let count = what & 0xffff;
        let kind = what >> 24 & 0x1f;
        // What follows a record depends on its kind alone.
        let follows = match kind {
            // Pointers, forward declarations, other names, const, volatile, restrict, functions, floats, tags of types.
            2 | 7..=12 | 16 | 18 => 0,
            // Integers, variables, tags of declarations.
            1 | 14 | 17 => 4,
            // Arrays.
            3 => 12,
            // Structures, unions, sections of data, enumerations of 64 bits.
            4 | 5 | 15 | 19 => count * MEMBER,
            // Enumerations, prototypes of functions.
            6 | 13 => count * 8,
            _ => return Err(damaged("it has a record of an unknown kind")),
        };
        let members = bytes.get(FIXED..FIXED + follows).ok_or_else(short)?;
        *rest = bytes.get(FIXED + follows..).ok_or_else(short)?;
        Ok(Self {
            name,
            kind: match kind {
                4 => Kind::Structure,
                12 => Kind::Function,
                _ => Kind::Other,
            },
            has_widths: what >> 31 == 1,
            members,
        })
    }

    /// Where a structure has a member, in bytes.
    fn member(&self, names: &[u8], wanted: &[u8]) -> Option<i16> {
        let mut members = self.members.chunks_exact(MEMBER);
        let member =
            members.find(|member| word(member, 0).is_some_and(|at| names_it(names, at, wanted)))?;
        let bits = word(member, 8)?;
        let bits = if self.has_widths {
            bits & 0xff_ffff
        } else {
            bits
        };
        (bits % 8 == 0)
            .then(|| i16::try_from(bits / 8).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests;
