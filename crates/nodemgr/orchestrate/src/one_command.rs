//! `muster machine run`: one command on one new machine.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_template::{ProviderId, TemplateName};
use serde::Serialize;

use crate::workflow::{End, Limits, ReadWorkflowError, Wants, Workflow};

/// The step of [`one_command`] whose exit code is the run's.
pub const COMMAND_STEP: &str = "command";

/// What nobody limits: the longest time that a workflow can say, a hundred years.
const ENDLESS: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

/// How often it is tried to bring back what the command did, and how long is waited after the first failure, doubled with each:
/// it is nowhere else.
const DOWN_ATTEMPTS: u32 = 5;
const DOWN_DELAY: Duration = Duration::from_secs(3);

/// One command on one machine, with folders copied up before and down after.
#[derive(Clone)]
pub struct OneCommand {
    /// What machine.
    pub template: TemplateName,
    /// By whom; none leaves it to the scheduler.
    pub provider: Option<ProviderId>,
    /// What is wanted of it beside that.
    pub wants: Wants,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder it starts in.
    pub cwd: Option<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
    /// Folders that are copied to the machine before, and back after, also when the command fails.
    pub folders: Vec<SyncedFolder>,
    /// How long the command may take; as long as it likes, if nothing is said.
    pub timeout: Option<Duration>,
    /// What becomes of the machine.
    pub end: End,
    /// What becomes of it when the command fails.
    pub end_on_failure: End,
}

/// A folder that is the same here and there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncedFolder {
    /// On the manager's machine, absolute.
    pub local: String,
    /// On the machine: absolute, or below the home of its login.
    pub remote: String,
    /// Whether what the command made, changed or removed comes back. What changed here meanwhile stays as it is.
    pub back: bool,
}

/// Without values of variables: they may be secret.
impl std::fmt::Debug for OneCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneCommand")
            .field("template", &self.template)
            .field("command", &self.command)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// The workflow of one command. Its run exits with the command's own code.
///
/// # Errors
/// When a path is not absolute, a variable's name is none, or there is no command.
pub fn one_command(wanted: &OneCommand) -> Result<Workflow, ReadWorkflowError> {
    let document = Document::new(wanted);
    let text = serde_json::to_vec(&document).expect("texts and lists can be written");
    let limits = Limits {
        // One command with its variables is as long as the kernel allows.
        document: 16 << 20,
        ..Limits::default()
    };
    Workflow::read("the command", muster_config::Format::Json, &text, &limits)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    name: &'static str,
    timeout: muster_config::Duration,
    machines: BTreeMap<&'static str, GroupDocument<'a>>,
    steps: Vec<StepDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupDocument<'a> {
    template: &'a TemplateName,
    provider: Option<ProviderId>,
    #[serde(flatten)]
    wants: &'a Wants,
    provision: ProvisionDocument,
    end: End,
    end_on_failure: End,
}

