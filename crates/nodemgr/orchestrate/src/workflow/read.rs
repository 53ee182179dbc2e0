//! Documents that describe workflows.

mod actions;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration as Length;

use muster_config::{ConfigError, Duration, Format, Load, Problems, Validate, nearest, printable};
use muster_provider::MachineId;
use muster_template::{ProviderId, TemplateName};
use serde::Deserialize;

use self::actions::RawAction;
use super::{Action, Effort, End, Group, Limits, Source, SpotWish, Step, Wants, When, Workflow};

/// Why a document is no workflow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadWorkflowError {
    /// It says something that is no workflow.
    #[error("{name} is not a workflow")]
    Invalid {
        /// What the document is called.
        name: String,
        /// Everything that is wrong, each with its line.
        source: ConfigError,
    },
    /// It asks for more than is allowed.
    #[error("{name} asks for {found} {what}, and at most {most} are allowed")]
    TooLarge {
        /// What the document is called.
        name: String,
        /// Of what.
        what: &'static str,
        /// How many.
        found: u64,
        /// How many there may be.
        most: u64,
    },
}

/// The longest name of a workflow, a group or a step: names stand in keys of orders and in names of files.
const LONGEST_NAME: usize = 40;

const HOUR: Length = Length::from_secs(60 * 60);
const MINUTE: Length = Length::from_secs(60);

