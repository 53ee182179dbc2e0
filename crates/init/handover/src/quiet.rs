//! Code that was needed to start and is not needed to wait.

use std::ffi::c_void;

use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{Advice, madvise};

/// Room for the table of mappings; a longer one is read as far as it goes.
const ROOM: usize = 16 << 10;

/// Lets the kernel unmap this program's code, and that of its libraries. It still has it, and maps what is executed again:
/// a program that waits is as small as what it does while it waits. Allocates nothing.
pub fn give_code_back() {
    let mut table = [0u8; ROOM];
    let Ok(file) = open(
        c"/proc/self/maps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return;
    };
    let mut length = 0;
    while let Ok(count @ 1..) = rustix::io::read(&file, &mut table[length..]) {
        length += count;
    }
    let lines = table[..length].split(|byte| *byte == b'\n');
    for (start, length) in lines.filter_map(|line| code_of(std::str::from_utf8(line).ok()?)) {
        forget(start, length);
    }
}

/// Where a line of the table is about executable code of a file: address and length.
fn code_of(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    if rights != "r-xp" || !path.starts_with('/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[expect(unsafe_code, reason = "pages of the program itself are unmapped")]
fn forget(start: usize, length: usize) {
    let address = std::ptr::with_exposed_provenance_mut::<c_void>(start);
    // SAFETY: a private mapping of a file that nobody can write to, so every page of it equals the file's and is read
    // from there again when it is next executed.
    let _ = unsafe { madvise(address, length, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_given_back() {
        let code = "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/muster-core";
        assert_eq!(code_of(code), Some((0x0040_0000, 0x52000)));
        for other in [
            "00651000-00652000 r--p 00051000 08:02 173521 /usr/bin/muster-core",
            "00652000-00655000 rw-p 00052000 08:02 173521 /usr/bin/muster-core",
            "7ffd0000-7ffd2000 r-xp 00000000 00:00 0 [vdso]",
            "00e03000-00e24000 rw-p 00000000 00:00 0",
            "nonsense",
        ] {
            assert_eq!(code_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_that_gave_its_code_back_goes_on() {
        for _ in 0..3 {
            give_code_back();
        }
    }
}
