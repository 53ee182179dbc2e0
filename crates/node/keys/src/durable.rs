//! Files that survive power cuts, with the point at which tests kill their writer.

use std::io;
use std::path::Path;

use muster_durable::Step;
pub(crate) use muster_durable::{is_temporary, make_folder, read, remove};

use crate::faults::FILE_WRITTEN;

/// Replaces a file as [`muster_durable::write`] does.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    muster_durable::write_in_steps(path, content, mode, |step| {
        if step == Step::Written {
            muster_fault::hit(FILE_WRITTEN);
        }
    })
}
