//! Every link of the search path, read once for many questions.

use crate::fs::{FileKind, FileStat, UnitFs, base_name, link_destination};

/// A link in a folder of the search path, or in a `.wants/` or similar folder of it.
#[derive(Clone, Debug)]
pub(super) struct KnownLink {
    /// The last part of its path.
    pub(super) entry: String,
    /// Where it leads, as an absolute path.
    pub(super) destination: String,
    /// What is there.
    stat: Option<FileStat>,
    /// It stands in the folder itself.
    pub(super) top: bool,
}

/// The file of a unit, for comparison with what links lead to.
#[derive(Clone, Debug)]
pub(super) struct FileIdentity {
    path: String,
    /// Where it leads if it is a link itself: then it is what made the file known.
    linked_to: Option<String>,
    stat: Option<FileStat>,
}

impl FileIdentity {
    pub(super) fn new(fs: &impl UnitFs, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            linked_to: fs
                .read_link(path)
                .ok()
                .map(|target| link_destination(path, &target)),
            stat: fs.stat(path).ok(),
        }
    }
}

impl KnownLink {
    fn new(fs: &impl UnitFs, path: &str, top: bool) -> Option<Self> {
        let target = fs.read_link(path).ok()?;
        let destination = link_destination(path, &target);
        // A mask enables nothing.
        (destination != "/dev/null").then(|| Self {
            entry: base_name(path).to_owned(),
            stat: fs.stat(&destination).ok(),
            destination,
            top,
        })
    }

    /// Whether it leads to a file. Folders with two names, as `/lib` on many machines, make two
    /// paths of one file.
    pub(super) fn leads_to(&self, file: &FileIdentity) -> bool {
        self.destination == file.path
            || file.linked_to.as_ref() == Some(&self.destination)
            || (self.stat.is_some_and(|stat| stat.inode != 0) && self.stat == file.stat)
    }
}

/// The links of one folder, in any order.
pub(super) fn read_folder(fs: &impl UnitFs, folder: &str) -> Vec<KnownLink> {
    let mut found = Vec::new();
    for (entry, kind) in fs.list(folder).unwrap_or_default() {
        let path = format!("{folder}/{entry}");
        let is_dependency_folder = [".wants", ".requires", ".upholds"]
            .iter()
            .any(|suffix| entry.ends_with(suffix));
        match kind {
            FileKind::Link => found.extend(KnownLink::new(fs, &path, true)),
            FileKind::Folder if is_dependency_folder => {
                for (inner, kind) in fs.list(&path).unwrap_or_default() {
                    if kind == FileKind::Link {
                        found.extend(KnownLink::new(fs, &format!("{path}/{inner}"), false));
                    }
                }
            }
            _ => {}
        }
    }
    found
}
