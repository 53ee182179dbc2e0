//! Jobs: submitted, waited for, cancelled, listed.

use std::collections::HashMap;

use muster_control::manager::{
    CancelCall, ListJobsReply, SubmitCall, SubmitReply, WaitJobCall, WaitWhat, error,
};
use muster_engine::event::{Answer, LoadState, Request, What};
use muster_engine::ids::{JobId, RequestId, UnitId};
use muster_engine::job::{JobMode, JobResult, JobVerb};
use muster_engine::protocol::{ExitStatus, Role};
use muster_engine::transaction::Refusal;
use muster_unit_file::name::UnitName;
use muster_varlink::{CallId, CallMode, IncomingCall, Reply};

use super::Control;
use super::dispatch::Handled;
use super::fault::Fault;
use super::rows;
use crate::core::Core;

/// A client that submitted something.
#[derive(Debug)]
struct Submitted {
    call: CallId,
    /// The unit as it was asked for.
    unit: Box<str>,
    wait: WaitWhat,
    /// It wants to hear of the end, too.
    to_the_end: bool,
    told: Told,
    job: Option<JobId>,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// For the answer to a request, or the end of its job.
    submitted: HashMap<RequestId, Submitted>,
    /// For the end of a job that somebody else may have queued.
    jobs: HashMap<JobId, Vec<CallId>>,
    /// For a unit to be down, with how its job ended.
    downs: HashMap<UnitId, Vec<(Submitted, Option<JobResult>)>>,
}

impl Waiters {
    pub(super) fn has(&self, request: RequestId) -> bool {
        self.submitted.contains_key(&request)
    }
}

/// What a client asked for, in the engine's terms.
pub(super) struct Wanted<'a> {
    pub(super) unit: &'a str,
    pub(super) verb: JobVerb,
    pub(super) mode: JobMode,
    pub(super) wait: WaitWhat,
    /// A person asked for exactly this.
    pub(super) manual: bool,
    pub(super) told: Told,
}

/// What the client is told of how its request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The job, and its end if it wants to hear of that.
    Job,
    /// That it was taken; nothing else.
    Nothing,
    /// That it is done; nothing else.
    Done,
}

pub(super) fn mode_of(text: &str) -> Result<JobMode, Fault> {
    if text.is_empty() {
        return Ok(JobMode::Replace);
    }
    let mode = JobMode::ALL.into_iter().find(|mode| mode.as_str() == text);
    mode.ok_or_else(|| {
        let known = JobMode::ALL.map(JobMode::as_str).join(", ");
        Fault::invalid(
            text,
            format!("'{text}' is not a job mode; there are {known}."),
        )
    })
}

impl Core {
    pub(super) fn submit(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: SubmitCall = call.parameters.read()?;
        let mode = mode_of(&wanted.mode)?;
        let unit = self.load_for_change(&wanted.unit)?;
        let is_missing = self.engine.find(unit.as_str()).is_none_or(|id| {
            let record = self.engine.unit(id);
            record.load == LoadState::NotFound && record.active().is_down()
        });
        if is_missing && wanted.verb == "stop" {
            // There is nothing to do, but whoever misspelt a name wants to know.
            return Err(Fault::no_such_unit(unit.as_str()));
        }
        let can_reload = self.engine.find(unit.as_str()).is_some_and(|id| {
            let spec = self.engine.unit(id).spec.as_ref();
            spec.is_some_and(|spec| spec.kind.can_reload())
        });
        let (verb, mode) = match (wanted.verb.as_str(), can_reload) {
            ("start", _) => (JobVerb::Start, mode),
            ("stop", _) => (JobVerb::Stop, mode),
            ("restart", _) => (JobVerb::Restart, mode),
            ("reload", _) => (JobVerb::Reload, mode),
            ("try-restart", _) | ("try-reload-or-restart", false) => (JobVerb::TryRestart, mode),
            ("reload-or-restart", true) => (JobVerb::ReloadOrStart, mode),
            ("reload-or-restart", false) => (JobVerb::Restart, mode),
            ("try-reload-or-restart", true) => (JobVerb::TryReload, mode),
            ("verify-active", _) => (JobVerb::VerifyActive, mode),
            ("isolate", _) => (JobVerb::Start, JobMode::Isolate),
            (other, _) => {
                let message = format!(
                    "'{other}' is not a verb; there are start, stop, restart, reload, try-restart, reload-or-restart, \
                     try-reload-or-restart, verify-active and isolate."
                );
                return Err(Fault::invalid(other, message));
            }
        };
        self.request(
            call,
            &Wanted {
                unit: unit.as_str(),
                verb,
                mode,
                wait: wanted.wait,
                manual: true,
                told: Told::Job,
            },
        );
        Ok(None)
    }

