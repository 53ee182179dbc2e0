//! What can be deployed, as documents: OCI index, manifest, image configuration and item configuration, read without trust.

/// What an image says about running it. (Filled in by this crate's owner.)
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImageConfig {}

/// What an item says about running it. (Filled in by this crate's owner.)
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemConfig {}
