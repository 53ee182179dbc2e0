//! Resource limits, in two parts: what needs rights while there are any, what hampers this process itself at the end.

use rustix::io::Errno;

use super::outcome::SetupError;
use crate::child::{self, Failure};
use crate::context::Limit;
use crate::step::Step;

/// The number of processes counts when the user is changed, so it has to be set before.
const NPROC: u32 = libc::RLIMIT_NPROC;

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