    /// A unit that is to be changed, loaded.
    pub(super) fn load_for_change(&mut self, unit: &str) -> Result<UnitName, Fault> {
        let name = UnitName::new(unit).map_err(|error| Fault::bad_name(unit, &error))?;
        if name.is_template() {
            let message =
                format!("{unit} is a template: name an instance of it, as in a@b.service.");
            return Err(Fault::invalid(unit, message));
        }
        self.ensure_loaded(unit);
        let missing = |core: &Self| {
            let id = core.engine.find(unit);
            id.is_none_or(|id| core.engine.unit(id).load == LoadState::NotFound)
        };
        if missing(self) {
            // Its file may be younger than the last look at the folders.
            self.units.loader().rescan();
            self.ensure_loaded(unit);
        }
        Ok(name)
    }

    /// Hands a request to the engine; its answer is the client's.
    pub(super) fn request(&mut self, call: &IncomingCall, wanted: &Wanted<'_>) {
        let id = self.next_request();
        let submitted = Submitted {
            call: call.id,
            unit: wanted.unit.into(),
            wait: wanted.wait,
            to_the_end: call.mode == CallMode::More || wanted.told == Told::Done,
            told: wanted.told,
            job: None,
        };
        self.control.waiters.submitted.insert(id, submitted);
        self.push(What::Request(Request {
            id,
            unit: wanted.unit.into(),
            verb: wanted.verb,
            mode: wanted.mode,
            manual: wanted.manual,
        }));
    }

    pub(super) fn request_answered(&mut self, request: RequestId, answer: &Answer) {
        let Some(mut submitted) = self.control.waiters.submitted.remove(&request) else {
            return;
        };
        match answer {
            Answer::Refused(refusal) => {
                let fault = refused(&submitted.unit, refusal);
                self.reply_to(submitted.call, fault.reply());
            }
            Answer::Nothing => self.end_or_await_down(submitted, None),
            Answer::Job(job) => {
                submitted.job = Some(*job);
                if submitted.told == Told::Job {
                    let mut reply = Reply::of(&self.submit_reply(&submitted, None));
                    reply.continues = submitted.to_the_end;
                    self.reply_to(submitted.call, reply);
                } else if !submitted.to_the_end {
                    self.reply_to(submitted.call, Reply::empty());
                }
                if submitted.to_the_end {
                    self.control.waiters.submitted.insert(request, submitted);
                }
            }
        }
    }

    pub(super) fn tell_job_ended(
        &mut self,
        job: JobId,
        unit: UnitId,
        result: JobResult,
        requests: &[RequestId],
    ) {
        for request in requests {
            if let Some(submitted) = self.control.waiters.submitted.remove(request) {
                self.end_or_await_down(submitted, Some(result));
            }
        }
        for call in self.control.waiters.jobs.remove(&job).unwrap_or_default() {
            let reply = Reply::of(&self.job_reply(job, unit, Some(result)));
            self.reply_to(call, reply);
        }
    }

    /// The last reply, unless the unit is up and its end is what is waited for.
    fn end_or_await_down(&mut self, submitted: Submitted, result: Option<JobResult>) {
        let up = self
            .engine
            .find(&submitted.unit)
            .filter(|unit| !self.engine.unit(*unit).active().is_down());
        let good = result.is_none_or(JobResult::is_good);
        match up {
            Some(unit) if submitted.wait == WaitWhat::Inactive && submitted.to_the_end && good => {
                let downs = self.control.waiters.downs.entry(unit).or_default();
                downs.push((submitted, result));
            }
            _ => self.reply_at_the_end(&submitted, result),
        }
    }

    fn reply_at_the_end(&mut self, submitted: &Submitted, result: Option<JobResult>) {
        let state = self.submit_reply(submitted, result);
        let good = result.is_none_or(JobResult::is_good);
        let reply = match submitted.told {
            Told::Job => Reply::of(&state),
            Told::Nothing | Told::Done if good => Reply::empty(),
            Told::Nothing | Told::Done => {
                Fault::new(error::FAILED, &submitted.unit, state.reason).reply()
            }
        };
        self.reply_to(submitted.call, reply);
    }

    pub(super) fn tell_unit_down(&mut self, unit: UnitId) {
        for (submitted, result) in self.control.waiters.downs.remove(&unit).unwrap_or_default() {
            self.reply_at_the_end(&submitted, result);
        }
    }

