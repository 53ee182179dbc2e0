//! A destination with something beside it that must not change, and trees as values.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use muster_layer::{Compression, Options, Report, UnpackError, remove_contents, unpack};
use tempfile::TempDir;

/// An empty destination, and a canary beside it.
pub(crate) struct Rig {
    folder: TempDir,
    before: Tree,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// For hundreds of them, where the file system does not matter.
    pub(crate) fn in_memory() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn at(folder: TempDir) -> Self {
        let canary = folder.path().join("canary");
        fs::create_dir_all(canary.join("inner")).unwrap();
        fs::create_dir(folder.path().join("destination")).unwrap();
        fs::write(canary.join("secret"), "untouched").unwrap();
        fs::write(canary.join("inner/secret"), "untouched").unwrap();
        fs::set_permissions(canary.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("secret", canary.join("link")).unwrap();
        let before = Tree::read_exactly(&canary);
        Self { folder, before }
    }

    pub(crate) fn destination(&self) -> PathBuf {
        self.folder.path().join("destination")
    }

    pub(crate) fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    pub(crate) fn unpack(
        &self,
        layer: &[u8],
        compression: Compression,
        options: &Options,
    ) -> Result<Report, UnpackError> {
        let folder = File::open(self.destination()).unwrap();
        unpack(layer, compression, folder.as_fd(), options)
    }

    /// That nothing beside the destination has changed, not even a time.
    pub(crate) fn assert_untouched(&self) {
        assert_eq!(Tree::read_exactly(&self.canary()), self.before);
        let beside: Vec<_> = fs::read_dir(self.folder.path()).unwrap().collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
    }

    /// That what was unpacked can be taken away.
    pub(crate) fn clean(&self) {
        let folder = File::open(self.destination()).unwrap();
        remove_contents(folder.as_fd()).unwrap();
        assert_eq!(fs::read_dir(self.destination()).unwrap().count(), 0);
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::read(&self.destination())
    }
}

/// Everything about a tree that a layer can say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<PathBuf, Node>);

#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Node {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, i64),
    /// Of devices.
    pub(crate) device: u64,
    pub(crate) content: Vec<u8>,
    /// The first path with the same inode, where there are several.
    pub(crate) same_as: Option<PathBuf>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The time of the last change of anything, only where that matters.
    changed: Option<(i64, i64)>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Self {
        Self::collect(root, false)
    }

    fn read_exactly(root: &Path) -> Self {
        Self::collect(root, true)
    }

    fn collect(root: &Path, exactly: bool) -> Self {
        let mut tree = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(path) = waiting.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let kind = meta.file_type();
            let content = if kind.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            } else if kind.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if kind.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            let name = path.strip_prefix(root).unwrap().to_owned();
            if !kind.is_dir() && meta.nlink() > 1 {
                inodes
                    .entry(meta.ino())
                    .or_insert_with(Vec::new)
                    .push(name.clone());
            }
            let node = Node {
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                mtime: (meta.mtime(), meta.mtime_nsec()),
                device: meta.rdev(),
                content,
                same_as: None,
                xattrs: xattrs(&path),
                changed: exactly.then(|| (meta.ctime(), meta.ctime_nsec())),
            };
            tree.insert(name, node);
        }
        for mut names in inodes.into_values() {
            names.sort();
            for name in &names {
                tree.get_mut(name).unwrap().same_as = names.first().cloned();
            }
        }
        Self(tree)
    }

    pub(crate) fn node(&self, path: &str) -> &Node {
        self.0
            .get(Path::new(path))
            .unwrap_or_else(|| panic!("no {path} in {:?}", self.names()))
    }

    pub(crate) fn has(&self, path: impl AsRef<[u8]>) -> bool {
        self.0
            .contains_key(Path::new(OsStr::from_bytes(path.as_ref())))
    }

    pub(crate) fn names(&self) -> Vec<&Path> {
        self.0.keys().map(PathBuf::as_path).collect()
    }
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap();
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect()
}

/// The error and all its causes, as a log shows them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
