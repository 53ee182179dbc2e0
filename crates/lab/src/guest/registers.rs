//! User-Mode Linux on processors with more registers than it knows.
//!
//! `registers.c`, preloaded, completes what that kernel hands to the host. It is compiled for each guest that needs it, which takes
//! less time than the guest's boot.

use std::arch::x86_64::__cpuid_count;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::running::GuestError;
use crate::command::run_tool;

const SOURCE: &str = include_str!("registers.c");
/// What User-Mode Linux 6.1 has room for: everything up to AVX-512 and protection keys.
const UML_ROOM: u32 = 2696;
/// CPUID's leaf about extended state.
const STATE_LEAF: u32 = 0xd;

/// Makes the library that a guest's kernel is started with in `folder`, if this machine needs one.
pub(super) fn completion(folder: &Path) -> Result<Option<PathBuf>, GuestError> {
    if state_size() <= UML_ROOM {
        return Ok(None);
    }
    let library = folder.join("registers.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-x", "c", "-o"]);
    compiler.arg(&library).arg("-");
    run_tool(&mut compiler, SOURCE).map_err(GuestError::Tool)?;
    Ok(Some(library))
}

/// The bytes of all registers that this machine's kernel saves for a process.
fn state_size() -> u32 {
    __cpuid_count(STATE_LEAF, 0).ebx
}
