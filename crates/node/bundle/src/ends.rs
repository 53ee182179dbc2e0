//! How a program ended, recorded by its unit while nobody else may be there.
//!
//! The init system runs the unit's last command after each end and tells it in its environment what happened. Whether the
//! kernel killed for want of memory is in a counter of the instance's cgroup, whose place was noted when it started.

use std::path::PathBuf;

use crate::place::{EndRecord, Place, PlaceError, RecordedEnd, RunRecord, read_bounded};

/// Records the end that the environment (`EXIT_CODE`, `EXIT_STATUS`) tells about, if anything had been started.
pub fn record(place: &Place, run: &RunRecord) -> Result<(), PlaceError> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let end = read(&variable("EXIT_CODE"), &variable("EXIT_STATUS"), || {
        killed_for_memory(place)
    });
    match end {
        Some(end) => place.write_end(&EndRecord { run: run.run, end }),
        None => Ok(()),
    }
}

fn killed_for_memory(place: &Place) -> bool {
    let read = |path: PathBuf| read_bounded(&path).ok().flatten();
    let counters = read(place.memory_events())
        .and_then(|path| String::from_utf8(path).ok())
        .and_then(|path| read(PathBuf::from(path)));
    counters.is_some_and(|counters| has_killed(&String::from_utf8_lossy(&counters)))
}

/// Whether the kernel killed somebody for want of memory, by the counters of either version of cgroups.
fn has_killed(counters: &str) -> bool {
    let mut words = counters.lines().filter_map(|line| line.split_once(' '));
    words.any(|(name, count)| name == "oom_kill" && count.trim() != "0")
}

/// The words of the init system. A process that was killed, where the kernel has killed for want of memory, died of that.
fn read(code: &str, status: &str, for_memory: impl FnOnce() -> bool) -> Option<RecordedEnd> {
    match code {
        "exited" => Some(RecordedEnd::Exited(status.parse().ok()?)),
        "killed" | "dumped" => {
            let signal = signal_number(status)?;
            Some(match signal == SIGKILL && for_memory() {
                true => RecordedEnd::OutOfMemory,
                false => RecordedEnd::Signalled(signal),
            })
        }
        // Nothing had been started.
        _ => None,
    }
}

const SIGKILL: i32 = 9;
/// Without `SIG`, in the order of their numbers, which is the same on all architectures that Muster is built for.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn signal_number(name: &str) -> Option<i32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let index = SIGNALS.iter().position(|known| *known == name)?;
    i32::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_init_systems_words_are_ends() {
        let end = |code, status| read(code, status, || false);
        assert_eq!(end("exited", "3"), Some(RecordedEnd::Exited(3)));
        assert_eq!(end("killed", "TERM"), Some(RecordedEnd::Signalled(15)));
        assert_eq!(end("dumped", "SEGV"), Some(RecordedEnd::Signalled(11)));
        assert_eq!(end("killed", "SYS"), Some(RecordedEnd::Signalled(31)));
        assert_eq!(end("killed", "34"), Some(RecordedEnd::Signalled(34)));
        assert_eq!(end("", ""), None);
        assert_eq!(end("exited", "many"), None);
        assert_eq!(
            read("killed", "KILL", || true),
            Some(RecordedEnd::OutOfMemory)
        );
        // The kernel killed somebody else in the instance, and later the instance was ended.
        assert_eq!(
            read("killed", "TERM", || true),
            Some(RecordedEnd::Signalled(15))
        );
    }

    #[test]
    fn kills_for_memory_are_read_from_both_versions() {
        assert!(has_killed("low 0\noom 1\noom_kill 1\noom_group_kill 0\n"));
        assert!(has_killed("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"));
        assert!(!has_killed("oom 3\noom_kill 0\n"));
        assert!(!has_killed(""));
    }
}