    fn submit_reply(&mut self, submitted: &Submitted, result: Option<JobResult>) -> SubmitReply {
        let Some(unit) = self.engine.find(&submitted.unit) else {
            return SubmitReply {
                unit: submitted.unit.to_string(),
                job: submitted.job.map(|job| job.0),
                result: result.map(|result| result.as_str().to_owned()),
                ..SubmitReply::default()
            };
        };
        SubmitReply {
            job: submitted.job.map(|job| job.0),
            ..self.job_reply(JobId(0), unit, result)
        }
    }

    /// How a unit and its job are.
    fn job_reply(&mut self, job: JobId, unit: UnitId, result: Option<JobResult>) -> SubmitReply {
        let bad = result.is_some_and(|result| !result.is_good());
        let reason = if bad {
            self.reasons(unit, result).join(" ")
        } else {
            String::new()
        };
        let Some(record) = self.engine.get(unit) else {
            return SubmitReply {
                job: Some(job.0),
                result: result.map(|result| result.as_str().to_owned()),
                ..SubmitReply::default()
            };
        };
        let runs = self.memory.runs.get(&unit).map_or(&[][..], Vec::as_slice);
        let main = runs.iter().rev().find(|run| run.role == Role::Main);
        let ended = main.and_then(|run| run.exit.map(|(at, status)| (run.start, at, status)));
        // What was used in all is asked for when there is an all; a start that waits for its answer does without.
        let cpu = ended.and_then(|_| self.platform.usage(&self.cgroup_of(unit)).cpu);
        SubmitReply {
            unit: record.name.to_string(),
            job: Some(job.0),
            result: result.map(|result| result.as_str().to_owned()),
            active: record.active().as_str().to_owned(),
            sub: record.machine.sub_state().to_owned(),
            outcome: record.machine.outcome().as_str().to_owned(),
            reason,
            invocation: record.invocation.to_string(),
            exit_code: ended
                .map_or_else(String::new, |(_, _, status)| exit_word(status).0.to_owned()),
            exit_status: ended.map_or(0, |(_, _, status)| exit_word(status).1),
            runtime: ended.map_or(0, |(start, at, _)| at.monotonic.since(start.monotonic)),
            cpu,
        }
    }

    pub(super) fn wait_job(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: WaitJobCall = call.parameters.read()?;
        let job = JobId(wanted.job);
        if self.engine.job(job).is_some() {
            let Control {
                server: Some(server),
                waiters,
                ..
            } = &mut self.control
            else {
                return Ok(None);
            };
            let waiting = waiters.jobs.entry(job).or_default();
            // Those who have gone would otherwise add up while a job takes its time.
            waiting.retain(|call| server.is_open(*call));
            waiting.push(call.id);
            return Ok(None);
        }
        let ended = self
            .memory
            .ended(job)
            .map(|ended| (ended.unit, ended.result));
        match ended {
            Some((unit, result)) => Ok(Some(Reply::of(&self.job_reply(job, unit, Some(result))))),
            None => Err(no_such_job(wanted.job)),
        }
    }

    pub(super) fn cancel(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: CancelCall = call.parameters.read()?;
        let jobs: Vec<JobId> = match wanted.job {
            Some(job) if self.engine.job(JobId(job)).is_none() => return Err(no_such_job(job)),
            Some(job) => vec![JobId(job)],
            None => self.engine.jobs().map(|job| job.id).collect(),
        };
        for job in jobs {
            self.push(What::Cancel(job));
        }
        Ok(Some(Reply::empty()))
    }

    pub(super) fn list_jobs(&mut self, _call: &mut IncomingCall) -> Handled {
        let jobs = rows::jobs(&self.engine);
        Ok(Some(Reply::of(&ListJobsReply { jobs })))
    }
}

fn no_such_job(job: u32) -> Fault {
    let message = format!("Job {job} does not exist; it may have ended.");
    Fault::new(error::NO_SUCH_JOB, &job.to_string(), message)
}

fn refused(unit: &str, refusal: &Refusal) -> Fault {
    let missing = match refusal {
        Refusal::UnknownUnit(_) => true,
        Refusal::NotUsable {
            unit: missing,
            load,
            ..
        } => *load == LoadState::NotFound && **missing == *unit,
        _ => false,
    };
    let error = if missing {
        error::NO_SUCH_UNIT
    } else {
        error::REFUSED
    };
    Fault::new(error, unit, refusal.to_string())
}

/// How a process ended, in a word and a number.
pub(super) fn exit_word(status: ExitStatus) -> (&'static str, i32) {
    match status {
        ExitStatus::Code(code) => ("exited", code.into()),
        ExitStatus::Signal(signal) => ("killed", signal.into()),
        ExitStatus::Core(signal) => ("dumped", signal.into()),
    }
}
