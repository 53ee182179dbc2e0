//! A checksum of a whole tree, so that damage of an unpacked layer is noticed.
//!
//! The seal covers names, kinds, modes, owners, sizes, link targets, device numbers, extended attributes and content. Content goes
//! in as CRC-32 per file: this is about disks that forget, not about people (who could as well change the database), and it costs
//! a tenth of a cryptographic hash on small machines. Times are left out.
//!
//! Names are taken in order, and a layer may put a million of them into one folder. So only as many are held at a time as
//! [`MAX_NAMES_BYTES`] allows for; of a larger folder the next ones are picked by reading it again.

use std::collections::BinaryHeap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use sha2::{Digest as _, Sha256};

use crate::imprint;

const BUFFER: usize = 64 << 10;
/// The kernel allows no more for one list of names or one value.
const MAX_XATTR: usize = 64 << 10;
/// For names that are held at a time, of all folders that are being walked. Each takes half of what is left, so that its
/// folders have something, too.
const MAX_NAMES_BYTES: usize = 4 << 20;
/// What a folder has for its names however deep it is: some hundreds of them.
const MIN_NAMES_BYTES: usize = 32 << 10;

/// A tree as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) seal: [u8; 32],
    /// Of disk; a file with several names counts once.
    pub(crate) bytes: u64,
}

/// Is told about every piece that was read, and may end the walk.
pub(crate) trait Pace {
    fn read(&mut self, bytes: usize) -> io::Result<()>;
}

/// As fast as it goes.
pub(crate) struct Unhurried;

impl Pace for Unhurried {
    fn read(&mut self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }
}

/// Walks a tree, one folder open per level. Links are not followed.
pub(crate) fn seal(root: &Path, pace: &mut dyn Pace) -> io::Result<Sealed> {
    seal_within(root, pace, MAX_NAMES_BYTES, MIN_NAMES_BYTES)
}

fn seal_within(root: &Path, pace: &mut dyn Pace, most: usize, least: usize) -> io::Result<Sealed> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = fs::openat(CWD, root, flags, Mode::empty())?;
    let mut walk = Walk {
        hasher: Sha256::new(),
        bytes: 0,
        buffer: vec![0; BUFFER],
        pace,
    };
    let stat = fs::fstat(&root)?;
    walk.note(b"", &stat);
    walk.xattrs(root.as_fd(), &[imprint::TRUSTED, imprint::USER])?;
    let mut left = most;
    let enter = |folder, left: &mut usize| {
        let frame = Frame::new(folder, *left / 2, least);
        *left -= *left / 2;
        frame
    };
    let mut stack = vec![enter(root, &mut left)?];
    while let Some(frame) = stack.last_mut() {
        let Some(name) = frame.next()? else {
            left += frame.taken;
            stack.pop();
            // Marks the end of a folder, so that a file cannot move to another level unnoticed.
            walk.hasher.update(b"<");
            continue;
        };
        if let Some(folder) = walk.entry(frame.folder.as_fd(), &name)? {
            stack.push(enter(folder, &mut left)?);
        }
    }
    Ok(Sealed {
        seal: walk.hasher.finalize().into(),
        bytes: walk.bytes,
    })
}

/// A folder that is being walked.
struct Frame {
    folder: OwnedFd,
    /// The next names, the last one first to come.
    names: Vec<CString>,
    /// Where to go on when they are used up: the folder has more names than fitted.
    more_after: Option<CString>,
    /// Bytes that it took of those for all folders.
    taken: usize,
    /// Bytes that its names may take.
    share: usize,
}

impl Frame {
    fn new(folder: OwnedFd, taken: usize, least: usize) -> io::Result<Self> {
        let share = taken.max(least);
        let (names, more_after) = next_names(&folder, None, share)?;
        Ok(Self {
            folder,
            names,
            more_after,
            taken,
            share,
        })
    }

    fn next(&mut self) -> io::Result<Option<CString>> {
        if self.names.is_empty()
            && let Some(after) = self.more_after.take()
        {
            (self.names, self.more_after) = next_names(&self.folder, Some(&after), self.share)?;
        }
        Ok(self.names.pop())
    }
}

