//! How much is read before it is refused.

/// Bounds of what people write about machines.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Tables and lists inside each other, at most 64.
    pub depth: usize,
    /// Values of one file.
    pub values: usize,
    /// Files that are read together.
    pub files: usize,
    /// Templates of one set.
    pub templates: usize,
    /// Templates that one extends, and those that they extend.
    pub ancestors: usize,
    /// Mappings of one list.
    pub mappings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 1 << 20,
            depth: 32,
            values: 1 << 16,
            files: 1024,
            templates: 4096,
            ancestors: 16,
            mappings: 4096,
        }
    }
}

impl Limits {
    /// The bounds of one document's text.
    #[must_use]
    pub fn document(&self) -> muster_config::Limits {
        muster_config::Limits {
            file_bytes: self.file_bytes,
            depth: self.depth,
            nodes: self.values,
            drop_ins: 0,
        }
    }
}
