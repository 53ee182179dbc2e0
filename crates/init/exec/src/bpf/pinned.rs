//! Programs that others loaded: attached to a group because its unit names their files, and taken away when it does not any more.
//!
//! By their names they cannot be told from those that somebody else attached, so the group itself carries a mark of which ones
//! were attached for its unit. It is there before they are, and goes with the group, whichever manager is running.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_cgroup::{AttachPoint, PinnedProgram};
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};

use super::{
    OBJ_GET, PROG_ATTACH, PROG_DETACH, address, attached, bpf_descriptor, by_number, change, tell,
};

/// A line per program: the number of the place, that of the program, and the file that stood for it.
const MARK: &str = "trusted.muster.programs";
/// As much as the kernel keeps in one mark.
const MARK_SIZE: usize = 64 << 10;

/// A program that could not be attached.
#[derive(Debug, thiserror::Error)]
#[error("cannot attach {path} as {point}")]
pub struct PinnedError {
    /// The setting that names it, as in unit files.
    pub setting: &'static str,
    /// Its file.
    pub path: Box<str>,
    /// Where it was to decide.
    pub point: AttachPoint,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// A program that was attached for the unit of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u32,
    id: u32,
    path: Box<str>,
}

impl Entry {
    fn is_same(&self, other: &Self) -> bool {
        (self.at, self.id) == (other.at, other.id)
    }

    fn is_attached(&self, cgroup: BorrowedFd<'_>) -> bool {
        attached(cgroup, self.at, false).contains(&self.id)
    }

    /// Whether it is what a unit asks for, as far as words go.
    fn is_for(&self, wanted: &PinnedProgram) -> bool {
        self.at == wanted.point.number() && self.path == wanted.path
    }
}

#[repr(C)]
struct ObjGet {
    path: u64,
    descriptor: u32,
    flags: u32,
}

/// Attaches these programs to a cgroup, beside whatever else is attached there, and takes away those that this was done with before
/// and that are not among them. What is attached already stays attached all the time, also if its file is gone.
#[must_use]
pub fn keep_pinned(cgroup: BorrowedFd<'_>, wanted: &[PinnedProgram]) -> Vec<PinnedError> {
    let before = read_mark(cgroup);
    if before.is_empty() && wanted.is_empty() {
        return Vec::new();
    }
    let mut kept: Vec<Entry> = Vec::new();
    let mut new = Vec::new();
    let mut failed = Vec::new();
    for one in wanted {
        let known = before.iter().filter(|entry| entry.is_for(one));
        let mut known = known.filter(|entry| entry.is_attached(cgroup));
        match find(&one.path) {
            Ok((id, program)) => {
                let entry = Entry {
                    at: one.point.number(),
                    id,
                    path: one.path.clone(),
                };
                // One that is named twice is attached once.
                if !kept.iter().any(|other| other.is_same(&entry)) {
                    kept.push(entry.clone());
                    new.push((entry, program, one));
                }
            }
            Err(source) => match known.next() {
                Some(entry) => kept.push(entry.clone()),
                None => failed.push(refused(one, source)),
            },
        }
    }
    // One that is there and was not attached for this unit is somebody else's, who may take it away again.
    let ours = |entry: &Entry| {
        before.iter().any(|known| known.is_same(entry)) || !entry.is_attached(cgroup)
    };
    kept.retain(ours);
    new.retain(|(entry, ..)| kept.contains(entry) && !entry.is_attached(cgroup));
    write_mark(cgroup, before.iter().chain(&kept));
    for (entry, program, one) in new {
        if let Err(source) = change(PROG_ATTACH, cgroup, program.as_fd(), entry.at) {
            kept.retain(|other| !other.is_same(&entry));
            // What it was to take the place of decides as before.
            let old = before
                .iter()
                .filter(|old| old.is_for(one) && old.is_attached(cgroup));
            kept.extend(old.cloned());
            failed.push(refused(one, source));
        }
    }
    for entry in before {
        if kept.iter().any(|other| other.is_same(&entry)) {
            continue;
        }
        let gone = by_number(entry.id);
        let gone = gone.and_then(|program| change(PROG_DETACH, cgroup, program.as_fd(), entry.at));
        // One that was gone already needs no more than that.
        if gone.is_err() && entry.is_attached(cgroup) {
            kept.push(entry);
        }
    }
    write_mark(cgroup, kept.iter());
    failed
}

fn refused(program: &PinnedProgram, source: io::Error) -> PinnedError {
    PinnedError {
        setting: program.setting,
        path: program.path.clone(),
        point: program.point,
        source,
    }
}

/// The program that a file stands for, and its number.
fn find(path: &str) -> io::Result<(u32, OwnedFd)> {
    let path = CString::new(path)?;
    let argument = ObjGet {
        path: address(path.as_ptr()),
        descriptor: 0,
        flags: 0,
    };
    // SAFETY: the path ends in zero and lives until the call is over; what is returned is a new descriptor.
    let program = unsafe { bpf_descriptor(OBJ_GET, &argument) }?;
    let id = tell(program.as_fd(), &mut 0)?.id;
    Ok((id, program))
}

fn read_mark(cgroup: BorrowedFd<'_>) -> Vec<Entry> {
    let mut text = vec![0; MARK_SIZE];
    let size = fgetxattr(cgroup, MARK, &mut text[..]).unwrap_or_default();
    text.truncate(size);
    parse(&String::from_utf8_lossy(&text))
}

fn write_mark<'e>(cgroup: BorrowedFd<'_>, entries: impl Iterator<Item = &'e Entry>) {
    let text = text(entries);
    // Without the mark they are attached all the same, and go with the group.
    let _ = if text.is_empty() {
        fremovexattr(cgroup, MARK)
    } else {
        fsetxattr(cgroup, MARK, text.as_bytes(), XattrFlags::empty())
    };
}

fn text<'e>(entries: impl Iterator<Item = &'e Entry>) -> String {
    let lines = entries.map(|Entry { at, id, path }| format!("{at} {id} {path}\n"));
    lines.collect()
}

fn parse(text: &str) -> Vec<Entry> {
    let entries = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ' ');
        Some(Entry {
            at: parts.next()?.parse().ok()?,
            id: parts.next()?.parse().ok()?,
            path: parts.next()?.into(),
        })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let entry = |at, id, path: &str| Entry {
            at,
            id,
            path: path.into(),
        };
        let entries = [
            entry(1, 27, "/sys/fs/bpf/a b"),
            entry(22, u32::MAX, "/sys/fs/bpf/c"),
        ];
        let written = text(entries.iter());
        assert_eq!(
            written,
            "1 27 /sys/fs/bpf/a b\n22 4294967295 /sys/fs/bpf/c\n"
        );
        assert_eq!(parse(&written), entries);
        assert_eq!(parse(""), []);
        assert_eq!(parse("1 2\nx 3 /a\n4 y /a\n5 6 /a"), [entry(5, 6, "/a")]);
    }

    #[test]
    fn a_file_that_stands_for_no_program_is_refused() {
        for path in ["/no/such/file", "/dev/null", "/a\0b"] {
            assert!(find(path).is_err(), "{path}");
        }
    }
}