/// Where one machine cannot be made, another may be.
#[derive(Serialize)]
struct ProvisionDocument {
    attempts: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StepDocument<'a> {
    name: &'static str,
    when: &'static str,
    timeout: muster_config::Duration,
    attempts: u32,
    delay: muster_config::Duration,
    actions: Vec<ActionDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ActionDocument<'a> {
    Run {
        command: &'a [String],
        cwd: Option<&'a str>,
        env: &'a BTreeMap<String, String>,
    },
    Upload {
        from: &'a str,
        to: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Download {
        from: &'a str,
        to: &'a str,
        only_changes: bool,
    },
}

impl<'a> Document<'a> {
    fn new(wanted: &'a OneCommand) -> Self {
        let group = GroupDocument {
            template: &wanted.template,
            provider: wanted.provider,
            wants: &wanted.wants,
            provision: ProvisionDocument { attempts: 2 },
            end: wanted.end,
            end_on_failure: wanted.end_on_failure,
        };
        let endless = muster_config::Duration::new(ENDLESS).unwrap_or_default();
        let timeout = wanted.timeout.and_then(muster_config::Duration::new);
        let timeout = timeout.unwrap_or(endless);
        let up = wanted.folders.iter().map(|folder| ActionDocument::Upload {
            from: &folder.local,
            to: &folder.remote,
        });
        let down = wanted.folders.iter().filter(|folder| folder.back);
        let down = down.map(|folder| ActionDocument::Download {
            from: &folder.remote,
            to: &folder.local,
            only_changes: true,
        });
        let run = ActionDocument::Run {
            command: &wanted.command,
            cwd: wanted.cwd.as_deref(),
            env: &wanted.env,
        };
        let step = |name, timeout, actions: Vec<_>| StepDocument {
            name,
            when: "success",
            timeout,
            attempts: 1,
            delay: muster_config::Duration::default(),
            actions,
        };
        let steps = [
            step("folders-up", endless, up.collect()),
            step(COMMAND_STEP, timeout, vec![run]),
            StepDocument {
                when: "always",
                attempts: DOWN_ATTEMPTS,
                delay: muster_config::Duration::new(DOWN_DELAY).unwrap_or_default(),
                ..step("folders-down", endless, down.collect())
            },
        ];
        let steps = steps.into_iter().filter(|step| !step.actions.is_empty());
        Self {
            name: "run",
            timeout: endless,
            machines: BTreeMap::from([("machine", group)]),
            steps: steps.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> OneCommand {
        OneCommand {
            template: "small".parse().expect("a name"),
            provider: None,
            wants: Wants::default(),
            command: vec!["make".to_owned(), "test".to_owned()],
            cwd: Some("/src".to_owned()),
            env: BTreeMap::from([("A".to_owned(), "hidden".to_owned())]),
            folders: vec![SyncedFolder {
                local: "/home/me/src".to_owned(),
                remote: "/src".to_owned(),
                back: true,
            }],
            timeout: Some(Duration::from_secs(90)),
            end: End::Destroy,
            end_on_failure: End::Keep,
        }
    }

    fn names(workflow: &Workflow) -> Vec<&str> {
        workflow.steps().iter().map(|step| step.name()).collect()
    }

    #[test]
    fn folders_go_up_before_and_down_after() {
        let workflow = one_command(&wanted()).expect("a workflow");
        assert_eq!(
            names(&workflow),
            ["folders-up", COMMAND_STEP, "folders-down"]
        );
        let command = workflow.step(COMMAND_STEP).expect("the step");
        assert_eq!(command.effort.timeout.get(), Duration::from_secs(90));
        assert_eq!(workflow.slots().count(), 1);
        assert_eq!(
            command.effort.attempts, 1,
            "nobody said that it may be repeated"
        );
        let down = workflow.step("folders-down").expect("the step");
        assert_eq!(
            (down.effort.attempts, down.effort.delay.get()),
            (DOWN_ATTEMPTS, DOWN_DELAY)
        );
        let group = workflow.group("machine").expect("the group");
        assert_eq!(
            (group.end(true), group.end(false)),
            (End::Destroy, End::Keep)
        );
    }

    #[test]
    fn what_nobody_limits_takes_as_long_as_it_takes() {
        let endless = OneCommand {
            timeout: None,
            ..wanted()
        };
        let workflow = one_command(&endless).expect("a workflow");
        assert_eq!(workflow.timeout(), ENDLESS);
        for step in workflow.steps() {
            assert_eq!(step.effort.timeout.get(), ENDLESS, "{}", step.name());
        }
        // Copying takes what it takes also where the command may not.
        let limited = one_command(&wanted()).expect("a workflow");
        assert_eq!(limited.timeout(), ENDLESS);
        let up = limited.step("folders-up").expect("the step");
        assert_eq!(up.effort.timeout.get(), ENDLESS);
    }

    #[test]
    fn without_folders_there_is_only_the_command() {
        let bare = OneCommand {
            folders: Vec::new(),
            ..wanted()
        };
        assert_eq!(
            names(&one_command(&bare).expect("a workflow")),
            [COMMAND_STEP]
        );
    }

    #[test]
    fn what_cannot_be_run_is_refused_and_secrets_are_not_shown() {
        let nothing = OneCommand {
            command: Vec::new(),
            ..wanted()
        };
        assert!(one_command(&nothing).is_err());
        let mut relative = wanted();
        relative.folders[0].local = "src".to_owned();
        assert!(one_command(&relative).is_err());
        assert!(!format!("{:?}", wanted()).contains("hidden"));
    }
}
