//! Small discs: ISO 9660 with Joliet names, one folder, everything in memory.
//!
//! cloud-init looks for a file system called `cidata` with the files `user-data` and `meta-data`. Plain ISO 9660 has no small
//! letters and no dashes, so the disc has two directories over the same contents: one for readers that know Joliet (Linux does),
//! one that the standard asks for. Times are left out, so that the same documents give the same disc.

use std::ffi::OsStr;

/// Everything is counted in these.
const SECTOR: usize = 2048;
/// The first descriptor; what is before is left to boot loaders.
const FIRST_DESCRIPTOR: usize = 16;
const DESCRIPTORS: usize = 3;
/// Path tables of both directories, in both byte orders, and the directories themselves.
const FIRST_TABLE: usize = FIRST_DESCRIPTOR + DESCRIPTORS;
const DIRECTORIES: usize = FIRST_TABLE + 4;
const FIRST_FILE: usize = DIRECTORIES + 2;
/// The root's entry in a path table.
const PATH_TABLE_LENGTH: u32 = 10;
/// Names of Joliet may be this long.
const LONGEST_NAME: usize = 64;
/// No document for a machine is larger.
pub(crate) const LARGEST_FILE: usize = 16 << 20;
const MOST_FILES: usize = 16;

/// Why there is no such disc.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DiscError {
    #[error("{0:?} cannot be the name of a file on a disc")]
    Name(String),
    #[error("{name} has {length} bytes, more than a disc holds")]
    TooLarge { name: String, length: usize },
    #[error("{0} files are more than a disc holds")]
    TooMany(usize),
}

struct Entry<'a> {
    name: &'a str,
    sector: u32,
    content: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Plain,
    Joliet,
}

/// A disc with these files.
pub(crate) fn disc(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, DiscError> {
    let entries = place(files)?;
    check_name(label)?;
    let sectors = FIRST_FILE + files.iter().map(|(_, it)| sectors(it.len())).sum::<usize>();
    let mut disc = vec![0; sectors * SECTOR];
    for (number, names) in [Names::Plain, Names::Joliet].into_iter().enumerate() {
        let table = FIRST_TABLE + 2 * number;
        let directory = DIRECTORIES + number;
        let descriptor = descriptor(label, names, count(sectors), count(table), count(directory));
        put(&mut disc, FIRST_DESCRIPTOR + number, &descriptor);
        put(
            &mut disc,
            table,
            &path_table(count(directory).to_le_bytes(), [1, 0]),
        );
        put(
            &mut disc,
            table + 1,
            &path_table(count(directory).to_be_bytes(), [0, 1]),
        );
        put(
            &mut disc,
            directory,
            &records(names, count(directory), &entries),
        );
    }
    put(&mut disc, FIRST_DESCRIPTOR + 2, b"\xffCD001\x01");
    for entry in &entries {
        put(&mut disc, entry.sector as usize, entry.content);
    }
    Ok(disc)
}

fn place<'a>(files: &[(&'a str, &'a [u8])]) -> Result<Vec<Entry<'a>>, DiscError> {
    if files.len() > MOST_FILES {
        return Err(DiscError::TooMany(files.len()));
    }
    let mut next = FIRST_FILE;
    let mut entries = Vec::new();
    for &(name, content) in files {
        check_name(name)?;
        if content.len() > LARGEST_FILE {
            return Err(DiscError::TooLarge {
                name: name.to_owned(),
                length: content.len(),
            });
        }
        entries.push(Entry {
            name,
            sector: count(next),
            content,
        });
        next += sectors(content.len());
    }
    // Readers may search for a name.
    entries.sort_by_key(|entry| OsStr::new(entry.name));
    Ok(entries)
}

fn check_name(name: &str) -> Result<(), DiscError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match !name.is_empty() && name.len() <= LONGEST_NAME / 2 && name.bytes().all(letter) {
        true => Ok(()),
        false => Err(DiscError::Name(name.to_owned())),
    }
}

fn sectors(length: usize) -> usize {
    length.div_ceil(SECTOR)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("discs are bounded far below that")
}

fn put(disc: &mut [u8], sector: usize, content: &[u8]) {
    disc[sector * SECTOR..][..content.len()].copy_from_slice(content);
}