/// What a name takes: its bytes, its place in the list, and what an allocator adds.
fn cost(name: &CString) -> usize {
    name.as_bytes_with_nul().len() + 40
}

/// The first names after this one that fit, in reverse; and the last of them, if there are more.
fn next_names(
    folder: &OwnedFd,
    after: Option<&CString>,
    share: usize,
) -> io::Result<(Vec<CString>, Option<CString>)> {
    let (mut first, mut held, mut has_more) = (BinaryHeap::<CString>::new(), 0, false);
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_before = after.is_some_and(|after| name <= after.as_c_str());
        if is_before || name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        if has_more && first.peek().is_some_and(|last| name > last.as_c_str()) {
            continue;
        }
        let name = name.to_owned();
        held += cost(&name);
        first.push(name);
        while held > share && first.len() > 1 {
            held -= first.pop().as_ref().map_or(0, cost);
            has_more = true;
        }
    }
    let mut names = first.into_sorted_vec();
    let more_after = names.last().filter(|_| has_more).cloned();
    names.reverse();
    Ok((names, more_after))
}

struct Walk<'p> {
    hasher: Sha256,
    bytes: u64,
    buffer: Vec<u8>,
    pace: &'p mut dyn Pace,
}

impl Walk<'_> {
    /// Takes an entry in, and returns it if it is a folder to be walked.
    fn entry(&mut self, folder: BorrowedFd<'_>, name: &CString) -> io::Result<Option<OwnedFd>> {
        let stat = fs::statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        self.note(name.as_bytes(), &stat);
        let open = |more| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
            fs::openat(folder, name.as_c_str(), flags, Mode::empty())
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let folder = open(OFlags::DIRECTORY)?;
                self.xattrs(folder.as_fd(), &[])?;
                Ok(Some(folder))
            }
            FileType::RegularFile => {
                let file = open(OFlags::NONBLOCK)?;
                self.xattrs(file.as_fd(), &[])?;
                self.content(File::from(file))?;
                Ok(None)
            }
            FileType::Symlink => {
                let target = fs::readlinkat(folder, name.as_c_str(), Vec::new())?;
                self.field(target.as_bytes());
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn note(&mut self, name: &[u8], stat: &Stat) {
        self.field(name);
        let size = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => stat.st_size,
            // Of folders and links the size is the file system's affair.
            _ => 0,
        };
        for number in [
            u64::from(stat.st_mode),
            u64::from(stat.st_uid),
            u64::from(stat.st_gid),
        ] {
            self.hasher.update(number.to_le_bytes());
        }
        self.hasher.update(size.to_le_bytes());
        self.hasher.update(stat.st_rdev.to_le_bytes());
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        let names = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => 1,
            _ => u64::from(u32::try_from(stat.st_nlink).unwrap_or(u32::MAX)).max(1),
        };
        self.bytes = self.bytes.saturating_add(blocks / names);
    }

    /// Its length goes first, so that two fields cannot be told as one.
    fn field(&mut self, bytes: &[u8]) {
        self.hasher.update((bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
    }

    fn content(&mut self, mut file: File) -> io::Result<()> {
        let mut checksum = crc32fast::Hasher::new();
        loop {
            let length = file.read(&mut self.buffer)?;
            if length == 0 {
                break;
            }
            checksum.update(&self.buffer[..length]);
            self.pace.read(length)?;
        }
        self.hasher.update(checksum.finalize().to_le_bytes());
        Ok(())
    }

    fn xattrs(&mut self, of: BorrowedFd<'_>, except: &[&str]) -> io::Result<()> {
        let mut list = vec![0; MAX_XATTR];
        let length = match fs::flistxattr(of, list.as_mut_slice()) {
            Err(rustix::io::Errno::NOTSUP) => 0,
            found => found?,
        };
        let mut names: Vec<&[u8]> = list[..length]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .filter(|name| !except.iter().any(|except| except.as_bytes() == *name))
            .collect();
        names.sort_unstable();
        let mut value = vec![0; if names.is_empty() { 0 } else { MAX_XATTR }];
        for name in names {
            let length = fs::fgetxattr(of, OsStr::from_bytes(name), value.as_mut_slice())?;
            self.field(name);
            self.hasher.update((length as u64).to_le_bytes());
            self.hasher.update(&value[..length]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs as std_fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std_fs::create_dir_all(root.join("a/b")).unwrap();
        std_fs::write(root.join("a/b/file"), vec![7; 200_000]).unwrap();
        std_fs::write(root.join("a/empty"), "").unwrap();
        symlink("b/file", root.join("a/link")).unwrap();
        std_fs::hard_link(root.join("a/b/file"), root.join("a/same")).unwrap();
        folder
    }

    fn sealed(folder: &tempfile::TempDir) -> Sealed {
        seal(folder.path(), &mut Unhurried).unwrap()
    }

    #[test]
    fn equal_trees_have_equal_seals_and_two_names_of_a_file_count_once() {
        let (one, two) = (sealed(&tree()), sealed(&tree()));
        assert_eq!(one, two);
        assert!((200_000..400_000).contains(&one.bytes), "{}", one.bytes);
    }

    #[test]
    fn a_seal_is_the_same_however_few_names_are_held() {
        let folder = tree();
        for name in 0..300 {
            let name = format!("{:0>width$}", name * 7919 % 1000, width = 4 + name % 60);
            std_fs::create_dir_all(folder.path().join("many").join(&name).join(&name)).unwrap();
        }
        let whole = sealed(&folder);
        for (most, least) in [(0, 0), (500, 100), (20_000, 1000)] {
            let found = seal_within(folder.path(), &mut Unhurried, most, least).unwrap();
            assert_eq!(found, whole, "{most} {least}");
        }
    }

    #[test]
    fn names_that_do_not_fit_are_not_held() {
        let folder = tempfile::tempdir().unwrap();
        for name in 0..500 {
            File::create(folder.path().join(format!("{name:0>100}"))).unwrap();
        }
        let opened = OwnedFd::from(File::open(folder.path()).unwrap());
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let (names, more) = next_names(&opened, after.as_ref(), 2000).unwrap();
            assert!(names.iter().map(cost).sum::<usize>() <= 2000, "{names:?}");
            seen.extend(names.into_iter().rev());
            after = more;
            if after.is_none() {
                break;
            }
        }
        assert!(seen.is_sorted() && seen.len() == 500, "{}", seen.len());
    }

    #[test]
    fn every_change_of_a_tree_changes_its_seal() {
        type Change = fn(&Path) -> io::Result<()>;
        let changes: &[(&str, Change)] = &[
            ("one bit", |root| {
                let mut bytes = std_fs::read(root.join("a/b/file"))?;
                bytes[150_000] ^= 1;
                std_fs::write(root.join("a/b/file"), bytes)
            }),
            ("cut", |root| {
                File::options()
                    .write(true)
                    .open(root.join("a/b/file"))?
                    .set_len(199_999)
            }),
            ("mode", |root| {
                std_fs::set_permissions(root.join("a/empty"), PermissionsExt::from_mode(0o755))
            }),
            ("removed", |root| std_fs::remove_file(root.join("a/empty"))),
            ("added", |root| std_fs::write(root.join("a/new"), "")),
            ("moved up", |root| {
                std_fs::rename(root.join("a/empty"), root.join("empty"))
            }),
            ("link", |root| {
                std_fs::remove_file(root.join("a/link"))?;
                symlink("b/other", root.join("a/link"))
            }),
            ("attribute", |root| {
                let file = File::open(root.join("a/empty"))?;
                Ok(fs::fsetxattr(
                    file,
                    "user.x",
                    b"1",
                    fs::XattrFlags::empty(),
                )?)
            }),
        ];
        let before = sealed(&tree());
        for (what, change) in changes {
            let folder = tree();
            change(folder.path()).unwrap();
            assert_ne!(sealed(&folder).seal, before.seal, "{what}");
        }
    }
}
