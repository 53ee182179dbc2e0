//! `muster machine run`: one command, as a workflow.

use std::time::Duration;

use muster_machine_api::{time, v1};
use muster_orchestrate::{
    End, Format, Limits, OneCommand, SOURCES, SyncedFolder, Wants, Workflow, one_command,
};
use muster_provider::MachineId;
use muster_template::{BadTemplateName, ProviderId, TemplateName};
use tonic::Status;

use crate::catalog::PLAIN;
use crate::orchestra::wants;
use crate::service::{Services, error, wish};
use crate::wire::UnknownWord;

fn end(word: &str, usual: End) -> Result<End, Status> {
    Ok(match word {
        "" => usual,
        "destroy" => End::Destroy,
        "stop" => End::Stop,
        "keep" => End::Keep,
        other => {
            return Err(error::invalid(UnknownWord {
                word: other.to_owned(),
                known: "destroy, stop, keep",
            }));
        }
    })
}

fn timeout(given: Option<&prost_types::Duration>) -> Result<Option<Duration>, Status> {
    let given = given.map(time::length).transpose();
    given.map_err(error::invalid)
}

/// The folders, and where the command runs. On this machine the folder is there already.
fn folders(command: &v1::OneCommand, local: bool) -> (Vec<SyncedFolder>, Option<String>) {
    let cwd = Some(command.working_dir.clone()).filter(|it| !it.is_empty());
    if command.folder.is_empty() {
        return (Vec::new(), cwd);
    }
    if local {
        return (Vec::new(), cwd.or_else(|| Some(command.folder.clone())));
    }
    let remote = match command.remote_folder.as_str() {
        // Nobody but root can make anything in `/`.
        "" => SOURCES.to_owned(),
        named => named.to_owned(),
    };
    let folder = SyncedFolder {
        local: command.folder.clone(),
        remote: remote.clone(),
        back: command.bring_back,
    };
    (vec![folder], cwd.or(Some(remote)))
}

/// On this machine nothing is copied, so that it could go nowhere else, and what changes changes here.
fn fits_here(command: &v1::OneCommand) -> Result<(), &'static str> {
    if command.folder.is_empty() {
        return Ok(());
    }
    if !command.remote_folder.is_empty() {
        return Err(
            "the machine is this one, where the folder is used in its place: leave `--to` out, or use another provider",
        );
    }
    match command.bring_back {
        true => Ok(()),
        false => Err(
            "the machine is this one, where the folder is used in its place, so that what changes in it cannot be left behind: leave `--no-back` out, or use another provider",
        ),
    }
}

/// The same on a machine that there is.
fn on_machine(workflow: &Workflow, machine: &MachineId) -> Result<Workflow, Status> {
    let unread = |source: serde_json::Error| error::internal(source);
    let mut document: serde_json::Value =
        serde_json::from_str(&workflow.to_json()).map_err(unread)?;
    let groups = document
        .get_mut("machines")
        .and_then(|it| it.as_object_mut());
    for group in groups.into_iter().flat_map(|it| it.values_mut()) {
        if let Some(group) = group.as_object_mut() {
            group.remove("template");
            group.remove("provider");
            group.insert("machine".to_owned(), machine.as_str().into());
        }
    }
    let text = document.to_string();
    let limits = Limits {
        document: text.len(),
        ..Limits::default()
    };
    let read = Workflow::read("the command", Format::Json, text.as_bytes(), &limits);
    read.map_err(error::invalid)
}

impl Services {
    pub(super) async fn command_workflow(
        &self,
        command: v1::OneCommand,
    ) -> Result<Workflow, Status> {
        let asked = command.wish.clone().unwrap_or_default();
        let given_machine = match command.machine.as_str() {
            "" => None,
            name => Some(self.machine(name)?.record().clone()),
        };
        let provider = match &given_machine {
            Some(record) => Some(record.order.provider),
            None => wish::provider(&asked.provider).map_err(error::invalid)?,
        };
        let template: Result<TemplateName, BadTemplateName> = match asked.template.as_str() {
            "" => PLAIN.parse(),
            name => name.parse(),
        };
        let usual = match given_machine {
            Some(_) => End::Keep,
            None => End::Destroy,
        };
        let end_well = end(&command.finally, usual)?;
        let local = provider == Some(ProviderId::Local);
        if local {
            fits_here(&command).map_err(Status::invalid_argument)?;
        }
        let (folders, cwd) = folders(&command, local);
        let wanted = OneCommand {
            template: template.map_err(error::invalid)?,
            provider,
            wants: match given_machine {
                Some(_) => Wants::default(),
                None => wants::of_wish(&asked).map_err(error::invalid)?,
            },
            command: command.argv.clone(),
            cwd,
            env: command.env.clone(),
            folders,
            timeout: timeout(command.timeout.as_ref())?,
            end: end_well,
            end_on_failure: end(&command.finally_on_failure, end_well)?,
        };
        let workflow = one_command(&wanted).map_err(error::invalid)?;
        if let Some(record) = given_machine {
            return on_machine(&workflow, &record.id);
        }
        // A template that is not there is said now, and not when the run is under way.
        let plan = v1::PlanRequest {
            wish: Some(asked),
            anew: true,
        };
        self.plan_wish(plan).await?;
        Ok(workflow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(folder: &str) -> v1::OneCommand {
        v1::OneCommand {
            argv: vec!["make".to_owned()],
            folder: folder.to_owned(),
            bring_back: true,
            ..v1::OneCommand::default()
        }
    }

    #[test]
    fn a_folder_goes_there_and_back_and_stays_where_it_is_on_this_machine() {
        let (there, cwd) = folders(&command("/home/me/src"), false);
        assert_eq!(there[0].remote, SOURCES);
        assert!(there[0].back);
        assert_eq!(cwd.as_deref(), Some(SOURCES));
        let (here, cwd) = folders(&command("/home/me/src"), true);
        assert!(here.is_empty());
        assert_eq!(cwd.as_deref(), Some("/home/me/src"));
        assert_eq!(folders(&command(""), false), (Vec::new(), None));
    }

    #[test]
    fn what_makes_no_sense_on_this_machine_is_refused_there() {
        let usual = command("/home/me/src");
        assert_eq!(fits_here(&usual), Ok(()));
        let elsewhere = v1::OneCommand {
            remote_folder: "/build".to_owned(),
            ..usual.clone()
        };
        assert!(fits_here(&elsewhere).unwrap_err().contains("--to"));
        let left = v1::OneCommand {
            bring_back: false,
            ..usual
        };
        assert!(fits_here(&left).unwrap_err().contains("--no-back"));
        let without = v1::OneCommand {
            folder: String::new(),
            ..left
        };
        assert_eq!(fits_here(&without), Ok(()));
    }

    #[test]
    fn a_command_can_run_on_a_machine_that_there_is() {
        let wanted = OneCommand {
            template: PLAIN.parse().unwrap(),
            provider: Some(ProviderId::Docker),
            wants: Wants::default(),
            command: vec!["true".to_owned()],
            cwd: None,
            env: Default::default(),
            folders: Vec::new(),
            timeout: None,
            end: End::Keep,
            end_on_failure: End::Keep,
        };
        let workflow = one_command(&wanted).unwrap();
        let machine = MachineId::new("m-1").unwrap();
        let on_it = on_machine(&workflow, &machine).unwrap();
        let text = on_it.to_json();
        assert!(
            text.contains("\"m-1\"") && !text.contains("template"),
            "{text}"
        );
        assert_eq!(on_it.steps().len(), workflow.steps().len());
    }
}
