//! Resource limits, in two parts: what needs rights while there are any, what hampers this process itself at the end.

use rustix::io::Errno;

use super::outcome::SetupError;
use crate::child::{self, Failure};
use crate::context::Limit;
use crate::step::Step;

/// The number of processes counts when the user is changed, so it has to be set before.
const NPROC: u32 = libc::RLIMIT_NPROC;
/// The last one that the kernel has.
const LAST: u32 = libc::RLIMIT_RTTIME;

/// Does something while all of the limits are in force, and which may change them. Gives what came of it, and the limits that
/// the program gets: what was changed, and what was asked for otherwise. This process has those from before again: it still
/// has to open files and take memory.
pub(super) fn in_force<T>(
    limits: &[Limit],
    work: impl FnOnce() -> Result<T, SetupError>,
) -> Result<(T, Vec<Limit>), SetupError> {
    let before = all()?;
    for limit in limits {
        child::set_limit(limit).map_err(|failure| failed(limit, failure))?;
    }
    let done = work();
    let after = all();
    for limit in &before {
        // One that may not be raised again is as low as it will be for the program.
        let _ = child::set_limit(limit);
    }
    let is_asked = |limit: &Limit| limits.iter().any(|one| one.resource == limit.resource);
    let mut after = after?;
    after.retain(|limit| is_asked(limit) || !before.contains(limit));
    Ok((done?, after))
}

/// All limits of this process.
fn all() -> Result<Vec<Limit>, SetupError> {
    let mut limits = Vec::new();
    for resource in 0..=LAST {
        let none = Limit {
            resource,
            soft: 0,
            hard: 0,
        };
        let current = child::current_limit(resource);
        let [soft, hard] = current.map_err(|failure| failed(&none, failure))?;
        limits.push(Limit { soft, hard, ..none });
    }
    Ok(limits)
}

/// Raises what may have to be raised. Nothing gets lower than it is, but for the number of processes.
pub(super) fn raise(limits: &[Limit]) -> Result<(), SetupError> {
    for limit in limits {
        let early = if limit.resource == NPROC {
            Some(*limit)
        } else {
            raised(limit)?
        };
        if let Some(early) = early {
            child::set_limit(&early).map_err(|failure| failed(limit, failure))?;
        }
    }
    Ok(())
}

/// Sets all of them. Allocates nothing.
pub(super) fn set(limits: &[Limit]) -> Result<(), SetupError> {
    for limit in limits.iter().filter(|limit| limit.resource != NPROC) {
        child::set_limit(limit).map_err(|failure| failed(limit, failure))?;
    }
    Ok(())
}

/// The limit that leaves room for the wanted one, if there is not enough yet.
fn raised(wanted: &Limit) -> Result<Option<Limit>, SetupError> {
    let [soft, hard] =
        child::current_limit(wanted.resource).map_err(|failure| failed(wanted, failure))?;
    let too_low = wanted.hard > hard;
    Ok(too_low.then_some(Limit {
        resource: wanted.resource,
        soft,
        hard: wanted.hard,
    }))
}

fn failed(limit: &Limit, failure: Failure) -> SetupError {
    let errno = Errno::from_raw_os_error(failure.errno);
    let detail = format!("cannot set resource limit number {}", limit.resource);
    SetupError::new(Step::Limits, errno, detail)
}
