//! Placing the kernel's watches along a path.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use muster_unit_file::config::PathKind;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::{Effect, PathWatches, Subscriber, WatchId, WatchPathError};
use crate::glob;

/// Folders that one pattern may lead into.
pub(super) const MAX_FOLDERS: usize = 4096;
/// As many links as the kernel follows on one path.
const MAX_LINKS: usize = 40;

const MOVED_OR_GONE: WatchFlags = WatchFlags::DELETE_SELF
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ATTRIB);
const NEW_NAMES: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO);

/// What of the file or folder at the end of a path is of interest.
fn flags_at_the_end(kind: PathKind) -> (WatchFlags, Effect) {
    let changes = MOVED_OR_GONE
        .union(NEW_NAMES)
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVED_FROM);
    match kind {
        PathKind::Exists | PathKind::ExistsGlob => (MOVED_OR_GONE, Effect::Look),
        PathKind::DirectoryNotEmpty => (MOVED_OR_GONE.union(NEW_NAMES), Effect::Look),
        PathKind::Changed => (changes, Effect::Change),
        PathKind::Modified => (changes.union(WatchFlags::MODIFY), Effect::Change),
    }
}

/// The rest of a path that is still to be walked.
#[derive(Clone)]
enum Part {
    Name(OsString),
    Parent,
    Pattern(Box<str>),
}

/// One way along a path; a pattern has several.
struct Way {
    /// Where it has got to, without links.
    place: PathBuf,
    rest: VecDeque<Part>,
    links: usize,
}

impl PathWatches {
    /// Walks a path and places watches on the way, then gives up those of the last walk that are not needed any more.
    pub(super) fn walk(&mut self, watch: WatchId, index: u16) -> Result<(), WatchPathError> {
        let Some(spec) = self.spec_mut(watch, index) else {
            return Ok(());
        };
        let (kind, path) = (spec.kind, spec.path.clone());
        let old = std::mem::take(&mut spec.wds);
        let mut walk = Walk {
            watches: self,
            watch,
            index,
            kind,
            placed: Vec::new(),
        };
        let result = walk.along(&path);
        let placed = walk.placed;
        // Subscriptions of the last walk are dropped only now, so that a kernel watch in both is never removed.
        self.keep_only(watch, index, &old, &placed);
        let mut wds: Vec<i32> = placed.iter().map(|(wd, _)| *wd).collect();
        wds.sort_unstable();
        wds.dedup();
        if let Some(spec) = self.spec_mut(watch, index) {
            spec.wds = wds;
        }
        result
    }

    fn keep_only(&mut self, watch: WatchId, index: u16, old: &[i32], placed: &[(i32, Subscriber)]) {
        let stale: Vec<i32> = old
            .iter()
            .copied()
            .filter(|wd| placed.iter().all(|(new, _)| new != wd))
            .collect();
        self.unsubscribe(watch, index, &stale);
        for wd in placed.iter().map(|(wd, _)| wd) {
            if let Some(subscribers) = self.kernel.get_mut(wd) {
                subscribers.retain(|found| (found.watch, found.index) != (watch, index));
            }
        }
        for (wd, subscriber) in placed {
            let subscribers = self.kernel.entry(*wd).or_default();
            if !subscribers.contains(subscriber) {
                subscribers.push(subscriber.clone());
            }
        }
    }
}

struct Walk<'a> {
    watches: &'a mut PathWatches,
    watch: WatchId,
    index: u16,
    kind: PathKind,
    placed: Vec<(i32, Subscriber)>,
}

impl Walk<'_> {
    fn along(&mut self, path: &str) -> Result<(), WatchPathError> {
        let patterns = self.kind == PathKind::ExistsGlob;
        let part = |part: &str| match part {
            ".." => Part::Parent,
            _ if patterns && glob::is_pattern(part) => Part::Pattern(part.into()),
            _ => Part::Name(part.into()),
        };
        let mut ways = vec![Way {
            place: PathBuf::from("/"),
            rest: path
                .split('/')
                .filter(|part| !matches!(*part, "" | "."))
                .map(part)
                .collect(),
            links: 0,
        }];
        while let Some(way) = ways.pop() {
            self.follow(way, &mut ways)?;
            if ways.len() + self.placed.len() > MAX_FOLDERS {
                return Err(WatchPathError::TooManyFolders { path: path.into() });
            }
        }
        Ok(())
    }

    /// Walks one way to its end, or to where something is missing.
    fn follow(&mut self, mut way: Way, ways: &mut Vec<Way>) -> Result<(), WatchPathError> {
        while let Some(part) = way.rest.pop_front() {
            let name = match part {
                Part::Parent => {
                    way.place.pop();
                    continue;
                }
                Part::Name(name) => name,
                Part::Pattern(pattern) => {
                    // Watched before it is listed: a name that is new after that has an event.
                    if !self.place(&way.place, NEW_NAMES, Effect::Look, None)? {
                        return Ok(());
                    }
                    for name in glob::matching_names(&way.place, &pattern) {
                        let mut rest = way.rest.clone();
                        rest.push_front(Part::Name(name.into()));
                        ways.push(Way {
                            place: way.place.clone(),
                            rest,
                            links: way.links,
                        });
                    }
                    return Ok(());
                }
            };
            let last = way.rest.is_empty();
            let next = way.place.join(&name);
            let (at_end, effect) = flags_at_the_end(self.kind);
            let on_the_way = (MOVED_OR_GONE, Effect::Look);
            let (flags, effect) = if last { (at_end, effect) } else { on_the_way };
            let mut there = self.place(&next, flags, effect, None)?;
            if !there || (last && self.watches.adopted) {
                // What is told about a new name counts as a change: the path led nowhere before.
                let named = Some(name.as_os_str());
                let new = if last { effect } else { Effect::Look };
                self.place(&way.place, NEW_NAMES, new, named)?;
            }
            if !there {
                // It may have come between the two looks.
                there = self.place(&next, flags, effect, None)?;
            }
            if !there {
                return Ok(());
            }
            way.place = next;
            if let Ok(target) = rustix::fs::readlink(&way.place, Vec::new()) {
                way.links += 1;
                if way.links > MAX_LINKS {
                    return Ok(());
                }
                way.place.pop();
                splice(&mut way, Path::new(OsStr::from_bytes(target.as_bytes())));
            }
        }
        Ok(())
    }

    /// Watches one place, if it exists. Links are watched themselves, not followed.
    fn place(
        &mut self,
        path: &Path,
        flags: WatchFlags,
        effect: Effect,
        name: Option<&OsStr>,
    ) -> Result<bool, WatchPathError> {
        let all = flags | WatchFlags::MASK_ADD | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(&self.watches.inotify, path, all) {
            Ok(wd) => {
                let subscriber = Subscriber {
                    watch: self.watch,
                    index: self.index,
                    events: ReadFlags::from_bits_retain(flags.bits()),
                    name: name.map(Into::into),
                    effect,
                };
                self.placed.push((wd, subscriber));
                Ok(true)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(source) => Err(WatchPathError::Watch {
                path: path.to_string_lossy().into(),
                source,
            }),
        }
    }
}

/// Puts the target of a link in front of what is still to be walked.
fn splice(way: &mut Way, target: &Path) {
    let mut parts = Vec::new();
    for component in target.components() {
        match component {
            Component::RootDir => way.place = PathBuf::from("/"),
            Component::ParentDir => parts.push(Part::Parent),
            Component::Normal(name) => parts.push(Part::Name(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    for part in parts.into_iter().rev() {
        way.rest.push_front(part);
    }
}
