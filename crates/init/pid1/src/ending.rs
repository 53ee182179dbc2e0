//! Ending the processes that are left at the shutdown.

use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, wait};

use crate::report::{Level, say};
use crate::signals::{SignalReader, signal_everything};

/// For processes that were killed to be gone; repeated, since dying processes leave children behind.
const KILL_TIME: Duration = Duration::from_secs(1);
const KILL_ROUNDS: usize = 5;
/// So many processes are named when they have to be killed.
const MOST_NAMED: usize = 10;

/// Whom it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All processes of the PID namespace, for its PID 1.
    Everything,
    /// Only those that descend from this process.
    Descendants,
}

/// Asks all processes to end, and kills those that have not after `grace`. Returns when none is left, or when
/// nothing more can be done.
pub fn end_processes(scope: Scope, signals: &SignalReader, grace: Duration) {
    if !has_children() {
        return;
    }
    signal(scope, Signal::TERM);
    // A process that is stopped cannot end.
    signal(scope, Signal::CONT);
    if wait_for_none(signals, grace) {
        return;
    }
    name_the_rest();
    for _ in 0..KILL_ROUNDS {
        signal(scope, Signal::KILL);
        if wait_for_none(signals, KILL_TIME) {
            return;
        }
    }
    say(
        Level::Error,
        format_args!("some processes cannot be killed"),
    );
}

/// Reaps what has ended; whether there is still a child. Every other process descends from one.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn wait_for_none(signals: &SignalReader, time: Duration) -> bool {
    let start = Instant::now();
    while has_children() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return false;
        }
        let timeout = Timespec::try_from(left).ok();
        // Returns with each child that ends; what else arrives is of no interest any more.
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], timeout.as_ref());
        signals.read(&mut |_| {});
    }
    true
}

fn signal(scope: Scope, signal: Signal) {
    match scope {
        Scope::Everything => signal_everything(signal.as_raw()),
        Scope::Descendants => {
            for pid in descendants() {
                // It may have ended in the meantime. No other process can have got its number yet, since this
                // process is the one that reaps.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }
}

fn name_the_rest() {
    for pid in descendants().into_iter().take(MOST_NAMED) {
        let pid = pid.as_raw_nonzero();
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim_end();
        say(
            Level::Warning,
            format_args!("process {pid} ({name}) did not end and is killed"),
        );
    }
}

/// The processes that descend from this one.
fn descendants() -> Vec<Pid> {
    let table = process_table();
    let own = rustix::process::getpid();
    let mut found: Vec<Pid> = Vec::new();
    let mut parents = vec![own];
    while let Some(parent) = parents.pop() {
        for (pid, parent_of) in &table {
            if *parent_of == Some(parent) && *pid != own && !found.contains(pid) {
                found.push(*pid);
                parents.push(*pid);
            }
        }
    }
    found
}

/// Each process with its parent.
fn process_table() -> Vec<(Pid, Option<Pid>)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((Pid::from_raw(number)?, parent(&stat)))
        })
        .collect()
}

/// The parent stands behind the name, which may itself contain parentheses, and the state.
fn parent(stat: &str) -> Option<Pid> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let number = fields.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Pid::from_raw(number)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent("7 (a) R (b) S 3 1 1"), Pid::from_raw(3));
        assert_eq!(parent("7 (a) S 0 1 1"), None);
        assert_eq!(parent("7 (cut"), None);
    }

    #[test]
    fn children_are_among_the_descendants() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let found = descendants();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&Pid::from_child(&child)));
        assert!(!found.contains(&rustix::process::getpid()));
    }
}
