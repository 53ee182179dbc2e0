//! Folders that a process needs before it starts: `RuntimeDirectory=` and its siblings.
//!
//! A folder that is there already gets the mode and, with everything in it, the owner that the unit asks for. All of it lies
//! below a folder of the machine's (`/run`, `/var/lib` ...), and what is in between may belong to the unit's own user. So
//! every name is looked up in an open folder, and no link is ever followed: whoever puts one in the way stops his own unit.
//!
//! The manager itself only does what takes a fixed number of calls: [`prepare`] makes a folder, and says whether anything in
//! it still has another owner, which may be any number of files and is left to [`make_all`], in `muster-exec`. [`put_away`]
//! takes a folder from its place, after which it can be emptied by somebody else.

mod beneath;
mod links;
mod tree;

use std::fmt::Display;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::step::Step;
use beneath::{Missing, Place};

/// The name of the folder around private ones.
pub const PRIVATE: &str = "private";
/// How the names of folders that are only there to be emptied begin.
pub const PUT_AWAY: &str = ".muster-removed-";
/// How many of those may have the same name but for its end.
const MAX_PUT_AWAY: u32 = 256;
const PARENT_MODE: Mode = Mode::from_bits_retain(0o755);

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What lives as long as the run.
    Runtime,
    /// What is kept.
    State,
    /// What can be made again.
    Cache,
    /// Logs.
    Logs,
    /// What an administrator writes.
    Configuration,
}

/// A folder that a unit has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Of which kind.
    pub kind: Kind,
    /// The machine's folder that it is in. The way to it is the machine's too.
    pub root: Box<str>,
    /// Where it is, below the root.
    pub path: Box<str>,
    /// A link that leads to it, below the root.
    pub link: Option<Box<str>>,
    /// Its mode.
    pub mode: u16,
    /// Whose it is; `None` is whoever the process runs as.
    pub owner: Option<(u32, u32)>,
    /// Where it is kept from all others, because its owner's number may be another user's one day.
    pub private: Option<Private>,
}

/// A folder that nobody but its unit gets at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    /// The folder around all of its kind, which is closed.
    pub root: Box<str>,
    /// Where it would be if it were not private: a link leads from there to it.
    pub public: Box<str>,
}

/// A folder cannot be made or put away.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct FolderError {
    /// What was tried, with the object.
    pub detail: Box<str>,
    /// Why.
    #[source]
    pub errno: Errno,
}

impl FolderError {
    fn new(detail: impl Display, errno: Errno) -> Self {
        Self {
            detail: detail.to_string().into(),
            errno,
        }
    }
}

impl Folder {
    /// The step that fails if it cannot be made.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.kind {
            Kind::Runtime => Step::RuntimeDirectory,
            Kind::State => Step::StateDirectory,
            Kind::Cache => Step::CacheDirectory,
            Kind::Logs => Step::LogsDirectory,
            Kind::Configuration => Step::ConfigurationDirectory,
        }
    }

    /// What leads to it and is removed with it.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        let public = self.private.as_ref().map(|private| &*private.public);
        self.link.as_deref().into_iter().chain(public)
    }

    fn depth(&self) -> usize {
        Path::new(&*self.path).components().count()
    }
}

/// The order in which folders are made: one in another comes after it, since what it is in may have to be moved first.
#[must_use]
pub fn in_order(folders: &[Folder]) -> Vec<&Folder> {
    let mut ordered: Vec<&Folder> = folders.iter().collect();
    ordered.sort_by_key(|folder| folder.depth());
    ordered
}

/// Makes folders, or brings their modes and owners up to date. Those that state no owner belong to `user`, if there is one.
///
/// # Errors
/// The first that cannot be made.
pub fn make_all(folders: &[Folder], user: Option<(u32, u32)>) -> Result<(), (Step, FolderError)> {
    for folder in in_order(folders) {
        let owner = folder.owner.or(user);
        let made = make(folder, owner, Effort::Any);
        made.map_err(|error| (folder.step(), error))?;
    }
    Ok(())
}

/// Makes a folder, or brings its mode up to date, and its owner if that is done with one call. Says whether all of it is as
/// it should be; where not, [`make_all`] does the rest.
///
/// # Errors
/// It cannot be made.
pub fn prepare(folder: &Folder) -> Result<bool, FolderError> {
    make(folder, folder.owner, Effort::Little)
}

/// How much may be done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// What does not depend on how much is in a folder.
    Little,
    Any,
}

