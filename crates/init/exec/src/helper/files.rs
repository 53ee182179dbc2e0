//! Files of streams that the manager does not wait for: they are where nobody may answer.

use std::ffi::CString;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use super::calls;
use super::outcome::{During, SetupError};
use crate::child::streams::open;
use crate::job::{AwaitedFile, FileOrStream, Job};
use crate::prepared::open_flags;
use crate::step::Step;

/// Opens them, and connects their streams.
pub(super) fn take(job: &Job) -> Result<(), SetupError> {
    for AwaitedFile { stream, file } in &job.files {
        let (step, name) = match stream {
            0 => (Step::Stdin, "standard input"),
            1 => (Step::Stdout, "standard output"),
            _ => (Step::Stderr, "standard error"),
        };
        let number = i32::from(*stream);
        match file {
            FileOrStream::File(path, access) => {
                let cannot = || format!("cannot open {path} for {name}");
                let opened = opened(path, open_flags(*access), job.stream_mode, step);
                let opened = opened.during(step, cannot)?;
                calls::duplicate(&opened, number).during(step, cannot)?;
            }
            FileOrStream::Same(other) => {
                let cannot = || format!("cannot connect {name}");
                let copy = match other {
                    0 => std::io::stdin().as_fd().try_clone_to_owned(),
                    _ => std::io::stdout().as_fd().try_clone_to_owned(),
                };
                let copy = copy.during(step, cannot)?;
                calls::duplicate(&copy, number).during(step, cannot)?;
            }
        }
    }
    Ok(())
}

fn opened(path: &str, flags: i32, mode: u16, step: Step) -> Result<OwnedFd, Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    let file = open(path.as_ptr(), flags, mode, step);
    let file = file.map_err(|failure| Errno::from_raw_os_error(failure.errno))?;
    calls::take(file)
}
