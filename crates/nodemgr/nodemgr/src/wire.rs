//! What is known here, as the contract says it.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_lifecycle::timers::{Timers, WhenIdle};
use muster_lifecycle::{Moment, Step, Verb, VerbSet};
use muster_machine_api::time::{self, NegativeDuration};
use muster_machine_api::v1;
use muster_machines::{Happened, Machine, MachineEvent, Orphan, Record};
use muster_mapping::Explanation;
use muster_provider::{Isolation, Profile};
use muster_template::{Template, show};

use crate::catalog::Catalog;
use crate::choice::{Explained, Offer};
use crate::config;

/// A word of the contract that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {known}")]
pub(crate) struct UnknownWord {
    pub(crate) word: String,
    pub(crate) known: &'static str,
}

fn moment(at: Moment) -> prost_types::Timestamp {
    time::timestamp(at.as_millis())
}

/// A machine, with what can be asked of it now.
pub(crate) fn machine(machine: &Machine, of_provider: VerbSet) -> v1::Machine {
    let record = machine.record();
    let work = machine.work();
    v1::Machine {
        sessions: work.sessions,
        commands: work.commands,
        busy_until: work.heartbeat_until.map(moment),
        ..recorded(record, of_provider)
    }
}

fn recorded(record: &Record, of_provider: VerbSet) -> v1::Machine {
    let made = record.made();
    let spec = &record.order.spec;
    let state = record.state();
    let can = |verb: &Verb| matches!(record.decide(*verb, of_provider), Ok(Step::Act(_)));
    let since = made.map_or(record.ordered, |made| made.life.since());
    v1::Machine {
        id: record.id.to_string(),
        provider: record.order.provider.to_string(),
        template: record.order.template.clone(),
        state: state.as_str().to_owned(),
        ordered: Some(moment(record.ordered)),
        since: Some(moment(since)),
        resource: made.map_or_else(String::new, |it| it.resource.to_string()),
        address: made
            .and_then(|it| it.address)
            .map_or_else(String::new, |it| it.to_string()),
        spot: made.is_some_and(|it| it.spot),
        access: made.map_or_else(Vec::new, |it| words(&it.access)),
        labels: record.order.labels.clone(),
        details: made.map_or_else(BTreeMap::new, |it| it.details.clone()),
        image: spec.image.clone().unwrap_or_default(),
        cpus: spec.cpus.map(Into::into),
        memory_mb: spec.memory_mb.map(Into::into),
        disk_mb: spec.disk_mb.map(Into::into),
        pool: record.pool.clone().unwrap_or_default(),
        claimed: record.claimed.clone().unwrap_or_default(),
        task: made
            .and_then(|it| it.life.task())
            .map_or_else(String::new, |task| task.verb.to_string()),
        reason: record.end().map_or_else(String::new, |it| it.to_string()),
        failure: record.failure().unwrap_or_default().to_owned(),
        timers: Some(timers(&record.order.timers)),
        key: record.order.key.clone().unwrap_or_default(),
        unit: record.unit.clone().unwrap_or_default(),
        verbs: Verb::ALL
            .iter()
            .filter(|verb| can(verb))
            .map(ToString::to_string)
            .collect(),
        ..v1::Machine::default()
    }
}

pub(crate) fn words<T: ToString>(things: impl IntoIterator<Item = T>) -> Vec<String> {
    things.into_iter().map(|it| it.to_string()).collect()
}

fn timers(timers: &Timers) -> v1::Timers {
    v1::Timers {
        idle: timers.idle.map(time::duration),
        when_idle: match timers.when_idle {
            WhenIdle::Stop => "stop",
            WhenIdle::Hibernate => "hibernate",
            WhenIdle::Terminate => "terminate",
        }
        .to_owned(),
        stopped: timers.stopped.map(time::duration),
        lifetime: timers.lifetime.map(time::duration),
    }
}

/// Why timers make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTimers {
    #[error(transparent)]
    Negative(NegativeDuration),
    #[error(transparent)]
    WhenIdle(UnknownWord),
}

