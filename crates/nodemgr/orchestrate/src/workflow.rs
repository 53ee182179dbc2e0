//! What a run shall do, as data.

mod limits;
mod read;
#[cfg(test)]
mod tests;
pub(crate) mod there;
mod wants;

use std::collections::BTreeMap;
use std::fmt;

use muster_config::Duration;
use muster_provider::MachineId;
use muster_template::{ProviderId, TemplateName};
use serde::Serialize;

use crate::job::Slot;
pub use crate::workflow::limits::Limits;
pub use crate::workflow::read::ReadWorkflowError;
pub use crate::workflow::there::SOURCES;
pub use crate::workflow::wants::{SpotWish, Wants};

/// What a run shall do: the machines it needs, and the steps on them. Made by [`Workflow::read`], so it is always valid.
///
/// Serialised it is a document that [`Workflow::read`] reads as the same workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    pub(crate) name: String,
    /// For machines and steps together; what is under way then is ended, and machines are cleaned up.
    pub(crate) timeout: Duration,
    /// How many readiness checks and steps of machines are under way at once.
    pub(crate) parallel: u32,
    pub(crate) machines: BTreeMap<String, Group>,
    /// A step comes after all that it needs.
    pub(crate) steps: Vec<Step>,
}

/// Machines of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    #[serde(flatten)]
    pub(crate) source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<ProviderId>,
    #[serde(flatten)]
    pub(crate) wants: Wants,
    pub(crate) count: u32,
    pub(crate) provision: Effort,
    pub(crate) ready: Effort,
    pub(crate) end: End,
    /// What becomes of them when the run does not succeed.
    pub(crate) end_on_failure: End,
}

/// Where the machines of a group come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// They are made for the run, of a template.
    Template(TemplateName),
    /// There is one, and it exists already.
    Machine(MachineId),
}

/// What becomes of a machine after the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// It is destroyed.
    Destroy,
    /// It is stopped, and its timers go on.
    Stop,
    /// It stays as it is, and its timers go on.
    Keep,
}

/// How long something may take, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effort {
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often it is tried, at least once.
    pub attempts: u32,
    /// How long to wait after the first failure; doubled with each, up to five minutes.
    pub delay: Duration,
}

/// Something that is done on machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub(crate) name: String,
    /// Groups, each once.
    pub(crate) on: Vec<String>,
    /// Steps before this one in the workflow, each once.
    pub(crate) needs: Vec<String>,
    pub(crate) when: When,
    #[serde(flatten)]
    pub(crate) effort: Effort,
    /// It may be done again when nobody knows how far it came.
    pub(crate) repeatable: bool,
    /// On how many machines at once.
    pub(crate) parallel: u32,
    pub(crate) actions: Vec<Action>,
}

/// When a step is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// When all before it went well.
    #[default]
    Success,
    /// Also after a failure, on machines that are ready; not after a cancellation.
    Always,
}

/// One thing that is done on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Runs a program.
    Run(Run),
    /// Runs a script with `/bin/sh -e`.
    Script(Script),
    /// Writes a small file.
    File(FileContent),
    /// Copies a file or folder of the manager's machine to the machine.
    Upload(Transfer),
    /// Copies a file or folder of the machine to the manager's machine.
    Download(Transfer),
}

impl Action {
    /// Where it runs a command of the workflow, if it does.
    pub(crate) const fn place(&self) -> Option<&Place> {
        match self {
            Self::Run(run) => Some(&run.place),
            Self::Script(script) => Some(&script.place),
            Self::File(_) | Self::Upload(_) | Self::Download(_) => None,
        }
    }
}

/// A program to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    pub(crate) command: Vec<String>,
    #[serde(flatten)]
    pub(crate) place: Place,
}

/// A script to be run.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Script {
    pub(crate) text: String,
    #[serde(flatten)]
    pub(crate) place: Place,
}

/// Where and with what a command runs.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Whom it runs as; whom the manager logs in as, if nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

/// A small file.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct FileContent {
    pub(crate) to: String,
    pub(crate) content: String,
    /// Octal digits.
    pub(crate) mode: String,
    /// Who writes it, and owns it; whom the manager logs in as, if nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

/// A file or folder that is copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transfer {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Of folders: what is not at the source is removed from the destination.
    pub(crate) delete: bool,
    /// Of a folder that comes back: only what changed in the machine since it was brought there, and nothing that changed
    /// here too.
    #[serde(rename = "onlyChanges", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) only_changes: bool,
}

/// Without values: they may be secret.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("user", &self.user)
            .finish()
    }
}

/// Without the text: it may hold secrets.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Without the content: it may be secret.
impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileContent")
            .field("to", &self.to)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Workflow {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long machines and steps may take together.
    #[must_use]
    pub fn timeout(&self) -> std::time::Duration {
        self.timeout.get()
    }

    /// Its groups of machines, by name.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.machines.iter().map(|(name, it)| (name.as_str(), it))
    }

    /// A group, by name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.machines.get(name)
    }

    /// Its steps, in their order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A step, by name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Every machine it needs.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.machines
            .iter()
            .flat_map(|(name, group)| slots_of(name, group))
    }

    /// The machines that a step is done on.
    pub fn slots_of_step<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = Slot> + 'a {
        let groups = step.on.iter();
        let groups = groups.filter_map(|name| Some((name, self.machines.get(name)?)));
        groups.flat_map(|(name, group)| slots_of(name, group))
    }

    /// The number of the first upload of a folder that comes back from where it went; nothing if it does not come back by its
    /// changes alone.
    pub(crate) fn number_of_folder(&self, here: &str, there: &str) -> Option<usize> {
        let actions = || self.steps.iter().flat_map(|step| &step.actions);
        let mut comes_back = actions().filter(|action| match action {
            Action::Download(it) => it.only_changes && it.from == there && it.to == here,
            _ => false,
        });
        comes_back.next()?;
        actions().position(|action| match action {
            Action::Upload(it) => it.from == here && it.to == there,
            _ => false,
        })
    }

    /// As a JSON document that reads back as the same workflow. It holds what may be secret.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and lists can be written")
    }
}

fn slots_of<'a>(name: &'a str, group: &Group) -> impl Iterator<Item = Slot> + 'a {
    (0..group.count).map(move |index| Slot::new(name, index))
}

impl Group {
    /// Where its machines come from.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Who makes them; none leaves it to the scheduler.
    #[must_use]
    pub const fn provider(&self) -> Option<ProviderId> {
        self.provider
    }

    /// What is wanted of them beside their template.
    #[must_use]
    pub const fn wants(&self) -> &Wants {
        &self.wants
    }

    /// Whether the run may leave one.
    #[must_use]
    pub const fn may_stay(&self) -> bool {
        !matches!(
            (self.end, self.end_on_failure),
            (End::Destroy, End::Destroy)
        )
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// What becomes of them.
    #[must_use]
    pub const fn end(&self, succeeded: bool) -> End {
        match succeeded {
            true => self.end,
            false => self.end_on_failure,
        }
    }
}

impl Action {
    /// Whether it brings the folder there that another brings back.
    fn is_upload_for(&self, download: &Transfer) -> bool {
        match self {
            Self::Upload(upload) => upload.from == download.to && upload.to == download.from,
            _ => false,
        }
    }
}

impl Step {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is done, one after the other.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }
}
