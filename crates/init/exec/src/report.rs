//! What `muster-exec` says about its work: one JSON line per event, through a pipe that closes when it executes.

use serde::{Deserialize, Serialize};

use crate::step::Step;

/// More than this is never read from one process.
const MAX_BYTES: usize = 64 << 10;
/// More than this is never kept of one text.
const MAX_TEXT: usize = 1 << 10;
/// More drops than there are directives tell nobody anything.
const MAX_DROPPED: usize = 128;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// What could not be had and was left out: `Directive: why`.
    Dropped(Vec<Box<str>>),
    /// The process ends without executing anything.
    Failed(Failed),
    /// The program is another process than the one that was spawned: the child that has this number, where there is a
    /// namespace of processes between.
    Runs(u32),
}

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The exit code of the step.
    pub step: u8,
    /// The system's error number; 0 where there was none.
    pub errno: i32,
    /// What was tried, with the object.
    pub detail: Box<str>,
}

impl Failed {
    /// The step, if the number is that of one.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        Step::from_exit_code(self.step)
    }
}

/// What a `muster-exec` has said so far. It is complete at the end of the pipe; if nothing has [`failed`](Self::failed)
/// by then and the process is still there, the program was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What could not be had and was left out, as `Directive: why`.
    pub dropped: Vec<Box<str>>,
    /// Why the program was not executed.
    pub failed: Option<Failed>,
    /// The program's own pid, where it is not that of the process that was spawned (`PrivatePIDs=`).
    pub program: Option<u32>,
    /// A line that is not complete yet.
    rest: Vec<u8>,
    seen: usize,
}

impl Report {
    /// Takes what was read from the pipe, in pieces of any size. Lines that make no sense are passed over, and so is
    /// everything beyond a fixed size: the program's fate does not depend on them.
    pub fn take(&mut self, bytes: &[u8]) {
        let room = MAX_BYTES.saturating_sub(self.seen);
        let bytes = bytes.get(..room).unwrap_or(bytes);
        self.seen += bytes.len();
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice(&line) {
                self.add(event);
            }
        }
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Dropped(dropped) => {
                let room = MAX_DROPPED.saturating_sub(self.dropped.len());
                let dropped = dropped.into_iter().take(room);
                self.dropped.extend(dropped.map(shortened));
            }
            // The first reason is the reason; what fails while giving up is a consequence.
            Event::Failed(failed) if self.failed.is_none() => {
                self.failed = Some(Failed {
                    detail: shortened(failed.detail),
                    ..failed
                });
            }
            Event::Failed(_) => {}
            Event::Runs(pid) => self.program = Some(pid),
        }
    }
}

fn shortened(text: Box<str>) -> Box<str> {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].into()
}

#[cfg(test)]
mod tests;
