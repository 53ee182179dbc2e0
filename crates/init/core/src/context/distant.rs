//! Which paths lead to where nobody may answer.
//!
//! The manager waits for a process until it executes its program. A file system that another machine or a process serves may
//! keep whoever looks into it waiting for ever, and what is looked at without care keeps the manager itself. So nothing here
//! touches such a file system: the kernel's table says where they are mounted, and a path is followed, link by link, up to there.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use muster_activation::mounts::{MountLine, Pace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const TABLE: &str = "/proc/self/mountinfo";
/// File systems that other machines serve, and those that wait for a process of this one.
const KINDS: [&str; 27] = [
    "9p",
    "afs",
    "autofs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "davfs",
    "fuse",
    "fuseblk",
    "gfs",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncp",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "pvfs2",
    "smb3",
    "smbfs",
    "sshfs",
    "v9fs",
    "virtiofs",
];
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// Where such file systems are mounted.
#[derive(Debug)]
pub(super) struct Distant {
    table: Option<File>,
    places: BTreeSet<PathBuf>,
    /// This program: what it comes from itself answers, or nothing does.
    own: Option<PathBuf>,
    pace: Pace,
    began: Instant,
    is_stale: bool,
}

impl Distant {
    /// Nothing is looked at yet.
    pub(super) fn new() -> Self {
        Self {
            table: File::open(TABLE).ok(),
            places: BTreeSet::new(),
            own: std::env::current_exe().ok(),
            pace: Pace::default(),
            began: Instant::now(),
            is_stale: true,
        }
    }

    /// Whether whoever goes to a path may have to wait.
    pub(super) fn has(&mut self, path: &Path) -> bool {
        self.refresh();
        // What was mounted a moment ago and not looked at yet may be anywhere.
        let is_unread = self.table.is_some() && self.is_stale;
        is_unread || leads_to(path, &self.places, |link| std::fs::read_link(link))
    }

    /// Reads the table if it has changed. In a storm of mounts it is not read at every start of a process.
    fn refresh(&mut self) {
        let Some(table) = &mut self.table else {
            return;
        };
        self.is_stale |= has_changed(table);
        if !self.is_stale || !self.pace.wait(self.began.elapsed()).is_zero() {
            return;
        }
        let since = Instant::now();
        let mut text = Vec::new();
        if table.rewind().is_err() || table.read_to_end(&mut text).is_err() {
            return;
        }
        self.is_stale = false;
        self.places = places(&text, self.own.as_deref());
        self.pace.spent(since.elapsed(), self.began.elapsed());
    }
}

fn has_changed(table: &File) -> bool {
    let mut watched = [PollFd::new(table, PollFlags::PRI)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Mount points of such file systems, but for those that this program itself is in.
fn places(table: &[u8], own: Option<&Path>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for line in table.split(|byte| *byte == b'\n') {
        let Ok(line) = MountLine::parse(line) else {
            continue;
        };
        let place = unescaped(line.place);
        // Of several at one place the last one is seen.
        match is_distant(line.fs_type) {
            true => found.insert(place),
            false => found.remove(&place),
        };
    }
    found.retain(|place| !own.unwrap_or(Path::new("/")).starts_with(place));
    found
}

fn is_distant(kind: &[u8]) -> bool {
    // `fuse.sshfs`: what serves it is said behind a dot.
    let kind = kind.split(|byte| *byte == b'.').next().unwrap_or(kind);
    KINDS.iter().any(|one| one.as_bytes() == kind)
}

/// A path with the kernel's `\ooo` undone.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|number| u8::from_str_radix(number, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(out).into()
}

/// Whether a path comes by one of these places. What lies behind one is never asked for.
fn leads_to(
    path: &Path,
    places: &BTreeSet<PathBuf>,
    read_link: impl Fn(&Path) -> io::Result<PathBuf>,
) -> bool {
    if places.is_empty() {
        return false;
    }
    let mut at = PathBuf::from("/");
    let parts = |path: &Path| -> Vec<OsString> {
        path.components()
            .map(|part| part.as_os_str().to_owned())
            .collect()
    };
    let mut rest: VecDeque<OsString> = parts(path).into();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(name)) => at.push(name),
            _ => continue,
        }
        if places.contains(&at) {
            return true;
        }
        let Ok(target) = read_link(&at) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return false;
        }
        at.pop();
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        22 21 0:30 / /srv/far\\040away rw - nfs4 server:/x rw\n\
        23 21 0:31 / /mnt/photos rw - fuse.sshfs me@there:/ rw\n\
        24 21 0:32 / /mnt/covered rw - fuse dead rw\n\
        25 24 0:33 / /mnt/covered rw - tmpfs tmpfs rw\n\
        26 21 0:34 / /usr rw - nfs server:/usr rw\n\
        a line that is none\n";

    fn found(own: &str) -> BTreeSet<PathBuf> {
        places(MOUNTS, Some(Path::new(own)))
    }

    #[test]
    fn what_others_serve_is_found_but_for_what_this_program_comes_from() {
        let expected = ["/mnt/photos", "/srv/far away"].map(PathBuf::from);
        assert_eq!(found("/usr/lib/muster/core"), expected.clone().into());
        let all = expected.into_iter().chain(["/usr".into()]);
        assert_eq!(found("/opt/core"), all.collect());
    }

    #[test]
    fn links_are_followed_and_nothing_behind_such_a_place_is_asked_for() {
        let places = found("/usr/core");
        let links = |path: &Path| {
            let behind = ["/mnt/photos", "/srv/far away"];
            let is_behind = behind.iter().any(|place| path.starts_with(place));
            assert!(!is_behind, "{} was asked for", path.display());
            match path.to_str().unwrap() {
                "/home" => Ok("srv/far away/home".into()),
                "/data" => Ok("/mnt/../mnt/./photos".into()),
                "/near" => Ok("/etc".into()),
                "/loop" => Ok("loop".into()),
                _ => Err(io::ErrorKind::InvalidInput.into()),
            }
        };
        let leads = |path: &str| leads_to(Path::new(path), &places, links);
        for path in [
            "/mnt/photos",
            "/mnt/photos/2026/",
            "/home/me",
            "/data",
            "/near/../home",
        ] {
            assert!(leads(path), "{path}");
        }
        for path in [
            "/",
            "/mnt",
            "/mnt/photosynthesis",
            "/near/x",
            "/loop/x",
            "/mnt/covered/x",
        ] {
            assert!(!leads(path), "{path}");
        }
    }
}
