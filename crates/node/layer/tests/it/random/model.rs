//! What a sequence of entries means, said once more and as plainly as possible.

use std::collections::BTreeMap;

use muster_layer::Rule;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    File(String, u8),
    Folder(String, u32),
    Symlink(String, String),
    HardLink(String, String),
    Whiteout(String),
    Opaque(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File {
        content: u8,
        inode: usize,
    },
    Symlink {
        target: String,
        inode: usize,
    },
    Folder {
        mode: u32,
        described: bool,
        opaque: bool,
    },
    Whiteout,
}

impl Node {
    pub(crate) fn inode(&self) -> Option<usize> {
        match self {
            Self::File { inode, .. } | Self::Symlink { inode, .. } => Some(*inode),
            Self::Folder { .. } | Self::Whiteout => None,
        }
    }
}

/// The tree by path.
#[derive(Debug, Default)]
pub(crate) struct Model(pub(crate) BTreeMap<String, Node>, usize);

impl Model {
    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), Rule> {
        self.1 += 1;
        let inode = self.1;
        match step {
            Step::File(path, content) => self.replace(
                path,
                Node::File {
                    content: *content,
                    inode,
                },
            ),
            Step::Symlink(path, target) => self.replace(
                path,
                Node::Symlink {
                    target: target.clone(),
                    inode,
                },
            ),
            Step::Folder(path, mode) => self.folder(path, *mode),
            Step::HardLink(path, target) => self.link(path, target),
            Step::Whiteout(path) => {
                self.parents(path)?;
                match self.0.get_mut(path) {
                    Some(Node::Folder { opaque, .. }) => *opaque = true,
                    Some(_) => {}
                    None => {
                        self.0.insert(path.clone(), Node::Whiteout);
                    }
                }
                Ok(())
            }
            Step::Opaque(path) => {
                self.parents(&format!("{path}/x"))?;
                match self.0.get_mut(path) {
                    Some(Node::Folder { opaque, .. }) => *opaque = true,
                    other => panic!("{other:?} is not the folder that was just made"),
                }
                Ok(())
            }
        }
    }

    fn parents(&mut self, path: &str) -> Result<(), Rule> {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            let opaque = match self.0.get(parent) {
                Some(Node::Folder { .. }) => continue,
                Some(Node::Symlink { .. }) => return Err(Rule::ThroughSymlink),
                Some(Node::File { .. }) => return Err(Rule::ThroughFile),
                Some(Node::Whiteout) => true,
                None => false,
            };
            let folder = Node::Folder {
                mode: 0o755,
                described: false,
                opaque,
            };
            self.0.insert(parent.to_owned(), folder);
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) {
        let inside = format!("{path}/");
        self.0
            .retain(|name, _| name != path && !name.starts_with(&inside));
    }

    fn replace(&mut self, path: &str, node: Node) -> Result<(), Rule> {
        self.parents(path)?;
        self.remove(path);
        self.0.insert(path.to_owned(), node);
        Ok(())
    }

    fn folder(&mut self, path: &str, mode: u32) -> Result<(), Rule> {
        self.parents(path)?;
        let opaque = match self.0.get(path) {
            Some(Node::Folder { opaque, .. }) => *opaque,
            Some(Node::Whiteout) => true,
            _ => false,
        };
        let folder = Node::Folder {
            mode,
            described: true,
            opaque,
        };
        self.0.insert(path.to_owned(), folder);
        Ok(())
    }

    fn link(&mut self, path: &str, target: &str) -> Result<(), Rule> {
        for (at, _) in target.match_indices('/') {
            match self.0.get(&target[..at]) {
                Some(Node::Folder { .. }) => {}
                Some(Node::Symlink { .. }) => return Err(Rule::TargetThroughSymlink),
                _ => return Err(Rule::TargetMissing),
            }
        }
        let node = match self.0.get(target) {
            None => return Err(Rule::TargetMissing),
            Some(Node::Folder { .. }) => return Err(Rule::TargetIsFolder),
            Some(Node::Whiteout) => return Err(Rule::TargetIsWhiteout),
            Some(node) => node.clone(),
        };
        self.parents(path)?;
        if self.0.get(path) != Some(&node) {
            self.remove(path);
            if !self.0.contains_key(target) {
                return Err(Rule::TargetMissing);
            }
            self.0.insert(path.to_owned(), node);
        }
        Ok(())
    }
}
