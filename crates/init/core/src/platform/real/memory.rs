//! Memory that a quiet manager does not need.

use std::ffi::c_void;

use rustix::mm::{Advice, madvise};

/// Gives back what the allocator has free, and the code that was needed to start and is not needed to wait: the kernel
/// still has it and maps what is executed again.
pub(super) fn give_back() {
    trim_heap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, length) in maps.lines().filter_map(code_of) {
        forget_code(start, length);
    }
}

#[expect(unsafe_code, reason = "the C library is asked to tidy up")]
fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only looks at free memory of the allocator's own.
    unsafe {
        libc::malloc_trim(0)
    };
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
fn forget_code(start: usize, length: usize) {
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
    fn a_program_that_gave_everything_back_goes_on() {
        for _ in 0..3 {
            give_back();
        }
    }
}
