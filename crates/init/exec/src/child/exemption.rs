//! Opening what the program will not be able to open.

use std::io;
use std::os::fd::BorrowedFd;

use super::{Failure, Plan, moved};
use crate::bpf;
use crate::step::Step;

/// The restriction of the group does not hold for this process until its program is executed.
pub(super) fn begin(plan: &Plan<'_>) -> Result<(), Failure> {
    note(plan, bpf::begin_exemption)
}

/// It holds from now on; whoever is given the map ends that itself.
pub(super) fn end(plan: &Plan<'_>) -> Result<(), Failure> {
    let handed_on = plan.context.passed.iter().map(|passed| Some(passed.fd));
    if handed_on
        .into_iter()
        .any(|fd| fd == plan.context.exemptions)
    {
        return Ok(());
    }
    note(plan, bpf::end_exemption)
}

fn note(plan: &Plan<'_>, how: fn(BorrowedFd<'_>) -> io::Result<()>) -> Result<(), Failure> {
    let Some(index) = plan.context.exemptions else {
        return Ok(());
    };
    let number = moved(plan, index);
    let failed = |errno| Failure {
        step: Step::Bpf,
        errno,
        index: 0,
    };
    if number < 0 {
        return Err(failed(libc::EBADF));
    }
    // SAFETY: it is one of the descriptors that the context was prepared with, and open until the program is executed.
    let map = unsafe { BorrowedFd::borrow_raw(number) };
    how(map).map_err(|error| failed(error.raw_os_error().unwrap_or(libc::EIO)))
}