/// What is asked for over what is usual.
pub(crate) fn read_timers(asked: Option<&v1::Timers>, usual: &Timers) -> Result<Timers, BadTimers> {
    let Some(asked) = asked else {
        return Ok(*usual);
    };
    let over = |given: Option<&prost_types::Duration>, usual: Option<Duration>| match given {
        Some(given) => {
            let given = time::length(given).map_err(BadTimers::Negative)?;
            Ok(Some(given).filter(|it| !it.is_zero()))
        }
        None => Ok(usual),
    };
    let when_idle = match asked.when_idle.as_str() {
        "" => usual.when_idle,
        word => config::when_idle(word).ok_or_else(|| {
            BadTimers::WhenIdle(UnknownWord {
                word: word.to_owned(),
                known: "stop, hibernate, terminate",
            })
        })?,
    };
    Ok(Timers {
        idle: over(asked.idle.as_ref(), usual.idle)?,
        when_idle,
        stopped: over(asked.stopped.as_ref(), usual.stopped)?,
        lifetime: over(asked.lifetime.as_ref(), usual.lifetime)?,
    })
}

pub(crate) fn provider(offer: &Offer, endpoint: &str, machines: u64) -> v1::Provider {
    let Profile {
        id,
        verbs,
        access,
        spot,
        one_machine,
        isolation,
    } = &offer.profile;
    v1::Provider {
        id: id.to_string(),
        verbs: words(verbs.iter()),
        access: words(access),
        spot: *spot,
        one_machine: *one_machine,
        insecure: match isolation {
            Isolation::Isolated => String::new(),
            Isolation::Insecure(why) => (*why).to_owned(),
        },
        endpoint: endpoint.to_owned(),
        machines,
        quota: Some(v1::Quota {
            machines: offer.quota.machines,
            cpus: offer.quota.cpus,
            memory_mb: offer.quota.memory_mb,
        }),
        price: offer.prices.usual.on_demand,
        unusable: String::new(),
    }
}

pub(crate) fn template(template: &Template, catalog: &Catalog) -> v1::Template {
    let all = catalog.templates();
    let mut fields = BTreeMap::new();
    // The set has every parent, so there is a lineage.
    for ancestor in all.lineage(template.name().as_str()).unwrap_or_default() {
        for (name, assigned) in ancestor.fields().iter() {
            match assigned.value {
                muster_template::Value::Null => drop(fields.remove(name)),
                _ => drop(fields.insert(name.to_owned(), show(name, &assigned.value))),
            }
        }
    }
    let overrides = template.overrides().iter();
    v1::Template {
        name: template.name().to_string(),
        extends: template
            .extends()
            .map_or_else(String::new, ToString::to_string),
        origin: template.origin().to_string(),
        fields,
        overrides: overrides.map(|(target, _)| target.to_string()).collect(),
        added: catalog.is_added(template.name().as_str()),
    }
}

pub(crate) fn explanation(told: Explanation, problems: Vec<String>) -> v1::Explanation {
    let fields = told.fields.into_iter().map(|story| v1::FieldStory {
        field: story.field,
        steps: story
            .steps
            .into_iter()
            .map(|step| v1::FieldStep {
                value: step.value,
                by: step.by,
                at: step.at.unwrap_or_default(),
            })
            .collect(),
    });
    let mappings = told.mappings.into_iter().map(|story| v1::MappingStory {
        number: u32::try_from(story.number).unwrap_or(u32::MAX),
        at: story.at,
        matched: story.matched,
        outcome: story.outcome,
    });
    v1::Explanation {
        template: told.template,
        provider: told.provider,
        fields: fields.collect(),
        mappings: mappings.collect(),
        problems,
    }
}

pub(crate) fn candidate(told: Explained, template: &str) -> v1::Candidate {
    v1::Candidate {
        name: told.name,
        provider: told.provider.to_string(),
        template: template.to_owned(),
        machine: told.machine.map_or_else(String::new, |it| it.to_string()),
        chosen: told.place == Some(0),
        place: told.place.map(|place| place + 1),
        why: told.why,
    }
}

