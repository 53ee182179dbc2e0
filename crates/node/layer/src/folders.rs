//! What folders get at the end. Their modes could forbid to fill them, and filling them changes their times.

use std::collections::BTreeMap;

use crate::error::Rule;
use crate::options::Limits;
use crate::pax::Moment;

/// Owner (unless it is whoever calls), mode and time of something in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) mode: u32,
    pub(crate) mtime: Moment,
}

/// What about a folder's entry in the table is not its name.
const OVERHEAD: usize = 96;

/// A folder to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) attributes: Attributes,
    /// Whether an entry says so.
    pub(crate) described: bool,
}

/// Folders by path, in an order that has every folder before what is in it. Bounded by the memory it takes.
#[derive(Debug, Default)]
pub(crate) struct FolderTable {
    folders: BTreeMap<Vec<u8>, Folder>,
    bytes: usize,
}

impl FolderTable {
    /// Sets or replaces what a folder gets.
    pub(crate) fn set(&mut self, path: &[u8], folder: Folder, limits: &Limits) -> Result<(), Rule> {
        if let Some(known) = self.folders.get_mut(path) {
            *known = folder;
            return Ok(());
        }
        self.bytes += path.len() + OVERHEAD;
        if self.bytes > limits.folder_table_bytes {
            return Err(Rule::FolderTable {
                limit: limits.folder_table_bytes,
            });
        }
        self.folders.insert(path.to_vec(), folder);
        Ok(())
    }

    /// Forgets a folder and all that were in it, without looking at any other.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        // What follows the slash in the alphabet ends the names that continue with one.
        let inside = [path, b"/"].concat()..[path, b"0"].concat();
        let mut gone: Vec<Vec<u8>> = self
            .folders
            .range(inside)
            .map(|(folder, _)| folder.clone())
            .collect();
        gone.push(path.to_vec());
        for folder in gone {
            if self.folders.remove(&folder).is_some() {
                self.bytes -= folder.len() + OVERHEAD;
            }
        }
    }

    /// All folders, each before the one that it is in.
    pub(crate) fn innermost_first(&self) -> impl Iterator<Item = (&[u8], &Folder)> {
        self.folders
            .iter()
            .rev()
            .map(|(path, folder)| (path.as_slice(), folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Folder = Folder {
        attributes: Attributes {
            owner: None,
            mode: 0o755,
            mtime: Moment {
                seconds: 0,
                nanoseconds: 0,
            },
        },
        described: true,
    };

    fn table(paths: &[&str]) -> FolderTable {
        let mut table = FolderTable::default();
        for path in paths {
            assert_eq!(
                table.set(path.as_bytes(), PLAIN, &Limits::default()),
                Ok(())
            );
        }
        table
    }

    fn paths(table: &FolderTable) -> Vec<&str> {
        table
            .innermost_first()
            .map(|(path, _)| str::from_utf8(path).unwrap())
            .collect()
    }

    #[test]
    fn what_is_inside_comes_first() {
        let table = table(&["", "a", "a/b", "a-c", "a/b/c"]);
        assert_eq!(paths(&table), ["a/b/c", "a/b", "a-c", "a", ""]);
    }

    #[test]
    fn forgetting_a_folder_forgets_its_folders_and_no_others() {
        let mut table = table(&["", "a", "a/b", "a-c", "a/b/c", "ab", "b"]);
        table.forget(b"a");
        assert_eq!(paths(&table), ["b", "ab", "a-c", ""]);
        for path in ["", "b", "ab", "a-c"] {
            table.forget(path.as_bytes());
        }
        assert_eq!(table.bytes, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let limits = Limits {
            folder_table_bytes: 1000,
            ..Limits::default()
        };
        let mut table = FolderTable::default();
        let refused = (0..100).find_map(|n| table.set(&[n; 100], PLAIN, &limits).err());
        assert_eq!(refused, Some(Rule::FolderTable { limit: 1000 }));
    }
}
