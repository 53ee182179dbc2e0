//! A machine made up for tests.

use std::collections::BTreeMap;

use crate::image::Hierarchy;
use crate::machine::{LookError, Machine, Seen, Tree};
use crate::path::upwards;

#[derive(Clone, Debug, Default)]
pub(super) struct Fake {
    pub(super) machine: BTreeMap<String, Seen>,
    pub(super) root: BTreeMap<String, Seen>,
    pub(super) images: Vec<BTreeMap<String, Seen>>,
    pub(super) extended: BTreeMap<Hierarchy, BTreeMap<String, Seen>>,
}

impl Fake {
    /// Folders end in a slash, symlinks have an arrow, mounts an exclamation mark.
    pub(super) fn new(paths: &[&str]) -> Self {
        Self {
            machine: tree(paths),
            ..Self::default()
        }
    }

    pub(super) fn with_root(mut self, paths: &[&str]) -> Self {
        self.root = tree(paths);
        self
    }

    pub(super) fn with_image(mut self, paths: &[&str]) -> Self {
        self.images.push(tree(paths));
        self
    }

    pub(super) fn with_extended(mut self, hierarchy: Hierarchy, paths: &[&str]) -> Self {
        self.extended.insert(hierarchy, tree(paths));
        self
    }
}

fn tree(paths: &[&str]) -> BTreeMap<String, Seen> {
    let mut tree = BTreeMap::from([("/".to_owned(), Seen::Folder { mount: true })]);
    for path in paths {
        let (path, mount) = path
            .strip_suffix('!')
            .map_or((*path, false), |path| (path, true));
        let (path, seen) = if let Some((path, target)) = path.split_once(" -> ") {
            (path, Seen::Link(target.into()))
        } else if let Some(folder) = path.strip_suffix('/') {
            (folder, Seen::Folder { mount })
        } else {
            (path, Seen::Other { mount })
        };
        for folder in upwards(path).skip(1) {
            tree.entry(folder.to_owned())
                .or_insert(Seen::Folder { mount: false });
        }
        tree.insert(path.to_owned(), seen);
    }
    tree
}

impl Machine for Fake {
    fn look(&self, tree: Tree, path: &str) -> Result<Seen, LookError> {
        let tree = match tree {
            Tree::Machine => Some(&self.machine),
            Tree::Root => Some(&self.root),
            Tree::Image(number) => self.images.get(usize::from(number)),
            Tree::Extended(hierarchy) => self.extended.get(&hierarchy),
        };
        let seen = tree.and_then(|tree| tree.get(path));
        Ok(seen.cloned().unwrap_or(Seen::Missing))
    }
}