fn make(folder: &Folder, owner: Option<(u32, u32)>, effort: Effort) -> Result<bool, FolderError> {
    let failed = |errno: Errno| {
        let what = format!("cannot make the folder {}", folder.path);
        FolderError::new(what, errno)
    };
    let opened = beneath::open_root(&folder.root).map_err(failed)?;
    let root = opened.as_fd();
    match &folder.private {
        Some(private) => close_in(root, folder, private)?,
        None => take_out(root, folder)?,
    }
    let place = below(root, folder, &folder.path, Missing::IsMade)?;
    let mode = Mode::from_raw_mode(folder.mode.into());
    let was_there = match rustix::fs::mkdirat(&place.around, place.name, mode) {
        Ok(()) => false,
        Err(Errno::EXIST) => true,
        Err(errno) => return Err(failed(errno)),
    };
    let made = beneath::open_in(place.around.as_fd(), place.name).map_err(|errno| {
        let what = format!("{} is in the way: it is no folder", folder.path);
        FolderError::new(what, errno)
    })?;
    // What an administrator has written stays his.
    if was_there && folder.kind == Kind::Configuration {
        return Ok(true);
    }
    let stat = rustix::fs::fstat(&made).map_err(failed)?;
    let mut is_whole = true;
    if let Some((uid, gid)) = owner
        && (stat.st_uid, stat.st_gid) != (uid, gid)
    {
        let owner = (Uid::from_raw(uid), Gid::from_raw(gid));
        is_whole = effort == Effort::Any || tree::is_empty(made.as_fd()).map_err(failed)?;
        if is_whole {
            tree::hand_over(made.as_fd(), owner).map_err(|errno| {
                let what = format!("cannot give the folder {} to user {uid}", folder.path);
                FolderError::new(what, errno)
            })?;
        }
    }
    // After the owner: changing that takes special bits away. And the caller's mask does not count.
    rustix::fs::fchmod(&made, mode).map_err(failed)?;
    for link in folder.links() {
        make_link(root, folder, link)?;
    }
    Ok(is_whole)
}

/// Where something below the root of a folder is, with the way to it open.
fn below<'p>(
    root: BorrowedFd<'_>,
    folder: &Folder,
    path: &'p str,
    missing: Missing,
) -> Result<Place<'p>, FolderError> {
    let name = beneath::name_in(&folder.root, path);
    let name = name.ok_or_else(|| FolderError::new(format!("{path} is no place"), Errno::INVAL))?;
    beneath::place(root, name, missing).map_err(|lost| {
        let what = match lost.errno {
            Errno::LOOP => format!(
                "cannot get to {path}: {} in {} is a link, which is not followed",
                lost.part, folder.root
            ),
            _ => format!("cannot get to {path}: {} in {}", lost.part, folder.root),
        };
        FolderError::new(what, lost.errno)
    })
}

/// Makes a link to a folder. One to where the folder was before it became private, or stopped to be, is replaced; anything
/// else in its place is somebody's.
fn make_link(root: BorrowedFd<'_>, folder: &Folder, path: &str) -> Result<(), FolderError> {
    if leads_into_itself(root, folder, path) {
        return Ok(());
    }
    let failed = |errno: Errno| {
        let what = format!("cannot make the link {path} to {}", folder.path);
        FolderError::new(what, errno)
    };
    let place = below(root, folder, path, Missing::IsMade)?;
    match rustix::fs::symlinkat(&*folder.path, &place.around, place.name) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let target = links::target(&place, path).map_err(|errno| match errno {
        Errno::INVAL => {
            let what = format!("{path} is in the way: it is no link to {}", folder.path);
            FolderError::new(what, Errno::EXIST)
        }
        errno => failed(errno),
    })?;
    if target == Path::new(&*folder.path) {
        return Ok(());
    }
    if !links::places_of(folder).any(|known| target == known) {
        let what = format!(
            "{path} is in the way: it is a link to {}, not to {}",
            target.display(),
            folder.path
        );
        return Err(FolderError::new(what, Errno::EXIST));
    }
    rustix::fs::unlinkat(&place.around, place.name, AtFlags::empty()).map_err(failed)?;
    rustix::fs::symlinkat(&*folder.path, &place.around, place.name).map_err(failed)
}

/// Whether the way to a link leads through a link to a private folder of the same unit, so that the folder is there already.
fn leads_into_itself(root: BorrowedFd<'_>, folder: &Folder, path: &str) -> bool {
    let name = beneath::name_in(&folder.root, path);
    name.is_some_and(|name| {
        let mut above = Path::new(name).ancestors().skip(1);
        above.any(|above| {
            let Some(above) = above.to_str().filter(|above| !above.is_empty()) else {
                return false;
            };
            let at = format!("{}/{above}", folder.root);
            let Ok(place) = beneath::place(root, above, Missing::IsAnError) else {
                return false;
            };
            let target = links::target(&place, &at);
            target.is_ok_and(|target| {
                target == Path::new(&*folder.root).join(PRIVATE).join(above)
                    && Path::new(&*folder.path).starts_with(&target)
            })
        })
    })
}

