//! `muster machine templates`.

use jiff::Timestamp;
use muster_machine_api::v1;
use serde::Serialize;

use super::MachineCommandError;
use super::client::Manager;
use super::facts::TemplateFacts;
use super::run::read_file;
use crate::cli::machine::{AddTemplates, RemoveTemplates, Templates, TemplatesCommand};
use crate::console::Console;
use crate::error::CommandError;
use crate::text::shown;
use crate::unit::facts::{Listed, Listing};

pub(super) async fn run(
    manager: &Manager,
    args: Templates,
    console: &mut Console,
) -> Result<(), CommandError> {
    match args.command {
        None | Some(TemplatesCommand::List) => list(manager, console).await,
        Some(TemplatesCommand::Add(args)) => add(manager, &args, console).await,
        Some(TemplatesCommand::Remove(args)) => remove(manager, args, console).await,
    }
}

async fn list(manager: &Manager, console: &mut Console) -> Result<(), CommandError> {
    let request = v1::ListTemplatesRequest {};
    let answer = manager.ask("ListTemplates", async |mut it| {
        it.list_templates(request).await
    });
    let templates = answer.await.map_err(MachineCommandError::Call)?.templates;
    let templates = templates.into_iter().map(TemplateFacts::from);
    Ok(console.answer(&Listing(templates.collect()))?)
}

/// What became of a template.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PutFacts {
    name: String,
    /// added, replaced or unchanged
    outcome: String,
}

impl Listed for PutFacts {
    const KIND: &'static str = "template";
    const COLUMNS: &'static [&'static str] = &["TEMPLATE", "OUTCOME"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![shown(&self.name), shown(&self.outcome)]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}

async fn add(
    manager: &Manager,
    args: &AddTemplates,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::PutTemplatesRequest {
        name: args.file.display().to_string(),
        text: read_file(&args.file)?,
        dry_run: args.dry_run,
    };
    let answer = manager.ask("PutTemplates", async |mut it| {
        it.put_templates(request).await
    });
    let put = answer.await.map_err(MachineCommandError::Call)?.templates;
    let put = put.into_iter().map(|it| PutFacts {
        name: it.name,
        outcome: it.outcome,
    });
    Ok(console.answer(&Listing(put.collect()))?)
}

async fn remove(
    manager: &Manager,
    args: RemoveTemplates,
    console: &mut Console,
) -> Result<(), CommandError> {
    for name in args.templates {
        let request = v1::RemoveTemplateRequest {
            name: name.clone(),
            force: args.force,
            dry_run: args.dry_run,
        };
        let answer = manager.ask("RemoveTemplate", async |mut it| {
            it.remove_template(request).await
        });
        answer.await.map_err(MachineCommandError::Call)?;
        let name = shown(&name);
        match args.dry_run {
            true => console.note(format_args!("{name}: it could be removed")),
            false => console.note(format_args!("muster: removed the template {name}")),
        }
    }
    Ok(())
}
