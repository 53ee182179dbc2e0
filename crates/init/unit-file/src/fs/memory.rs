//! Files in memory.

use std::collections::BTreeMap;

use super::{FileKind, FileStat, FsError, UnitFs, link_destination, normalize};

const MAX_LINKS: usize = 40;

#[derive(Clone, Debug)]
enum Node {
    File { content: Vec<u8>, version: u64 },
    Link(String),
    Folder(BTreeMap<String, FileKind>),
    Null,
}

/// A file system in memory. Folders come into being with what is put into them.
#[derive(Clone, Debug)]
pub struct MemoryFs {
    nodes: BTreeMap<String, Node>,
    versions: u64,
}

impl Default for MemoryFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFs {
    /// A file system with nothing but the null device.
    #[must_use]
    pub fn new() -> Self {
        let mut fs = Self {
            nodes: BTreeMap::new(),
            versions: 0,
        };
        fs.put("/dev/null", Node::Null, FileKind::Null);
        fs
    }

    /// Writes a file; its modification time moves on.
    pub fn write(&mut self, path: &str, content: impl Into<Vec<u8>>) -> &mut Self {
        self.versions += 1;
        let node = Node::File {
            content: content.into(),
            version: self.versions,
        };
        self.put(path, node, FileKind::File);
        self
    }

    /// Makes a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.put(path, Node::Link(target.to_owned()), FileKind::Link);
        self
    }

    /// Makes a folder, and those above it.
    pub fn folder(&mut self, path: &str) -> &mut Self {
        let path = normalize(path);
        if !matches!(self.nodes.get(&path), Some(Node::Folder(_))) {
            self.put(&path, Node::Folder(BTreeMap::new()), FileKind::Folder);
        }
        self
    }

    /// Removes a file, a link or an empty folder.
    pub fn remove(&mut self, path: &str) -> &mut Self {
        let path = normalize(path);
        self.nodes.remove(&path);
        if let Some((parent, name)) = path.rsplit_once('/')
            && let Some(Node::Folder(children)) =
                self.nodes
                    .get_mut(if parent.is_empty() { "/" } else { parent })
        {
            children.remove(name);
        }
        self
    }

    fn put(&mut self, path: &str, node: Node, kind: FileKind) {
        let path = normalize(path);
        let mut child = path.clone();
        let mut child_kind = kind;
        self.nodes.insert(path, node);
        while let Some((parent, name)) = child.rsplit_once('/').filter(|_| child != "/") {
            let parent = if parent.is_empty() { "/" } else { parent }.to_owned();
            let folder = self
                .nodes
                .entry(parent.clone())
                .or_insert_with(|| Node::Folder(BTreeMap::new()));
            if let Node::Folder(children) = folder {
                children.insert(name.to_owned(), child_kind);
            }
            child = parent;
            child_kind = FileKind::Folder;
        }
    }

    /// The node at the end of all links, also of links among the folders of the path.
    fn resolve(&self, path: &str) -> Result<(&Node, String), FsError> {
        let mut current = normalize(path);
        for _ in 0..MAX_LINKS {
            match self.nodes.get(&current) {
                Some(Node::Link(target)) => current = link_destination(&current, target),
                Some(node) => return Ok((node, current)),
                None => match self.resolve_parent_link(&current) {
                    Some(next) => current = next,
                    None => return Err(FsError::NotFound { path: path.into() }),
                },
            }
        }
        Err(FsError::LinkLoop { path: path.into() })
    }

    fn resolve_parent_link(&self, path: &str) -> Option<String> {
        let slashes = path.char_indices().filter(|(n, c)| *c == '/' && *n > 0);
        slashes
            .map(|(n, _)| path.split_at(n))
            .find_map(|(folder, rest)| match self.nodes.get(folder) {
                Some(Node::Link(target)) => {
                    Some(format!("{}{rest}", link_destination(folder, target)))
                }
                _ => None,
            })
    }
}

impl UnitFs for MemoryFs {
    fn list(&self, folder: &str) -> Result<Vec<(String, FileKind)>, FsError> {
        match self.resolve(folder)? {
            (Node::Folder(children), _) => Ok(children
                .iter()
                .map(|(name, kind)| (name.clone(), *kind))
                .collect()),
            _ => Err(FsError::NotFound {
                path: folder.into(),
            }),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        match self.resolve(path)? {
            (Node::File { content, .. }, _) => Ok(content.clone()),
            (Node::Null, _) => Ok(Vec::new()),
            _ => Err(FsError::NotFound { path: path.into() }),
        }
    }

    fn read_link(&self, path: &str) -> Result<String, FsError> {
        let path = normalize(path);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let parent = if parent.is_empty() {
            "/".to_owned()
        } else {
            self.resolve(parent)?.1
        };
        let path = format!("{}/{name}", parent.trim_end_matches('/'));
        match self.nodes.get(&path) {
            Some(Node::Link(target)) => Ok(target.clone()),
            _ => Err(FsError::NotFound { path: path.into() }),
        }
    }

    fn stat(&self, path: &str) -> Result<FileStat, FsError> {
        let stat = |kind, size: usize, version: u64| FileStat {
            kind,
            size: u64::try_from(size).unwrap_or(u64::MAX),
            modified: i128::from(version),
            inode: version,
        };
        Ok(match self.resolve(path)?.0 {
            Node::File { content, version } => stat(FileKind::File, content.len(), *version),
            Node::Folder(_) => stat(FileKind::Folder, 0, 0),
            Node::Null => stat(FileKind::Null, 0, 0),
            Node::Link(_) => stat(FileKind::Link, 0, 0),
        })
    }
}
