//! What became of a step: done, left out and said, or the end of it all.

use std::io;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::mounts::ViewError;
use crate::report::{Event, Failed};
use crate::step::Step;

/// The longest text of an event, so that a line is written to the pipe in one piece.
const MAX_TEXT: usize = 1 << 10;

/// A step failed; nothing is executed.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct SetupError {
    /// Which.
    pub step: Step,
    /// What was tried, with the object.
    pub detail: Box<str>,
    /// Why.
    #[source]
    pub source: io::Error,
}

impl From<ViewError> for SetupError {
    fn from(error: ViewError) -> Self {
        Self {
            step: error.step,
            source: error.errno.into(),
            detail: error.detail.into(),
        }
    }
}

impl SetupError {
    pub(crate) fn new(step: Step, errno: Errno, detail: impl Into<Box<str>>) -> Self {
        Self {
            step,
            detail: detail.into(),
            source: errno.into(),
        }
    }

    fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }

    /// Whether the kernel, or whoever contains this machine, does not offer such a thing at all.
    fn is_unavailable(&self) -> bool {
        let absent = [
            libc::EPERM,
            libc::EACCES,
            libc::ENOSYS,
            libc::EINVAL,
            libc::EOPNOTSUPP,
        ];
        absent.contains(&self.errno())
    }
}

/// Says in which step something failed.
pub(crate) trait During<T> {
    fn during(self, step: Step, detail: impl FnOnce() -> String) -> Result<T, SetupError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, step: Step, detail: impl FnOnce() -> String) -> Result<T, SetupError> {
        self.map_err(|source| SetupError {
            step,
            detail: detail().into(),
            source: source.into(),
        })
    }
}

/// Whether a step may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// Where the unit asks for best effort.
    IfAsked,
    /// Also where the machine does not offer it at all: systemd documents that such a directive then has no effect.
    IfUnavailable,
}

/// Says what becomes of a process in the making, as the lines of a [`Report`](crate::Report), and remembers what may be left
/// out.
#[derive(Debug)]
pub struct Reporter {
    pipe: OwnedFd,
    best_effort: bool,
}

impl Reporter {
    /// Writes to a pipe or a file.
    #[must_use]
    pub fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe,
            best_effort: false,
        }
    }

    pub(crate) fn allow_best_effort(&mut self, best_effort: bool) {
        self.best_effort = best_effort;
    }

    /// Passes over the failure of a step that may be left out, and says so.
    pub(crate) fn lenient<T>(
        &self,
        directives: &str,
        leniency: Leniency,
        result: Result<T, SetupError>,
    ) -> Result<Option<T>, SetupError> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) => {
                let unavailable = leniency == Leniency::IfUnavailable && error.is_unavailable();
                if !self.best_effort && !unavailable {
                    return Err(error);
                }
                self.dropped(directives, &format!("{error}: {}", error.source));
                Ok(None)
            }
        }
    }

    /// Says that something was left out.
    pub fn dropped(&self, directives: &str, why: &str) {
        let text = format!("{directives}: {why}");
        self.say(&Event::Dropped(vec![shortened(&text).into()]));
    }

    /// Says why nothing is executed.
    pub(crate) fn failed(&self, error: &SetupError) {
        self.say(&Event::Failed(Failed {
            step: error.step.exit_code(),
            errno: error.errno(),
            detail: shortened(&error.detail).into(),
        }));
    }

    /// Says which process is the program.
    pub(crate) fn runs(&self, pid: u32) {
        self.say(&Event::Runs(pid));
    }

    fn say(&self, event: &Event) {
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        self.write(&line);
    }

    /// Writes a line with a single call. The exit code says the most important thing too, so it does not matter much
    /// whether somebody is there to read it; and the signal for that is ignored.
    pub(crate) fn write(&self, line: &[u8]) {
        // Nobody else can be told.
        let _ = rustix::io::write(&self.pipe, line);
    }
}

pub(crate) fn shortened(text: &str) -> &str {
    let end = (0..=MAX_TEXT.min(text.len())).rev();
    let end = end.into_iter().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or("")
}
