//! What planning asks of a machine.

use crate::image::Hierarchy;

/// One of the trees that a view is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tree {
    /// The machine's, as the manager sees it.
    Machine,
    /// That of the other root. Without one, the same as the machine's.
    Root,
    /// That of an image, by its number in the view.
    Image(u16),
    /// A folder of the root with extensions laid over it.
    Extended(Hierarchy),
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Missing,
    /// A folder; `mount`: something is mounted right there.
    Folder {
        /// It is the root of a mount.
        mount: bool,
    },
    /// A symlink to this.
    Link(Box<str>),
    /// Anything else.
    Other {
        /// It is the root of a mount.
        mount: bool,
    },
}

/// A path could not be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel said error {errno}")]
pub struct LookError {
    /// What the kernel said.
    pub errno: i32,
}

/// Knows what a machine's file system looks like.
pub trait Machine {
    /// What is at an absolute path of which no component but the last can be a symlink. In the tree of an image that is not
    /// mounted, and of a folder that no extension has, there is nothing, not even a root.
    ///
    /// # Errors
    /// It cannot be looked at. That it is not there is [`Seen::Missing`], no error.
    fn look(&self, tree: Tree, path: &str) -> Result<Seen, LookError>;
}
