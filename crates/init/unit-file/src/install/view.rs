//! The file system with planned changes already made.

use std::collections::BTreeMap;

use crate::fs::{FileKind, FileStat, FsError, UnitFs, link_destination, normalize};

/// Paths that are links now, or are gone.
pub(super) type Overlay = BTreeMap<String, Option<String>>;

/// A file system and changes on top of it.
#[derive(Debug)]
pub(super) struct View<'a, F> {
    fs: &'a F,
    overlay: Overlay,
}

impl<'a, F: UnitFs> View<'a, F> {
    pub(super) fn new(fs: &'a F) -> Self {
        Self {
            fs,
            overlay: Overlay::new(),
        }
    }

    /// The file system without the changes.
    pub(super) fn base(&self) -> &'a F {
        self.fs
    }

    pub(super) fn overlay(&self) -> Overlay {
        self.overlay.clone()
    }

    pub(super) fn restore(&mut self, overlay: Overlay) {
        self.overlay = overlay;
    }

    pub(super) fn set(&mut self, path: &str, link: Option<&str>) {
        self.overlay
            .insert(normalize(path), link.map(str::to_owned));
    }

    fn is_gone(&self, path: &str) -> bool {
        let ancestors = path
            .char_indices()
            .filter(|(n, c)| *c == '/' && *n > 0)
            .map(|(n, _)| &path[..n]);
        ancestors
            .chain([path])
            .any(|part| matches!(self.overlay.get(part), Some(None)))
            && !matches!(self.overlay.get(path), Some(Some(_)))
    }
}

impl<F: UnitFs> UnitFs for View<'_, F> {
    fn list(&self, folder: &str) -> Result<Vec<(String, FileKind)>, FsError> {
        let folder = normalize(folder);
        let base = if self.is_gone(&folder) {
            Err(FsError::NotFound {
                path: folder.as_str().into(),
            })
        } else {
            self.fs.list(&folder)
        };
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        // Links deeper down make the folders on their way exist.
        let added: Vec<(String, FileKind)> = self
            .overlay
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(_, link)| link.is_some())
            .map(|(path, _)| match path[prefix.len()..].split_once('/') {
                Some((child, _)) => (child.to_owned(), FileKind::Folder),
                None => (path[prefix.len()..].to_owned(), FileKind::Link),
            })
            .collect();
        let mut entries: BTreeMap<String, FileKind> = match base {
            Ok(entries) => entries.into_iter().collect(),
            Err(error) if added.is_empty() => return Err(error),
            Err(_) => BTreeMap::new(),
        };
        entries.retain(|name, _| !self.is_gone(&format!("{prefix}{name}")));
        entries.extend(added);
        Ok(entries.into_iter().collect())
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        let path = normalize(path);
        match self.overlay.get(&path) {
            Some(Some(target)) => self.fs.read(&link_destination(&path, target)),
            _ if self.is_gone(&path) => Err(FsError::NotFound { path: path.into() }),
            _ => self.fs.read(&path),
        }
    }

    fn read_link(&self, path: &str) -> Result<String, FsError> {
        let path = normalize(path);
        match self.overlay.get(&path) {
            Some(Some(target)) => Ok(target.clone()),
            _ if self.is_gone(&path) => Err(FsError::NotFound { path: path.into() }),
            _ => self.fs.read_link(&path),
        }
    }

    fn stat(&self, path: &str) -> Result<FileStat, FsError> {
        let path = normalize(path);
        match self.overlay.get(&path) {
            Some(Some(target)) => self.fs.stat(&link_destination(&path, target)),
            _ if self.is_gone(&path) => Err(FsError::NotFound { path: path.into() }),
            _ => self.fs.stat(&path),
        }
    }
}
