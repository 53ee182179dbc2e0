//! What a folder holds.

use std::collections::BTreeMap;

use super::path::RelPath;

/// What something in a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A file of this many bytes.
    File {
        /// How many.
        size: u64,
    },
    /// A symbolic link.
    Link {
        /// Where it leads, as it is written.
        target: Vec<u8>,
    },
    /// A device, pipe or socket. These are never copied.
    Special,
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The permissions: the lowest nine bits.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub mtime: i64,
}

impl Entry {
    /// Whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }
}

/// Everything below a folder. Whatever is in it is in a folder that is in it too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree(BTreeMap<RelPath, Entry>);

/// A folder holds more than can be copied as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeTooLarge {
    /// Too much.
    #[error("it holds more than {} files", Tree::MOST)]
    Entries,
    /// Too deep.
    #[error("its folders are nested more than {} deep", Tree::DEEPEST)]
    Depth,
}

impl Tree {
    /// How much it may hold.
    pub const MOST: usize = 2_000_000;

    /// How deep its folders may be nested.
    pub const DEEPEST: usize = 128;

    /// Adds something.
    ///
    /// # Errors
    /// When it is too much or too deep.
    pub fn add(&mut self, path: RelPath, entry: Entry) -> Result<(), TreeTooLarge> {
        if self.0.len() >= Self::MOST {
            return Err(TreeTooLarge::Entries);
        }
        if path.depth() > Self::DEEPEST {
            return Err(TreeTooLarge::Depth);
        }
        self.0.insert(path, entry);
        Ok(())
    }

    /// Keeps only what is to be kept. What is in a folder that goes has to go too.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&RelPath) -> bool) {
        self.0.retain(|path, _| is_kept(path));
    }

    /// What is at a path.
    #[must_use]
    pub fn get(&self, path: &RelPath) -> Option<&Entry> {
        self.0.get(path)
    }

    /// All of it, folders before what they hold.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&RelPath, &Entry)> {
        self.0.iter()
    }

    /// How much it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
