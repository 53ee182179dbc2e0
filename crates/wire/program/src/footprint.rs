//! Giving memory back that only the work just done has needed.
//!
//! A start, a provisioning, an update run through most of the program once. The pages of code and constants that they touched stay
//! mapped for ever although the daemon then rests. They are let go of here: they are clean pages of the program's file, so nothing
//! is lost, and what is needed again is mapped again from the page cache. What the allocator holds without a user goes back too.

mod quiet;

use std::fs;
use std::ops::Range;
use std::time::Duration;

use rustix::mm::{Advice, madvise};
use tokio::time::sleep;
use tracing::debug;

use self::quiet::{Look, Quiet};

/// How often [`give_back_at_rest`] looks.
const EVERY: Duration = Duration::from_secs(1);
/// How soon it looks again after work, which is over in a moment most of the time.
const SOON: Duration = Duration::from_millis(500);
/// Longest list of mappings that is looked at.
const LONGEST: usize = 1 << 20;

/// Gives memory back whenever work is over, for as long as it is polled. For daemons that wake up now and then anyway; those that
/// know themselves when they are done call [`give_back`] then.
pub async fn give_back_at_rest() {
    let Some(faults) = faults() else {
        return;
    };
    let mut quiet = Quiet::new(faults);
    let mut next = EVERY;
    loop {
        sleep(next).await;
        next = EVERY;
        match self::faults().map(|faults| quiet.look(faults)) {
            Some(Look::Over) => {
                give_back();
                quiet.given_back(self::faults().unwrap_or_default());
            }
            Some(Look::Works) => next = SOON,
            Some(Look::Rests) | None => {}
        }
    }
}

/// How many pages were newly mapped in the life of this process, by all of its threads; `None` where the system does not say.
fn faults() -> Option<u64> {
    minor_faults(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The program's name comes before in parentheses, and may itself have any character.
fn minor_faults(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(7)?.parse().ok()
}

/// Lets go of the program's own clean pages and of free memory that the allocator still holds. Takes about a millisecond. Where the
/// system tells too little, less happens.
pub fn give_back() {
    trim_heap();
    let_go_of_clean_pages();
}

/// Whole free pages go back to the system, also from between those in use.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's own function")]
fn trim_heap() {
    // SAFETY: takes no pointer, locks the allocator itself, and changes nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators return memory by themselves.
#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

#[expect(unsafe_code, reason = "advice about memory is given by address")]
fn let_go_of_clean_pages() {
    let Ok(program) = fs::read_link("/proc/self/exe") else {
        return;
    };
    let Ok(mappings) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    if mappings.len() > LONGEST {
        return;
    }
    let mut bytes = 0;
    for range in clean_ranges(&mappings, &program.to_string_lossy()) {
        let length = range.end - range.start;
        let address = std::ptr::without_provenance_mut(range.start);
        // SAFETY: the range is a mapping of the program's file without a single modified page, and it
        // cannot be written to, so reading it again gives the same bytes from the file. Nothing in this
        // process unmaps or remaps the program's own segments.
        let advised = unsafe { madvise(address, length, Advice::LinuxDontNeed) };
        if advised.is_ok() {
            bytes += length;
        }
    }
    debug!(bytes, "let go of the program's clean pages");
}

/// The mappings of `program` that cannot be written to and hold nothing but the file's content. What
/// the loader has relocated and then protected is modified, and left alone.
fn clean_ranges(mappings: &str, program: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in mappings.lines() {
        if let Some(range) = header(line) {
            candidate = range_of_program(line, program).then_some(range);
        } else if let Some(rest) = line.strip_prefix("Anonymous:") {
            let modified = rest.split_whitespace().next() != Some("0");
            found.extend(candidate.take().filter(|_| !modified));
        }
    }
    found
}

/// The addresses in a mapping's first line.
fn header(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    (start < end).then_some(start..end)
}

fn range_of_program(line: &str, program: &str) -> bool {
    let mut words = line.split_whitespace();
    let read_only = words.nth(1).is_some_and(|permissions| {
        permissions.starts_with('r') && permissions.as_bytes().get(1) == Some(&b'-')
    });
    read_only && line.ends_with(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPINGS: &str = "\
55e0a000-55e0b000 r--p 00000000 fe:00 1 /usr/bin/x
Size: 4 kB
Anonymous:             0 kB
55e0b000-55e0f000 r-xp 00001000 fe:00 1 /usr/bin/x
Anonymous:             0 kB
55e0f000-55e10000 r--p 00005000 fe:00 1 /usr/bin/x
Anonymous:             4 kB
55e10000-55e11000 rw-p 00006000 fe:00 1 /usr/bin/x
Anonymous:             0 kB
7f000000-7f001000 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6
Anonymous:             0 kB
7f001000-7f002000 r--p 00000000 00:00 0
Anonymous:             0 kB
";

    #[test]
    fn only_unmodified_pages_of_the_program_itself_are_let_go_of() {
        let found = clean_ranges(MAPPINGS, "/usr/bin/x");
        assert_eq!(found, [0x55e0_a000..0x55e0_b000, 0x55e0_b000..0x55e0_f000]);
        assert!(clean_ranges("nonsense\nAnonymous: 0 kB\n", "/usr/bin/x").is_empty());
    }

    #[test]
    fn faults_are_read_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 768 0 3 0 1 2 0 0 20 0 1 0 9";
        assert_eq!(minor_faults(stat), Some(768));
        assert_eq!(minor_faults("7 (cut) S 1"), None);
        assert_eq!(minor_faults(""), None);
        let (before, touched) = (faults().unwrap(), vec![1_u8; 4 << 20]);
        assert!(faults().unwrap() > before, "{}", touched.len());
    }

    #[test]
    fn the_program_goes_on_without_its_pages() {
        give_back();
        give_back();
        assert_eq!("still here".to_uppercase(), "STILL HERE");
    }
}