pub(crate) fn orphan(orphan: &Orphan) -> v1::Orphan {
    v1::Orphan {
        provider: orphan.provider.to_string(),
        resource: orphan.resource.to_string(),
        machine: orphan.mark.machine.to_string(),
        state: orphan.state.as_str().to_owned(),
        reason: orphan.reason.to_string(),
    }
}

pub(crate) fn event(event: &MachineEvent) -> v1::Event {
    let (kind, message, warning) = told(event);
    v1::Event {
        number: event.number,
        at: Some(moment(event.at)),
        machine: event.machine.to_string(),
        kind: kind.to_owned(),
        message,
        warning,
    }
}

/// The word for what happened, a sentence, and whether somebody should look.
fn told(event: &MachineEvent) -> (&'static str, String, bool) {
    match &event.what {
        Happened::Ordered => ("ordered", "it was ordered".to_owned(), false),
        Happened::Cancelled { reason } => {
            let text = format!("it is not wanted any more: {reason}");
            ("cancelled", text, true)
        }
        Happened::Made { resource } => ("made", format!("its provider made {resource}"), false),
        Happened::Found { resource } => {
            let text = format!("its provider has {resource}, which nobody wants any more");
            ("found", text, true)
        }
        Happened::Back { resource } => {
            let text = format!("its provider shows {resource} again: it was not gone");
            ("back", text, true)
        }
        Happened::Asked { verb, reason } => ("asked", format!("{verb}: {reason}"), false),
        Happened::Moved { from, to } => {
            let text = format!("{} -> {}", from.as_str(), to.as_str());
            ("moved", text, false)
        }
        Happened::Done { verb } => ("done", format!("{verb} is done"), false),
        Happened::NotDone { verb } => ("not-done", format!("{verb} was not done"), true),
        Happened::Stays => {
            let text = "it has been idle for too long, and can neither be stopped nor hibernated";
            ("stays", text.to_owned(), true)
        }
        Happened::Failed {
            operation,
            text,
            again,
            ..
        } => {
            let again = match again {
                Some(_) => "; it is tried again",
                None => "",
            };
            ("failed", format!("{operation}: {text}{again}"), true)
        }
        Happened::Gone { reason } => ("gone", format!("it is gone: {reason}"), false),
        Happened::Claimed { by } => ("claimed", format!("claimed by {by}"), false),
        Happened::Released => ("released", "given back to its pool".to_owned(), false),
        Happened::Joined { unit } => ("joined", format!("it is a node of {unit}"), false),
        Happened::Left { unit } => ("left", format!("it is no node of {unit} any more"), false),
        Happened::NodeStays { unit } => {
            let machine = &event.machine;
            let text = format!(
                "its machine is gone, and {unit} still knows the node; `muster machine leave {machine}` takes it out"
            );
            ("node-stays", text, true)
        }
        Happened::StrayDestroyed { resource, reason } => {
            let text = format!("{resource} was destroyed: {reason}");
            ("stray-destroyed", text, true)
        }
        other => ("other", format!("{other:?}"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_are_asked_for_lie_over_the_usual_ones() {
        let hour = Duration::from_secs(3600);
        let usual = Timers {
            idle: Some(hour),
            stopped: Some(hour),
            ..Timers::default()
        };
        assert_eq!(read_timers(None, &usual), Ok(usual));
        let asked = v1::Timers {
            idle: Some(time::duration(Duration::ZERO)),
            when_idle: "terminate".to_owned(),
            lifetime: Some(time::duration(hour)),
            ..v1::Timers::default()
        };
        let read = read_timers(Some(&asked), &usual).unwrap();
        assert_eq!(read.idle, None, "0 is never");
        assert_eq!(read.when_idle, WhenIdle::Terminate);
        assert_eq!((read.stopped, read.lifetime), (Some(hour), Some(hour)));
        let wrong = v1::Timers {
            when_idle: "sleep".to_owned(),
            ..v1::Timers::default()
        };
        assert!(read_timers(Some(&wrong), &usual).is_err());
        let negative = v1::Timers {
            idle: Some(prost_types::Duration {
                seconds: -1,
                nanos: 0,
            }),
            ..v1::Timers::default()
        };
        assert!(read_timers(Some(&negative), &usual).is_err());
    }
}
