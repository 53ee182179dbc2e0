//! A copy of the calling process that does one thing and ends.

#![expect(
    unsafe_code,
    reason = "copying a process, and ending one at once, are calls that no library has a safe function for"
)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

/// The threads of this process.
const TASKS: &str = "/proc/self/task";

/// Does some work in a copy of this process, which ends with it, and gives the number of the copy: it is this process's child,
/// to be waited for. The copy exits with 0 if the work says that it is done, and with 1 if not or if it panics; nothing
/// that this process does at its own end is done there.
///
/// # Errors
/// There is no room for a process, or this one has more than one thread: in the copy, what the others were in the middle of
/// would stay so for ever.
pub fn in_a_copy(work: impl FnOnce() -> bool) -> io::Result<Pid> {
    if std::fs::read_dir(TASKS)?.count() != 1 {
        return Err(io::Error::other("this process has several threads"));
    }
    // SAFETY: there is one thread, as was just seen, so nobody holds a lock or is in the middle of something in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Nobody above must go on with a copy of the caller.
            let is_done = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: nothing of this process is used any more.
            unsafe { libc::_exit(i32::from(!is_done)) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The harness has threads of its own, beside that of each test.
    #[test]
    fn a_process_of_several_threads_is_not_copied() {
        let refused = in_a_copy(|| true).unwrap_err();
        assert_eq!(refused.to_string(), "this process has several threads");
    }
}