/// Closes the folder around a private one, and moves it there from where it was before it became private.
fn close_in(root: BorrowedFd<'_>, folder: &Folder, private: &Private) -> Result<(), FolderError> {
    let failed = |errno: Errno| {
        let what = format!("cannot close the folder {}", private.root);
        FolderError::new(what, errno)
    };
    let around = below(root, folder, &private.root, Missing::IsMade)?;
    match rustix::fs::mkdirat(&around.around, around.name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let closed = beneath::open_in(around.around.as_fd(), around.name).map_err(failed)?;
    let mode = rustix::fs::fstat(&closed).map_err(failed)?.st_mode;
    if mode & 0o7777 != Mode::RWXU.as_raw_mode() {
        rustix::fs::fchmod(&closed, Mode::RWXU).map_err(failed)?;
    }
    if leads_into_itself(root, folder, &private.public) {
        return Ok(());
    }
    let public = match below(root, folder, &private.public, Missing::IsAnError) {
        Ok(public) => public,
        Err(error) if error.errno == Errno::NOENT => return Ok(()),
        Err(error) => return Err(error),
    };
    if beneath::open_in(public.around.as_fd(), public.name).is_ok() {
        let place = below(root, folder, &folder.path, Missing::IsMade)?;
        move_into(&public, &place).map_err(|errno| {
            let what = format!("cannot move {} to {}", private.public, folder.path);
            FolderError::new(what, errno)
        })?;
    }
    Ok(())
}

/// A folder that was private and is not any more comes out to where its link was.
fn take_out(root: BorrowedFd<'_>, folder: &Folder) -> Result<(), FolderError> {
    let Some(name) = beneath::name_in(&folder.root, &folder.path) else {
        return Ok(());
    };
    let inner = format!("{PRIVATE}/{name}");
    let Ok(place) = beneath::place(root, name, Missing::IsAnError) else {
        return Ok(());
    };
    let Ok(private) = beneath::place(root, &inner, Missing::IsAnError) else {
        return Ok(());
    };
    // Only a link of ours: in the folder for private ones there is one of this name.
    let ours = links::target(&place, &folder.path)
        .is_ok_and(|target| target == Path::new(&*folder.root).join(&inner));
    if !ours || beneath::open_in(private.around.as_fd(), private.name).is_err() {
        return Ok(());
    }
    let moved = rustix::fs::unlinkat(&place.around, place.name, AtFlags::empty())
        .and_then(|()| move_into(&private, &place));
    moved.map_err(|errno| {
        let what = format!("cannot move {inner} in {} to {name}", folder.root);
        FolderError::new(what, errno)
    })
}

/// Moves a folder, unless something is in the one that is where it is to go.
fn move_into(from: &Place<'_>, to: &Place<'_>) -> Result<(), Errno> {
    match rustix::fs::renameat(&from.around, from.name, &to.around, to.name) {
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        other => other,
    }
}

/// Takes a folder and the links to it away from their places. Something else that is there stays. An empty folder is gone
/// then. Any other has another name, which is given back: it is to be removed by whoever has the time. That is directly in its
/// root, or for a private one in the folder around all such, where it is as closed as before however long it stays. `tag` makes
/// the name, and is no path.
///
/// # Errors
/// It is there and cannot be taken away, or what leads to it is a link.
pub fn put_away(folder: &Folder, tag: &str) -> Result<Option<String>, FolderError> {
    let failed = |errno: Errno| {
        let what = format!("cannot remove the folder {}", folder.path);
        FolderError::new(what, errno)
    };
    let root = match beneath::open_existing_root(&folder.root) {
        Err(Errno::NOENT) => return Ok(None),
        other => other.map_err(failed)?,
    };
    for link in folder.links() {
        remove_link(root.as_fd(), folder, link)?;
    }
    let place = match below(root.as_fd(), folder, &folder.path, Missing::IsAnError) {
        Err(error) if error.errno == Errno::NOENT => return Ok(None),
        other => other?,
    };
    match rustix::fs::unlinkat(&place.around, place.name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let (yard, yard_path) = match &folder.private {
        Some(private) => {
            let closed = below(root.as_fd(), folder, &private.root, Missing::IsAnError)?;
            let closed = beneath::open_in(closed.around.as_fd(), closed.name).map_err(failed)?;
            (closed, &*private.root)
        }
        None => (root, &*folder.root),
    };
    for number in 0..MAX_PUT_AWAY {
        let new = format!("{PUT_AWAY}{tag}-{number}");
        match rustix::fs::renameat(&place.around, place.name, &yard, &*new) {
            Ok(()) => return Ok(Some(format!("{}/{new}", yard_path.trim_end_matches('/')))),
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(failed(Errno::EXIST))
}

/// Removes a link if it leads to where a folder is or was.
fn remove_link(root: BorrowedFd<'_>, folder: &Folder, path: &str) -> Result<(), FolderError> {
    let place = match below(root, folder, path, Missing::IsAnError) {
        // Where the way ends, or leads through a link, there is none of ours.
        Err(error) if matches!(error.errno, Errno::NOENT | Errno::LOOP) => return Ok(()),
        other => other?,
    };
    let target = links::target(&place, path);
    if !target.is_ok_and(|target| links::places_of(folder).any(|known| target == known)) {
        return Ok(());
    }
    match rustix::fs::unlinkat(&place.around, place.name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => {
            let what = format!("cannot remove the link {path}");
            Err(FolderError::new(what, errno))
        }
    }
}

#[cfg(test)]
mod tests;