/// A number in both byte orders, as the standard wants most of them.
fn both32(number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn both16(number: u16) -> [u8; 4] {
    let [low, high] = number.to_le_bytes();
    [low, high, high, low]
}

/// Text that fills its field with spaces.
fn padded(names: Names, text: &str, length: usize) -> Vec<u8> {
    let mut bytes = encoded(names, text);
    let space: &[u8] = match names {
        Names::Plain => b" ",
        Names::Joliet => b"\0 ",
    };
    while bytes.len() + space.len() <= length {
        bytes.extend(space);
    }
    bytes.resize(length, 0);
    bytes
}

fn encoded(names: Names, text: &str) -> Vec<u8> {
    match names {
        Names::Plain => text.to_ascii_uppercase().into_bytes(),
        Names::Joliet => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    }
}

fn descriptor(label: &str, names: Names, size: u32, table: u32, directory: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SECTOR);
    bytes.push(if names == Names::Plain { 1 } else { 2 });
    bytes.extend(b"CD001\x01\0");
    bytes.extend(padded(names, "LINUX", 32));
    bytes.extend(padded(names, label, 32));
    bytes.extend([0; 8]);
    bytes.extend(both32(size));
    let mut escape = [0; 32];
    if names == Names::Joliet {
        escape[..3].copy_from_slice(b"%/E");
    }
    bytes.extend(escape);
    bytes.extend(both16(1));
    bytes.extend(both16(1));
    bytes.extend(both16(2048));
    bytes.extend(both32(PATH_TABLE_LENGTH));
    bytes.extend(table.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((table + 1).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(record(&[0], directory, count(SECTOR), true));
    bytes.extend(padded(names, "", 128 * 4 + 37 * 3));
    for _ in 0..4 {
        bytes.extend(b"0000000000000000\0");
    }
    bytes.extend([1, 0]);
    bytes
}

fn path_table(directory: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    let mut bytes = vec![1, 0];
    bytes.extend(directory);
    bytes.extend(parent);
    bytes.extend([0, 0]);
    bytes
}

fn records(names: Names, directory: u32, entries: &[Entry<'_>]) -> Vec<u8> {
    let length = count(SECTOR);
    let mut bytes = record(&[0], directory, length, true);
    bytes.extend(record(&[1], directory, length, true));
    for entry in entries {
        let name = match names {
            // The standard asks for a version behind every name, and readers leave it out again.
            Names::Plain => encoded(names, &format!("{}.;1", entry.name.replace('-', "_"))),
            Names::Joliet => encoded(names, entry.name),
        };
        bytes.extend(record(
            &name,
            entry.sector,
            count(entry.content.len()),
            false,
        ));
    }
    bytes
}

fn record(name: &[u8], sector: u32, length: u32, folder: bool) -> Vec<u8> {
    let name_length = u8::try_from(name.len()).expect("names are checked to be short");
    let whole = 33 + name.len() + (name.len() + 1) % 2;
    let mut bytes = vec![
        u8::try_from(whole).expect("names are checked to be short"),
        0,
    ];
    bytes.extend(both32(sector));
    bytes.extend(both32(length));
    bytes.extend([0; 7]);
    bytes.push(if folder { 2 } else { 0 });
    bytes.extend([0, 0]);
    bytes.extend(both16(1));
    bytes.push(name_length);
    bytes.extend(name);
    bytes.resize(whole, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a file of the root folder as a kernel would: descriptor, directory, extent.
    fn read<'a>(disc: &'a [u8], joliet: bool, wanted: &[u8]) -> Option<&'a [u8]> {
        let number = |at: usize| u32::from_le_bytes(disc[at..at + 4].try_into().unwrap()) as usize;
        let descriptor = (FIRST_DESCRIPTOR + usize::from(joliet)) * SECTOR;
        assert_eq!(&disc[descriptor + 1..descriptor + 6], b"CD001");
        let (begin, length) = (number(descriptor + 158) * SECTOR, number(descriptor + 166));
        let mut at = begin;
        while at < begin + length && disc[at] != 0 {
            let name = &disc[at + 33..at + 33 + usize::from(disc[at + 32])];
            if name == wanted {
                return Some(&disc[number(at + 2) * SECTOR..][..number(at + 10)]);
            }
            at += usize::from(disc[at]);
        }
        None
    }

    fn utf16(text: &str) -> Vec<u8> {
        encoded(Names::Joliet, text)
    }

    #[test]
    fn both_directories_lead_to_the_same_files() {
        let long = vec![7; 5000];
        let disc = disc("cidata", &[("user-data", &long), ("meta-data", b"x")]).unwrap();
        assert_eq!(read(&disc, true, &utf16("user-data")), Some(&long[..]));
        assert_eq!(read(&disc, true, &utf16("meta-data")), Some(&b"x"[..]));
        assert_eq!(read(&disc, false, b"USER_DATA.;1"), Some(&long[..]));
        assert_eq!(read(&disc, true, &utf16("other")), None);
        assert_eq!(disc.len() % SECTOR, 0);
        // The label, where programs that look for it read it.
        assert_eq!(&disc[0x8028..0x8030], b"CIDATA  ");
    }

    #[test]
    fn what_a_disc_cannot_hold_is_refused() {
        for name in ["", "a b", "a/b", "..", "ü", &"a".repeat(33)] {
            assert!(
                matches!(disc("cidata", &[(name, b"")]), Err(DiscError::Name(_))),
                "{name}"
            );
        }
        let large = vec![0; LARGEST_FILE + 1];
        assert!(matches!(
            disc("cidata", &[("a", &large)]),
            Err(DiscError::TooLarge { .. })
        ));
        assert_eq!(
            disc("cidata", &[("a", &b""[..]); 17]),
            Err(DiscError::TooMany(17))
        );
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(files in proptest::collection::btree_map("[a-z][a-z0-9-]{0,20}", proptest::collection::vec(any::<u8>(), 0..6000), 0..8)) {
            let list: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
            let disc = disc("cidata", &list).unwrap();
            for (name, content) in &files {
                prop_assert_eq!(read(&disc, true, &utf16(name)), Some(content.as_slice()));
            }
        }
    }
}
