//! How much of a document is looked at.

/// What a document may be. Each limit is a refusal with its own words, never a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one document. The OCI distribution specification lets registries refuse manifests above 4 MiB.
    pub document_bytes: usize,
    /// Objects and lists inside each other.
    pub nesting: usize,
    /// Values of any kind in one document: what memory is bounded by.
    pub values: usize,
    /// Layers of one image. An overlay has at most 500 layers.
    pub layers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 4 << 20,
            nesting: 32,
            values: 100_000,
            layers: 500,
        }
    }
}
