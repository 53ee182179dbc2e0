//! The file of the node's key.

use std::path::Path;

use muster_durable::Step;
use muster_durable::key_file::{KeyFileError, open_or_make};

use crate::fault;
use crate::secret::NodeKey;

/// Reads the key, or makes it where there is none. Whoever has the store is the only one who gets here.
pub(crate) fn open(path: &Path) -> Result<NodeKey, KeyFileError> {
    let key = open_or_make(path, |step| {
        muster_fault::hit(match step {
            Step::Written => fault::KEY_WRITTEN,
            Step::Named => fault::KEY_NAMED,
            Step::Durable => fault::KEY_DURABLE,
        });
    })?;
    Ok(NodeKey::new(&key))
}
