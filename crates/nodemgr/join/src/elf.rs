//! What kind of machine a program is for.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

const MAGIC: &[u8] = b"\x7fELF";
/// Where a program says which machine it is for.
const MACHINE: usize = 18;

/// The architecture of a program, as `uname -m` calls it.
pub(crate) fn architecture(program: &Path) -> io::Result<&'static str> {
    let mut head = [0; MACHINE + 2];
    File::open(program)?.read_exact(&mut head)?;
    of(&head).ok_or_else(|| io::Error::other("it is no program for a machine that is known here"))
}

fn of(head: &[u8]) -> Option<&'static str> {
    let machine = head.strip_prefix(MAGIC)?;
    let at = MACHINE - MAGIC.len();
    // All that follow are little-endian machines.
    match u16::from_le_bytes([*machine.get(at)?, *machine.get(at + 1)?]) {
        0x3e => Some("x86_64"),
        0xb7 => Some("aarch64"),
        0x28 => Some("armv7l"),
        0xf3 => Some("riscv64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_for_this_machine_and_a_script_is_for_none() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(architecture(&own).unwrap(), std::env::consts::ARCH);
        assert_eq!(of(b"#!/bin/sh\nexit 0 and more"), None);
    }
}
