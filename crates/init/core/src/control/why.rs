//! `Why`: from a unit's state back to its cause.

use std::collections::BTreeMap;

use muster_control::manager::{UnitCall, WhyReply};
use muster_engine::explain::{Cause, Wait, Why};
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use crate::core::Core;

impl Core {
    pub(super) fn why(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: UnitCall = call.parameters.read()?;
        let Some(unit) = self.engine.find(&wanted.unit) else {
            return Ok(Some(Reply::of(&self.why_unknown(&wanted.unit)?)));
        };
        let why = self.engine.why(unit);
        // How its last job ended tells why it is down, unless it has come up since.
        let last = self
            .memory
            .ended
            .iter()
            .rev()
            .find(|ended| ended.unit == unit);
        let result = last
            .map(|ended| ended.result)
            .filter(|_| !why.active.is_up());
        let mut lines = self.reasons(unit, result.filter(|result| !result.is_good()));
        lines.extend(causes(&why));
        let needed_by = why
            .needed_by
            .iter()
            .map(|(unit, kind)| (unit.to_string(), kind.as_str().to_owned()))
            .collect();
        let reply = WhyReply {
            unit: why.unit.to_string(),
            state: format!("{} ({})", why.active.as_str(), why.sub_state),
            lines,
            needed_by,
            waits_for: why
                .job
                .iter()
                .flat_map(|job| job.waits_for.iter().map(wait))
                .collect(),
            advice: self.advice(unit),
            facts: BTreeMap::from([
                ("load".to_owned(), why.load.as_str().to_owned()),
                ("outcome".to_owned(), why.outcome.as_str().to_owned()),
            ]),
        };
        Ok(Some(Reply::of(&reply)))
    }

    /// A unit that nobody has asked for so far.
    fn why_unknown(&mut self, unit: &str) -> Result<WhyReply, Fault> {
        let config = self.read_config(unit)?;
        Ok(WhyReply {
            unit: config.name.to_string(),
            state: "inactive (dead)".to_owned(),
            lines: vec!["Nothing has wanted it since the manager started.".to_owned()],
            facts: BTreeMap::from([("load".to_owned(), config.load_state.as_str().to_owned())]),
            ..WhyReply::default()
        })
    }
}

/// The job's chain of causes, from the unit back to the first.
fn causes(why: &Why) -> Vec<String> {
    let Some(job) = &why.job else {
        return Vec::new();
    };
    let kind = job.job_type.as_str();
    let mut lines = vec![format!("Job {} ({kind}) is queued for it.", job.id)];
    lines.extend(job.wanted_by.iter().map(|cause| match cause {
        Cause::Request(_) => "Somebody asked for that.".to_owned(),
        Cause::Dependency { unit, kind } => format!("{unit} wants that ({}=).", kind.as_str()),
        Cause::AutoRestart => "Its own Restart= wants that.".to_owned(),
        Cause::Trigger(unit) => format!("{unit} triggered it."),
        Cause::Rule(rule) => format!("A rule wants that: {rule}."),
    }));
    lines
}

fn wait(wait: &Wait) -> String {
    match wait {
        Wait::Job {
            unit,
            job_type,
            kind,
        } => format!(
            "the {} job of {unit} ({}=)",
            job_type.as_str(),
            kind.as_str()
        ),
        Wait::Checks => "its conditions to be looked at".to_owned(),
        Wait::Unit(sub) => format!("the unit itself, which is {sub}"),
        Wait::StopFirst => "the unit to be down first".to_owned(),
    }
}
