//! What the files below a folder take on disk.
//!
//! The folder belongs to an instance that may change it meanwhile, and may mean ill: nothing is followed, no other file system
//! is entered, and everything is reached through the descriptor of the folder it was seen in. Bounded in entries, in time, in
//! depth (one descriptor per level) and in memory.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

/// How deep is looked.
const MAX_DEPTH: usize = 64;
/// How many files with several names are remembered; of more, every name counts.
const MAX_LINKED: usize = 1 << 16;
/// Bytes in a block of `st_blocks`, whatever the file system's own are.
const BLOCK: u64 = 512;

/// How much one walk looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) entries: u64,
    pub(super) time: Duration,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    /// On disk, folders included.
    pub(super) bytes: u64,
    /// Whether all of it was seen.
    pub(super) complete: bool,
}

struct Walk {
    found: Walked,
    device: u64,
    entries_left: u64,
    linked: HashSet<u64>,
}

/// Adds up what is below `path`, itself included; it may be a file. An entry that goes meanwhile does not count.
pub(super) fn walk(path: &Path, bounds: Bounds, unwanted: &AtomicBool) -> Result<Walked, Errno> {
    let begin = Instant::now();
    // Whoever named the folder may have named it by a link.
    let top = rustix::fs::stat(path)?;
    let mut walk = Walk {
        found: Walked {
            bytes: 0,
            complete: true,
        },
        device: top.st_dev,
        entries_left: bounds.entries,
        linked: HashSet::new(),
    };
    walk.count(&top);
    if FileType::from_raw_mode(top.st_mode) != FileType::Directory {
        return Ok(walk.found);
    }
    let folder = openat(CWD, path, FOLDER, Mode::empty())?;
    let mut open = vec![Dir::new(folder)?];
    loop {
        let depth = open.len();
        let Some(folder) = open.last_mut() else {
            break;
        };
        let entry = match folder.read() {
            Some(Ok(entry)) => entry,
            Some(Err(Errno::INTR)) => continue,
            // Removed while it was read, or damaged.
            Some(Err(error)) => {
                walk.found.complete &= error == Errno::NOENT;
                open.pop();
                continue;
            }
            None => {
                open.pop();
                continue;
            }
        };
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let is_over = walk.entries_left == 0 || begin.elapsed() >= bounds.time;
        if is_over || unwanted.load(Ordering::Relaxed) {
            walk.found.complete = false;
            break;
        }
        walk.entries_left -= 1;
        let within = folder.fd()?;
        match walk.enter(within, &entry, depth) {
            Ok(Some(below)) => open.push(below),
            Ok(None) | Err(Errno::NOENT) => {}
            Err(_) => walk.found.complete = false,
        }
    }
    Ok(walk.found)
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Walk {
    fn count(&mut self, stat: &Stat) {
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_folder && stat.st_nlink > 1 {
            if self.linked.contains(&stat.st_ino) {
                return;
            }
            if self.linked.len() < MAX_LINKED {
                self.linked.insert(stat.st_ino);
            }
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
        self.found.bytes = self
            .found
            .bytes
            .saturating_add(blocks.saturating_mul(BLOCK));
    }

    /// Counts an entry, and opens it if there is more below.
    fn enter(
        &mut self,
        within: BorrowedFd<'_>,
        entry: &DirEntry,
        depth: usize,
    ) -> Result<Option<Dir>, Errno> {
        let name = entry.file_name();
        let stat = statat(
            within,
            name,
            AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        )?;
        if stat.st_dev != self.device {
            return Ok(None);
        }
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(None);
        }
        if depth >= MAX_DEPTH {
            self.found.complete = false;
            return Ok(None);
        }
        let below = openat(within, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        // Another folder may have come under its name.
        if rustix::fs::fstat(&below)?.st_ino != stat.st_ino {
            self.found.complete = false;
            return Ok(None);
        }
        Dir::new(below).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    const fn bounds(entries: u64) -> Bounds {
        Bounds {
            entries,
            time: Duration::MAX,
        }
    }

    fn measured(path: &Path, entries: u64) -> Walked {
        walk(path, bounds(entries), &AtomicBool::new(false)).unwrap()
    }

    /// What `du` says.
    fn du(path: &Path) -> u64 {
        let output = std::process::Command::new("du")
            .args(["-sx", "--block-size=1"])
            .arg(path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn agrees_with_du() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(root.join("a/large"), vec![1; 300_000]).unwrap();
        fs::write(root.join("a/b/small"), b"x").unwrap();
        fs::write(root.join("a/b/c/linked"), vec![2; 100_000]).unwrap();
        fs::hard_link(root.join("a/b/c/linked"), root.join("again")).unwrap();
        symlink("/usr", root.join("elsewhere")).unwrap();
        // Long, and nearly nothing on disk.
        let sparse = fs::File::create(root.join("sparse")).unwrap();
        sparse.set_len(1 << 32).unwrap();
        let found = measured(root, 1000);
        assert_eq!(found.bytes, du(root));
        assert!(found.complete && found.bytes >= 400_000, "{found:?}");
        // By a link, and as a file.
        let link = root.join("link");
        symlink(root.join("a"), &link).unwrap();
        assert_eq!(measured(&link, 1000).bytes, du(&root.join("a")));
        let file = root.join("a/large");
        let blocks = fs::metadata(&file).unwrap().blocks();
        assert_eq!(measured(&file, 0).bytes, blocks * 512);
    }

    #[test]
    fn stops_at_its_bounds_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            fs::write(folder.path().join(number.to_string()), b"x").unwrap();
        }
        assert!(measured(folder.path(), 50).complete);
        let some = measured(folder.path(), 49);
        assert!(!some.complete && some.bytes > 0);
        let unwanted = walk(folder.path(), bounds(50), &AtomicBool::new(true)).unwrap();
        assert!(!unwanted.complete);
        let no_time = Bounds {
            time: Duration::ZERO,
            ..bounds(50)
        };
        let hasty = walk(folder.path(), no_time, &AtomicBool::new(false)).unwrap();
        assert!(!hasty.complete);

        let deep = tempfile::tempdir().unwrap();
        let mut path = deep.path().to_owned();
        for _ in 0..MAX_DEPTH {
            path.push("d");
        }
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("x"), vec![1; 100_000]).unwrap();
        let found = measured(deep.path(), 1000);
        assert!(
            !found.complete && found.bytes < 100_000 + 64 * 4096 + 4096,
            "{found:?}"
        );
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let gone = walk(
            Path::new("/nowhere/at/all"),
            bounds(1),
            &AtomicBool::new(false),
        );
        assert_eq!(gone, Err(Errno::NOENT));
    }
}
