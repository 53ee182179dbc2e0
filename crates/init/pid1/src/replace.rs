//! Executing init's own program anew, under the same pid and with everything that is kept.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

use crate::launch::{c_string, execute_in_place, start_helper};
use crate::options::{CHECK_STATE, RESUME};
use crate::state::{State, StateError};

/// For the new program to say that it can read the state.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// A state is not larger: sixteen thousand names of three hundred bytes are five megabytes.
const LARGEST_STATE: u64 = 16 << 20;

/// Why init was not executed anew. Everything is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The state could not be put into memory that outlives the program.
    #[error("cannot write the state")]
    WriteState(#[source] io::Error),
    /// The new program could not be asked.
    #[error("cannot run {} to check the state", path.display())]
    Check {
        /// The program.
        path: std::path::PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The new program does not run, or does not understand the state.
    #[error("{} cannot take over", path.display())]
    CannotTakeOver {
        /// The program.
        path: std::path::PathBuf,
    },
    /// The new program could not be executed.
    #[error("cannot execute {}", path.display())]
    Execute {
        /// The program.
        path: std::path::PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
}

/// Why the state of the former init could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The descriptor cannot be read.
    #[error("cannot read the former state from descriptor {descriptor}")]
    Read {
        /// Its number.
        descriptor: RawFd,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// What it holds is damaged.
    #[error("cannot understand the former state")]
    Damaged(#[source] StateError),
}

/// Executes `path` in place of this program. Returns only when that was not possible.
///
/// The new program is first asked whether it runs and understands the state, since after the exec there is no
/// way back: a PID 1 that dies takes the machine with it.
pub fn replace(path: &CStr, arguments: &[OsString], state: &State) -> ReplaceError {
    let memory = match write_state(state) {
        Ok(memory) => memory,
        Err(error) => return ReplaceError::WriteState(error),
    };
    let named = || std::path::PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes()));
    let option = |option: &str| c_string(format!("{option}={}", memory.as_raw_fd()).as_bytes());
    let name = c"muster-init".to_owned();
    match check(path, vec![name.clone(), option(CHECK_STATE)]) {
        Ok(true) => {}
        Ok(false) => return ReplaceError::CannotTakeOver { path: named() },
        Err(source) => {
            return ReplaceError::Check {
                path: named(),
                source,
            };
        }
    }
    let mut line: Vec<CString> = vec![name, option(RESUME)];
    line.extend(
        arguments
            .iter()
            .map(|argument| c_string(argument.as_bytes())),
    );
    inherit(state, FdFlags::empty());
    let source = execute_in_place(path, line);
    inherit(state, FdFlags::CLOEXEC);
    ReplaceError::Execute {
        path: named(),
        source,
    }
}

/// Memory that is not close-on-exec, with the state in it.
fn write_state(state: &State) -> io::Result<OwnedFd> {
    let memory = memfd_create(c"muster-init", MemfdFlags::empty())?;
    let bytes = state.encode();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let written = rustix::io::write(&memory, rest)?;
        rest = &rest[written..];
    }
    Ok(memory)
}

/// Lets the new program read the state in a child; whether it could.
fn check(path: &CStr, arguments: Vec<CString>) -> io::Result<bool> {
    let pid = start_helper(path, arguments)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Timespec::try_from(CHECK_TIME).ok();
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    let ended = poll(&mut polled, deadline.as_ref());
    if !matches!(ended, Ok(1..)) {
        pidfd_send_signal(&pidfd, Signal::KILL)?;
    }
    let waited = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
    Ok(waited.is_some_and(|(_, status)| status.exit_status() == Some(0)))
}

/// Sets whether the descriptors of a state outlive an exec.
fn inherit(state: &State, flags: FdFlags) {
    for descriptor in state.descriptors() {
        if let Some(borrowed) = borrow(descriptor) {
            // It fails only for a descriptor that is not open, and the next init checks that.
            let _ = fcntl_setfd(borrowed, flags);
        }
    }
}

/// Reads the state that the former init left in a descriptor, which is closed afterwards.
pub fn resume(descriptor: RawFd) -> (State, Option<ResumeError>) {
    let read = match own(descriptor) {
        Some(memory) => read_state(&memory),
        None => Err(io::Error::from(rustix::io::Errno::BADF)),
    };
    match read {
        Ok(bytes) => {
            let (state, fault) = State::decode(&bytes);
            (state, fault.map(ResumeError::Damaged))
        }
        Err(source) => (
            State::default(),
            Some(ResumeError::Read { descriptor, source }),
        ),
    }
}

/// The descriptor is shared with whoever wrote it, position and all, so the position is always given.
fn read_state(memory: &OwnedFd) -> io::Result<Vec<u8>> {
    let size = u64::try_from(rustix::fs::fstat(memory)?.st_size).unwrap_or(0);
    if size > LARGEST_STATE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut read = 0;
    while read < bytes.len() {
        let more = rustix::io::pread(memory, &mut bytes[read..], read as u64)?;
        if more == 0 {
            bytes.truncate(read);
        }
        read += more;
    }
    Ok(bytes)
}

#[expect(
    unsafe_code,
    reason = "descriptors that come with the process are known by number only"
)]
fn borrow<'a>(descriptor: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: the callers use it at once, and only for calls that fail if it is not open.
    (descriptor > 2).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Takes a descriptor over that the former init left open; it is close-on-exec again.
#[expect(
    unsafe_code,
    reason = "descriptors that come with the process are known by number only"
)]
pub(crate) fn own(descriptor: RawFd) -> Option<OwnedFd> {
    fcntl_setfd(borrow(descriptor)?, FdFlags::CLOEXEC).ok()?;
    // SAFETY: it is open, and the former init named it as one that this one is to own. The state names each
    // descriptor once, and nothing was opened before the state was read.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