fn length(length: Length) -> Duration {
    Duration::new(length).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawWorkflow {
    name: String,
    #[serde(default)]
    timeout: Option<Duration>,
    #[serde(default)]
    parallel: Option<NonZeroU32>,
    machines: BTreeMap<String, RawGroup>,
    #[serde(default)]
    steps: Vec<RawStep>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawGroup {
    #[serde(default)]
    template: Option<TemplateName>,
    #[serde(default)]
    machine: Option<MachineId>,
    #[serde(default)]
    provider: Option<ProviderId>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    spot: Option<SpotWish>,
    #[serde(default)]
    spot_types: Vec<String>,
    #[serde(default)]
    prefer: Vec<String>,
    #[serde(default)]
    reuse: bool,
    #[serde(default)]
    access: Vec<String>,
    #[serde(default)]
    runs_for: Option<Duration>,
    #[serde(default)]
    max_price: Option<u64>,
    #[serde(default)]
    tolerates: BTreeMap<String, String>,
    #[serde(default)]
    count: Option<NonZeroU32>,
    #[serde(default)]
    provision: RawEffort,
    #[serde(default)]
    ready: RawEffort,
    #[serde(default)]
    end: Option<End>,
    #[serde(default)]
    end_on_failure: Option<End>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawEffort {
    #[serde(default)]
    timeout: Option<Duration>,
    #[serde(default)]
    attempts: Option<NonZeroU32>,
    #[serde(default)]
    delay: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawStep {
    name: String,
    #[serde(default)]
    on: Option<Vec<String>>,
    #[serde(default)]
    needs: Option<Vec<String>>,
    #[serde(default)]
    when: When,
    #[serde(default)]
    timeout: Option<Duration>,
    #[serde(default)]
    attempts: Option<NonZeroU32>,
    #[serde(default)]
    delay: Option<Duration>,
    #[serde(default)]
    repeatable: Option<bool>,
    #[serde(default)]
    parallel: Option<NonZeroU32>,
    actions: Vec<RawAction>,
}

impl Workflow {
    /// Reads a document that is called `name` in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its line and, for unknown words, with what was probably meant.
    pub fn read(
        name: &str,
        format: Format,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Self, ReadWorkflowError> {
        let bounds = muster_config::Limits {
            file_bytes: limits.document,
            nodes: limits.values,
            ..muster_config::Limits::default()
        };
        let name = printable(name, 256);
        let loaded = Load::<RawWorkflow>::new("workflow")
            .document(&name, format, bytes)
            .limits(bounds)
            .load();
        match loaded.and_then(muster_config::Loaded::validate) {
            Ok(workflow) => workflow.within(&name, limits),
            Err(source) => Err(ReadWorkflowError::Invalid { name, source }),
        }
    }

    fn within(self, name: &str, limits: &Limits) -> Result<Self, ReadWorkflowError> {
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let machines = |groups: &mut dyn Iterator<Item = &Group>| -> u64 {
            groups.map(|group| u64::from(group.count)).sum()
        };
        let all = machines(&mut self.machines.values());
        let jobs = self.steps.iter().map(|step| {
            let mut groups = step.on.iter().filter_map(|name| self.machines.get(name));
            machines(&mut groups)
        });
        let jobs = jobs.sum();
        let actions = self.steps.iter().map(|step| step.actions.len()).max();
        for (what, found, most) in [
            ("machines", all, u64::from(limits.machines)),
            ("steps", wide(self.steps.len()), wide(limits.steps)),
            (
                "actions in a step",
                wide(actions.unwrap_or_default()),
                wide(limits.actions),
            ),
            ("steps of machines", jobs, wide(limits.jobs)),
        ] {
            if found > most {
                return Err(ReadWorkflowError::TooLarge {
                    name: name.to_owned(),
                    what,
                    found,
                    most,
                });
            }
        }
        Ok(self)
    }
}

impl RawEffort {
    fn or(self, timeout: Length, delay: Length) -> Effort {
        Effort {
            timeout: self.timeout.unwrap_or_else(|| length(timeout)),
            attempts: self.attempts.map_or(1, NonZeroU32::get),
            delay: self.delay.unwrap_or_else(|| length(delay)),
        }
    }
}

impl Validate for RawWorkflow {
    type Valid = Workflow;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Workflow> {
        check_name("name", &self.name, problems);
        check_timeout("timeout", self.timeout, problems);
        if self.machines.is_empty() {
            problems.report("name", "needs a machine, and has none under `machines`");
        }
        let groups: BTreeMap<String, Group> = self
            .machines
            .into_iter()
            .filter_map(|(name, raw)| {
                let group = problems.within(&format!("machines.{name}"), |problems| {
                    raw.validate(&name, problems)
                });
                Some((name, group?))
            })
            .collect();
        let mut steps: Vec<Step> = Vec::new();
        for (nth, raw) in self.steps.into_iter().enumerate() {
            let step = problems.within(&format!("steps[{nth}]"), |problems| {
                raw.validate(&groups, &steps, problems)
            });
            steps.extend(step);
        }
        problems.is_empty().then(|| Workflow {
            name: self.name,
            timeout: self.timeout.unwrap_or_else(|| length(24 * HOUR)),
            parallel: self.parallel.map_or(32, NonZeroU32::get),
            machines: groups,
            steps,
        })
    }
}

impl RawGroup {
    fn validate(self, name: &str, problems: &mut Problems<'_>) -> Option<Group> {
        let (source, end) = match (self.template, self.machine) {
            (Some(template), None) => (Source::Template(template), End::Destroy),
            (None, Some(machine)) => (Source::Machine(machine), End::Keep),
            (Some(_), Some(_)) => {
                problems.report("machine", "cannot stand beside `template`");
                return None;
            }
            (None, None) => {
                problems.report("template", "is needed here, or `machine`");
                return None;
            }
        };
        check_name("template", name, problems);
        let count = self.count.map_or(1, NonZeroU32::get);
        let wants = Wants {
            set: self.set,
            spot: self.spot,
            spot_types: self.spot_types,
            prefer: self.prefer,
            reuse: self.reuse,
            access: self.access,
            runs_for: self.runs_for,
            max_price: self.max_price,
            tolerates: self.tolerates,
        };
        if matches!(source, Source::Machine(_)) {
            if count > 1 {
                problems.report("count", "must be 1: there is one machine of a name");
            }
            if self.provider.is_some() {
                problems.report("provider", "cannot stand beside `machine`");
            }
            if wants != Wants::default() {
                let text = "cannot be told what it shall be like: it exists. `set`, `spot`, `prefer` and the like are for templates";
                problems.report("machine", text);
            }
        }
        check_timeout("provision.timeout", self.provision.timeout, problems);
        check_timeout("ready.timeout", self.ready.timeout, problems);
        let end = self.end.unwrap_or(end);
        Some(Group {
            source,
            provider: self.provider,
            wants,
            count,
            provision: self.provision.or(30 * MINUTE, Length::from_secs(5)),
            ready: self.ready.or(10 * MINUTE, Length::from_secs(5)),
            end,
            end_on_failure: self.end_on_failure.unwrap_or(end),
        })
    }
}

impl RawStep {
    fn validate(
        self,
        groups: &BTreeMap<String, Group>,
        before: &[Step],
        problems: &mut Problems<'_>,
    ) -> Option<Step> {
        check_name("name", &self.name, problems);
        if before.iter().any(|step| step.name == self.name) {
            problems.report("name", "is the name of an earlier step too");
        }
        check_timeout("timeout", self.timeout, problems);
        let all: Vec<&str> = groups.keys().map(String::as_str).collect();
        let on = match self.on {
            Some(on) => known("on", on, &all, "a group of machines", problems),
            None => all.iter().map(|&name| name.to_owned()).collect(),
        };
        if on.is_empty() {
            problems.report("on", "names no machines");
        }
        let earlier: Vec<&str> = before.iter().map(|step| step.name.as_str()).collect();
        let needs = match self.needs {
            Some(needs) => known("needs", needs, &earlier, "an earlier step", problems),
            None => earlier
                .last()
                .map(|&it| it.to_owned())
                .into_iter()
                .collect(),
        };
        if self.actions.is_empty() {
            problems.report("actions", "must not be empty");
        }
        let machines = on.iter().filter_map(|name| groups.get(name));
        let machines: u64 = machines.map(|group| u64::from(group.count)).sum();
        let mut actions = Vec::new();
        for (nth, raw) in self.actions.into_iter().enumerate() {
            let action = problems.within(&format!("actions[{nth}]"), |problems| {
                raw.validate(machines, on.len(), problems)
            });
            actions.push(action);
        }
        actions::check_changes(before, &actions, problems);
        // What was copied halfway is simply copied again; what a command did halfway nobody knows.
        let copies_only = actions.iter().all(|action| {
            matches!(
                action,
                Action::File(_) | Action::Upload(_) | Action::Download(_)
            )
        });
        let effort = RawEffort {
            timeout: self.timeout,
            attempts: self.attempts,
            delay: self.delay,
        };
        Some(Step {
            name: self.name,
            on,
            needs,
            when: self.when,
            effort: effort.or(HOUR, Length::from_secs(1)),
            repeatable: self.repeatable.unwrap_or(copies_only),
            parallel: self.parallel.map_or(u32::MAX, NonZeroU32::get),
            actions,
        })
    }
}

/// Words that must be among those that are known, each once.
fn known(
    key: &str,
    words: Vec<String>,
    all: &[&str],
    what: &str,
    problems: &mut Problems<'_>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for word in &words {
        if !all.contains(&word.as_str()) {
            let near = nearest(word, all);
            let near = near.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
            let word = printable(word, 64);
            problems.report(key, format!("names `{word}`, which is not {what}{near}"));
        } else if !seen.insert(word) {
            problems.report(key, format!("names `{word}` twice"));
        }
    }
    words
}

fn check_name(key: &str, name: &str, problems: &mut Problems<'_>) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(plain) {
        let name = printable(name, 64);
        problems.report(
            key,
            format!("`{name}` is no name: it has lower-case letters, digits and dashes, at most {LONGEST_NAME}"),
        );
    }
}

fn check_timeout(key: &str, timeout: Option<Duration>, problems: &mut Problems<'_>) {
    if timeout.is_some_and(|it| it.get().is_zero()) {
        problems.report(key, "must be longer than 0s");
    }
}
