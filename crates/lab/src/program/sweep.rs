//! Ending everything that a program started.
//!
//! A process belongs to a run when it carries the run's marker in its environment, is in the session of
//! the run's main process, or descends from it. The last two hold only while the main process exists, at
//! least as a zombie, since its pid is its own until then: [`Family::remember`] is therefore called
//! before it is reaped. Signals go through pidfds, so a pid that was used again is never hit.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::procs::{ProcessRow, descendants, environment_has, process_row, process_table};

/// The processes of one run besides its main process.
#[derive(Debug)]
pub(super) struct Family {
    /// The environment entries that mark the run, and earlier ones of the same program.
    markers: Vec<String>,
    remembered: Vec<OwnedFd>,
}

impl Family {
    pub(super) fn new(marker: String) -> Self {
        Self {
            markers: vec![marker],
            remembered: Vec::new(),
        }
    }

    /// Holds on to what the main process leaves behind. To be called while `main` is not reaped.
    pub(super) fn remember(&mut self, main: Pid) -> io::Result<()> {
        let main = main.as_raw_nonzero().get();
        let table = process_table()?;
        for row in related(&table, main) {
            self.remembered.extend(open_verified(row));
        }
        Ok(())
    }

    /// Takes over what an earlier run left behind.
    pub(super) fn adopt(&mut self, earlier: &mut Self) {
        self.markers.append(&mut earlier.markers);
        self.remembered.append(&mut earlier.remembered);
    }

    /// Kills every process of the family, and `main` while it is not reaped, until none is left.
    pub(super) fn kill_all(&mut self, main: Option<Pid>, within: Duration) -> io::Result<()> {
        let until = Instant::now() + within;
        let main = main.map(|pid| Ok::<_, io::Error>((pid, pidfd_open(pid, PidfdFlags::empty())?)));
        let main = main.transpose()?;
        loop {
            // Asked before the table is read: a main process that still runs may add to it.
            let main_ended = main.as_ref().is_none_or(|(_, process)| has_ended(process));
            self.find_all(main.as_ref().map(|(pid, _)| *pid))?;
            if main_ended && self.remembered.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let left = self.remembered.len();
                return Err(io::Error::other(format!(
                    "{left} processes survive SIGKILL"
                )));
            }
            for process in self
                .remembered
                .iter()
                .chain(main.iter().map(|(_, process)| process))
            {
                // The only failure is that there is nobody left to kill.
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            if let Some((_, process)) = &main {
                wait_ended(process, Duration::from_millis(100))?;
            }
            for process in &self.remembered {
                wait_ended(process, Duration::from_millis(100))?;
            }
            self.remembered.retain(|process| !has_ended(process));
        }
    }

    fn find_all(&mut self, main: Option<Pid>) -> io::Result<()> {
        if let Some(main) = main {
            self.remember(main)?;
        }
        if self.markers.is_empty() {
            return Ok(());
        }
        for row in process_table()?.iter().filter(|row| !row.is_zombie()) {
            let marked = self
                .markers
                .iter()
                .any(|marker| environment_has(row.pid, marker));
            if marked && main.is_none_or(|main| main.as_raw_nonzero().get() != row.pid) {
                self.remembered.extend(open_verified(row));
            }
        }
        Ok(())
    }
}

fn related(table: &[ProcessRow], main: i32) -> Vec<&ProcessRow> {
    let mut rows = descendants(table, main);
    let below: Vec<i32> = rows.iter().map(|row| row.pid).collect();
    rows.extend(
        table
            .iter()
            .filter(|row| row.session == main && row.pid != main && !below.contains(&row.pid)),
    );
    rows.retain(|row| !row.is_zombie());
    rows
}

/// A handle on the process of `row`, unless it has ended: another process may have its pid by now.
fn open_verified(row: &ProcessRow) -> Option<OwnedFd> {
    let process = pidfd_open(Pid::from_raw(row.pid)?, PidfdFlags::empty()).ok()?;
    (process_row(row.pid)?.start_time == row.start_time).then_some(process)
}

/// A pidfd is readable once its process has ended, reaped or not.
fn has_ended(process: &OwnedFd) -> bool {
    wait_ended(process, Duration::ZERO).unwrap_or(true)
}

/// Waits for the process to end; false when it has not.
pub(super) fn wait_ended(process: &OwnedFd, within: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = left.try_into().map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
