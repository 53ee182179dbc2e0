//! Settings of the caller's that a child changes, since they belong to the memory that both share.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::prepared::Prepared;

const COREDUMP_FILTER: &str = "/proc/self/coredump_filter";
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Leaving a memory for another takes no time of note; a child that is killed just then does not keep its caller.
const LIMIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What the caller had before.
pub(super) struct OwnSettings {
    dumpable: Option<i32>,
    coredump_filter: Option<String>,
    oom_score: Option<String>,
}

impl OwnSettings {
    pub(super) fn before(prepared: &Prepared<'_>) -> Self {
        let context = prepared.context;
        let shares = context.identity.is_some();
        let coredump_filter = context.coredump_filter.and_then(|wanted| {
            // It belongs to the memory and is handed on at execution, so the caller sets its own for a moment.
            let own = std::fs::read_to_string(COREDUMP_FILTER).ok()?;
            std::fs::write(COREDUMP_FILTER, format!("{wanted:#x}")).ok()?;
            Some(format!("0x{}", own.trim()))
        });
        // The kernel gives all that share a memory the same score: the caller has the child's for a moment.
        let oom_score = context
            .oom_score_adjust
            .and_then(|_| std::fs::read_to_string(OOM_SCORE).ok());
        Self {
            dumpable: shares.then(get_dumpable),
            coredump_filter,
            oom_score,
        }
    }

    pub(super) fn restore(self) {
        if let Some(dumpable) = self.dumpable.filter(|dumpable| *dumpable == 1) {
            set_dumpable(dumpable);
        }
        // They were written a moment ago; nothing that could be done about a failure is left.
        if let Some(filter) = self.coredump_filter {
            let _ = std::fs::write(COREDUMP_FILTER, filter);
        }
        if let Some(score) = self.oom_score {
            let _ = std::fs::write(OOM_SCORE, score.trim());
        }
    }
}

/// Tells that a child has a memory of its own: it keeps the other end until its program is executed. The word of
/// [`Shared`](super::shared::Shared) is cleared a moment before, and a caller that then takes its own score back would take the
/// child's with it.
#[derive(Debug)]
pub(super) struct Parted {
    near: OwnedFd,
    far: OwnedFd,
}

impl Parted {
    /// For a child that changes its score; no other needs it.
    pub(super) fn of(prepared: &Prepared<'_>) -> Result<Option<Self>, Errno> {
        let score = prepared.context.oom_score_adjust;
        score.map(|_| Self::new()).transpose()
    }

    fn new() -> Result<Self, Errno> {
        let (near, far) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { near, far })
    }

    /// What the child is to keep.
    pub(super) fn far_end(&self) -> BorrowedFd<'_> {
        self.far.as_fd()
    }

    /// Waits for a child that has left, or is about to leave, the memory.
    pub(super) fn wait(self) {
        let Self { near, far } = self;
        drop(far);
        let mut ends = [PollFd::new(&near, PollFlags::empty())];
        while matches!(poll(&mut ends, Some(&LIMIT)), Err(Errno::INTR)) {}
    }
}

#[expect(unsafe_code, reason = "no safe function asks for this")]
fn get_dumpable() -> i32 {
    // SAFETY: no addresses are involved.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }
}

#[expect(unsafe_code, reason = "no safe function sets this")]
fn set_dumpable(dumpable: i32) {
    // SAFETY: no addresses are involved.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
}
