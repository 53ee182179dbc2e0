//! For tests.

/// Something that durability needs, left out so that a test can show that it notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// Commits are not flushed.
    NoFlush,
    /// Changes of names are not flushed.
    NoFolderFlush,
}
