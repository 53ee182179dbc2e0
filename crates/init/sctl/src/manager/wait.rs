//! Jobs, from the request to their end, also across a restart of the manager.
//!
//! A request is answered first with the job's number, and again when the job ended. If the connection breaks in between,
//! the manager was replaced; it knows the same jobs, so the new one is asked for this one. If it does not know the job any
//! more, the job ended meanwhile, and the unit's state tells how.

use muster_control::manager::{
    ListJobsReply, StartTransientCall, SubmitCall, SubmitReply, SubscribeCall, SubscribeReply,
    UnitStatus, WaitJobCall, WaitWhat, error, method,
};
use std::os::fd::BorrowedFd;

use super::{Manager, ManagerError, Parts};

/// A request whose job may not have ended.
#[derive(Debug)]
pub(crate) struct Pending {
    unit: String,
    verb: String,
    wait: WaitWhat,
    /// Where the job stood last.
    state: SubmitReply,
    /// Further answers, while the connection stands.
    parts: Option<Parts<SubmitReply>>,
}

impl Pending {
    /// Queues a job and waits until the manager has it.
    ///
    /// # Errors
    /// It was refused, or the manager cannot be reached. If the manager went away before it answered, it is asked again,
    /// unless it is found to have the job.
    pub(crate) fn submit(manager: &mut Manager, call: &SubmitCall) -> Result<Self, ManagerError> {
        match Self::submit_once(manager, call) {
            Err(error) if error.is_lost() => {
                manager.come_back()?;
                let queued: ListJobsReply =
                    manager.ask(method::LIST_JOBS, &super::wire::Empty {})?;
                let Some(job) = queued.jobs.into_iter().find(|job| job.unit == call.unit) else {
                    return Self::submit_once(manager, call);
                };
                let state = SubmitReply {
                    unit: job.unit,
                    job: Some(job.id),
                    ..SubmitReply::default()
                };
                Ok(Self::new(&call.unit, &call.verb, call.wait, state, None))
            }
            pending => pending,
        }
    }

    fn submit_once(manager: &Manager, call: &SubmitCall) -> Result<Self, ManagerError> {
        let mut parts: Parts<SubmitReply> = manager.open(method::SUBMIT, call, &[])?;
        let first = parts.next().ok_or(ManagerError::Short)??;
        Ok(Self::new(
            &call.unit,
            &call.verb,
            call.wait,
            first,
            Some(parts),
        ))
    }

    /// Makes a transient unit and queues the job that starts it. Never asked twice.
    ///
    /// # Errors
    /// It was refused, or the manager cannot be reached.
    pub(crate) fn start_transient(
        manager: &Manager,
        call: &StartTransientCall,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Self, ManagerError> {
        let mut parts: Parts<SubmitReply> =
            manager.open(method::START_TRANSIENT, call, descriptors)?;
        let first = parts.next().ok_or(ManagerError::Short)??;
        Ok(Self::new(
            &call.unit,
            "start",
            call.wait,
            first,
            Some(parts),
        ))
    }

    fn new(
        unit: &str,
        verb: &str,
        wait: WaitWhat,
        state: SubmitReply,
        parts: Option<Parts<SubmitReply>>,
    ) -> Self {
        Self {
            unit: unit.to_owned(),
            verb: verb.to_owned(),
            wait,
            state,
            parts,
        }
    }

    /// Where the job stood when it was queued.
    pub(crate) fn queued(&self) -> &SubmitReply {
        &self.state
    }

    /// Waits for the end of the job, and, if that was asked for, of the unit's run.
    ///
    /// # Errors
    /// The manager went away and did not come back.
    pub(crate) fn finish(mut self, manager: &mut Manager) -> Result<SubmitReply, ManagerError> {
        let mut parts = self.parts.take();
        while let Some(open) = &mut parts {
            match open.next() {
                Some(Ok(reply)) => self.state = reply,
                Some(Err(error)) if error.is_lost() => break,
                Some(Err(error)) => return Err(error),
                None => return Ok(self.state),
            }
        }
        self.find_again(manager)
    }

    /// The manager was replaced: asks the new one.
    fn find_again(mut self, manager: &mut Manager) -> Result<SubmitReply, ManagerError> {
        manager.come_back()?;
        if self.state.result.is_none() {
            self.state = match self.state.job {
                Some(job) => self.job_again(job, manager)?,
                None => self.judged_by(&manager.status(&self.unit)?),
            };
        }
        if self.wait == WaitWhat::Inactive && !is_down(&self.state.active) {
            let result = self.state.result.take();
            self.state = self.judged_by(&until_down(&self.unit, manager)?);
            self.state.result = result;
        }
        Ok(self.state)
    }

    fn job_again(&self, job: u32, manager: &mut Manager) -> Result<SubmitReply, ManagerError> {
        loop {
            let call = WaitJobCall { job };
            let answer = manager
                .open::<_, SubmitReply>(method::WAIT_JOB, &call, &[])
                .and_then(|parts| parts.last().ok_or(ManagerError::Short)?);
            match answer {
                Ok(reply) => return Ok(reply),
                Err(error) if error.is(error::NO_SUCH_JOB) => {
                    return Ok(self.judged_by(&manager.status(&self.unit)?));
                }
                Err(error) if error.is_lost() => manager.come_back()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// What the unit's state says about a job that is gone.
    fn judged_by(&self, status: &UnitStatus) -> SubmitReply {
        SubmitReply {
            unit: status.row.name.clone(),
            job: self.state.job,
            result: Some(verdict(&self.verb, &status.row.active).to_owned()),
            active: status.row.active.clone(),
            sub: status.row.sub.clone(),
            outcome: status.outcome.clone(),
            invocation: status.invocation.clone(),
            ..SubmitReply::default()
        }
    }
}

/// How a job must have ended if its unit is in this state now.
fn verdict(verb: &str, active: &str) -> &'static str {
    let down = is_down(active);
    match verb {
        "stop" => {
            if down {
                "done"
            } else {
                "canceled"
            }
        }
        // Units that are down are none of their business.
        "try-restart" | "try-reload-or-restart" if active != "failed" => "done",
        // A unit that does its work and is down again has been up.
        _ if active == "failed" => "failed",
        _ => "done",
    }
}

fn is_down(active: &str) -> bool {
    matches!(active, "inactive" | "failed")
}

/// Waits until a unit is down.
fn until_down(unit: &str, manager: &mut Manager) -> Result<UnitStatus, ManagerError> {
    loop {
        let call = SubscribeCall {
            since: None,
            units: vec![unit.to_owned()],
        };
        // Opened before the state is looked at, so that no change is missed between the two.
        let events = manager.open::<_, SubscribeReply>(method::SUBSCRIBE, &call, &[])?;
        for event in events {
            match event {
                Ok(_) => {}
                Err(error) if error.is_lost() => break,
                Err(error) => return Err(error),
            }
            let status = manager.status(unit)?;
            if is_down(&status.row.active) {
                return Ok(status);
            }
        }
        manager.come_back()?;
        let status = manager.status(unit)?;
        if is_down(&status.row.active) {
            return Ok(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_job_is_judged_by_its_unit() {
        for (verb, active, result) in [
            ("start", "active", "done"),
            ("start", "failed", "failed"),
            ("start", "inactive", "done"),
            ("stop", "inactive", "done"),
            ("stop", "failed", "done"),
            ("stop", "active", "canceled"),
            ("try-restart", "inactive", "done"),
            ("try-restart", "failed", "failed"),
            ("restart", "failed", "failed"),
        ] {
            assert_eq!(verdict(verb, active), result, "{verb} {active}");
        }
    }
}
