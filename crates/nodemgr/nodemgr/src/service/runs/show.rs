//! Runs, as the contract says them.

use muster_machine_api::{time, v1};
use muster_orchestrate::{
    Entry, JobPhase, JobResult, LogRecord, RunEvent, RunOutcome, RunSummary, RunView, Stream,
};

fn state(outcome: Option<&RunOutcome>) -> &'static str {
    match outcome {
        None => "running",
        Some(RunOutcome::Succeeded) => "succeeded",
        Some(RunOutcome::Failed { .. }) => "failed",
        Some(RunOutcome::Cancelled) => "cancelled",
        Some(RunOutcome::Expired) => "expired",
    }
}

pub(super) fn summary(summary: &RunSummary) -> v1::Run {
    let outcome = summary.over.as_ref().map(|(_, outcome)| outcome);
    let ended = summary.over.as_ref().map(|(at, _)| at.as_millis());
    v1::Run {
        id: summary.id.to_string(),
        name: summary.name.clone(),
        state: state(outcome).to_owned(),
        started: Some(time::timestamp(summary.accepted.as_millis())),
        ended: ended.map(time::timestamp),
        exit_code: outcome.map(|it| it.exit_code().into()),
        failure: match outcome {
            Some(failed) if !failed.is_success() => failed.to_string(),
            _ => String::new(),
        },
        ..v1::Run::default()
    }
}

pub(super) fn run(view: &RunView) -> v1::Run {
    let steps = view.jobs.iter().map(|(job, state)| {
        let (word, message) = match &state.phase {
            JobPhase::Waiting { .. } if state.attempt > 1 => {
                ("waiting", format!("attempt {} is to come", state.attempt))
            }
            JobPhase::Waiting { .. } => ("waiting", String::new()),
            JobPhase::Running { .. } => ("running", String::new()),
            JobPhase::Done => ("done", state.warnings.join("; ")),
            JobPhase::Failed(why) => ("failed", why.to_string()),
            JobPhase::Aborted => ("aborted", String::new()),
        };
        v1::RunStep {
            name: job.to_string(),
            state: word.to_owned(),
            message,
        }
    });
    v1::Run {
        steps: steps.collect(),
        machines: view.machines.values().map(ToString::to_string).collect(),
        ..summary(&view.summary)
    }
}

pub(super) fn event(event: &RunEvent) -> v1::RunEvent {
    let mut shown = v1::RunEvent {
        number: event.number,
        at: Some(time::timestamp(event.at.as_millis())),
        run: event.run.to_string(),
        ..v1::RunEvent::default()
    };
    let mut of = |job: &muster_orchestrate::Job, kind: &str, message: String, warning| {
        shown.step = job.step().unwrap_or_default().to_owned();
        shown.machine = job.slot().to_string();
        (kind.to_owned(), message, warning)
    };
    let (kind, message, warning) = match &event.what {
        Entry::Accepted => (
            "accepted".to_owned(),
            "the run is accepted".to_owned(),
            false,
        ),
        Entry::Begun { job, attempt: 1 } => of(job, "begun", job.to_string(), false),
        Entry::Begun { job, attempt } => {
            of(job, "begun", format!("{job}, attempt {attempt}"), false)
        }
        Entry::Ended { job, result, .. } => match result {
            JobResult::Done { machine, warnings } => {
                let machine = machine.as_ref().map(|id| format!("machine {id}"));
                let more: Vec<String> = machine.into_iter().chain(warnings.clone()).collect();
                let colon = if more.is_empty() { "" } else { ": " };
                let text = format!("{job} is done{colon}{}", more.join("; "));
                of(job, "done", text, !warnings.is_empty())
            }
            JobResult::Failed(why) => of(job, "failed", format!("{job} failed: {why}"), true),
            JobResult::Aborted => of(job, "aborted", format!("{job} was ended"), true),
        },
        Entry::Interrupted { job, .. } => {
            let text = format!("{job} was interrupted by the end of the manager");
            of(job, "interrupted", text, true)
        }
        Entry::CancelAsked => (
            "cancelled".to_owned(),
            "somebody wants it to end".to_owned(),
            true,
        ),
        Entry::Expired => (
            "expired".to_owned(),
            "it took longer than it may".to_owned(),
            true,
        ),
        Entry::Over { outcome } => {
            let failed = !outcome.is_success();
            (
                "over".to_owned(),
                format!("the run is over: {outcome}"),
                failed,
            )
        }
        other => ("other".to_owned(), format!("{other:?}"), false),
    };
    v1::RunEvent {
        kind,
        message,
        warning,
        ..shown
    }
}

pub(super) fn log(record: LogRecord) -> v1::RunLog {
    let text = String::from_utf8_lossy(record.written()).into_owned();
    v1::RunLog {
        at: Some(time::timestamp(record.at.as_millis())),
        step: record.step.map_or_else(String::new, Into::into),
        machine: record.slot.to_string(),
        stream: match record.stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Note => "note",
        }
        .to_owned(),
        text,
        next: record.next,
        written: record.bytes,
    }
}

/// In place of what a log does not have any more. Reading goes on at `next`.
pub(super) fn lost(bytes: u64, next: u64) -> v1::RunLog {
    let text = format!(
        "{bytes} bytes of this run's log are gone here: it became longer than what is kept, and the oldest goes first\n"
    );
    v1::RunLog {
        stream: "note".to_owned(),
        text,
        next,
        ..v1::RunLog::default()
    }
}
