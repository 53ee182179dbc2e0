//! Looking: machines, providers, explanations, pins, health.

use muster_machine_api::v1::{self, machine_news::News};
use serde::Serialize;

use super::client::Manager;
use super::facts::{LockFacts, MachineFacts, ProviderFacts, moment};
use super::make::given;
use super::{MachineCommandError, watch};
use crate::call::Peer;
use crate::cli::machine as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::shown;
use crate::unit::facts::Listing;
use crate::unit::watch::Watcher;

pub(super) async fn list(
    manager: &Manager,
    list: &cli::List,
    console: &mut Console,
) -> Result<(), CommandError> {
    let all = list.all;
    if list.watch {
        return follow(manager, all, console).await;
    }
    let request = v1::ListMachinesRequest { all };
    let answer = manager.ask("ListMachines", async |mut it| {
        it.list_machines(request).await
    });
    let machines = answer.await.map_err(MachineCommandError::Call)?.machines;
    if machines.is_empty() {
        console.note("There are no machines; `muster machine provision` makes one.");
    }
    let machines = machines.into_iter().map(MachineFacts::from);
    Ok(console.answer(&Listing(machines.collect()))?)
}

async fn follow(manager: &Manager, all: bool, console: &mut Console) -> Result<(), CommandError> {
    let call = "WatchMachines";
    let request = v1::WatchMachinesRequest { all };
    let stream = manager.ask(call, async |mut it| it.watch_machines(request).await);
    let mut stream = stream.await.map_err(MachineCommandError::Call)?;
    let mut watcher = Watcher::<MachineFacts>::new(console.output());
    let failed = |status| MachineCommandError::Call(Peer::NodeManager.failed(call, status));
    while let Some(news) = stream.message().await.map_err(failed)? {
        match news.news {
            Some(News::Machine(machine)) => watcher.set((*machine).into(), console)?,
            Some(News::Gone(id)) => watcher.gone(&id, console)?,
            Some(News::Synced(_)) => watcher.synced(console)?,
            None => {}
        }
    }
    Err(MachineCommandError::Call(Peer::NodeManager.ended(call)).into())
}

pub(super) async fn show(
    manager: &Manager,
    wanted: cli::Show,
    console: &mut Console,
) -> Result<(), CommandError> {
    let ask = async || {
        let request = v1::GetMachineRequest {
            machine: wanted.one.machine.clone(),
        };
        let answer = manager.ask("GetMachine", async |mut it| it.get_machine(request).await);
        answer.await.map(MachineFacts::from)
    };
    if wanted.watch {
        return watch::one(ask, |it| it.state == "terminated", console).await;
    }
    let machine = ask().await.map_err(MachineCommandError::Call)?;
    Ok(console.answer(&machine)?)
}

pub(super) async fn providers(
    manager: &Manager,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::ListProvidersRequest {};
    let answer = manager.ask("ListProviders", async |mut it| {
        it.list_providers(request).await
    });
    let providers = answer.await.map_err(MachineCommandError::Call)?.providers;
    let providers = providers.into_iter().map(ProviderFacts::from);
    Ok(console.answer(&Listing(providers.collect()))?)
}

/// What a template comes to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationFacts {
    template: String,
    provider: String,
    fields: Vec<FieldFacts>,
    mappings: Vec<MappingFacts>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FieldFacts {
    field: String,
    /// The last one holds.
    steps: Vec<StepFacts>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepFacts {
    /// `null` where the field was taken back.
    value: Option<String>,
    by: String,
    at: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MappingFacts {
    number: u32,
    at: String,
    matched: bool,
    outcome: String,
}

impl From<v1::Explanation> for ExplanationFacts {
    fn from(told: v1::Explanation) -> Self {
        let step = |step: v1::FieldStep| StepFacts {
            value: step.value,
            by: step.by,
            at: (!step.at.is_empty()).then_some(step.at),
        };
        let field = |story: v1::FieldStory| FieldFacts {
            field: story.field,
            steps: story.steps.into_iter().map(step).collect(),
        };
        let mapping = |story: v1::MappingStory| MappingFacts {
            number: story.number,
            at: story.at,
            matched: story.matched,
            outcome: story.outcome,
        };
        Self {
            template: told.template,
            provider: told.provider,
            fields: told.fields.into_iter().map(field).collect(),
            mappings: told.mappings.into_iter().map(mapping).collect(),
            problems: told.problems,
        }
    }
}

impl Answer for ExplanationFacts {
    /// What holds, then what it replaced, the latest first; then the mappings.
    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for field in &self.fields {
            for (nth, step) in field.steps.iter().rev().enumerate() {
                let name = match nth {
                    0 => field.field.clone(),
                    _ => "  instead of".to_owned(),
                };
                let value = step.value.as_deref().unwrap_or("(taken back)");
                let at = step.at.as_deref().unwrap_or_default();
                rows.push(vec![name, shown(value), shown(&step.by), shown(at)]);
            }
        }
        for mapping in &self.mappings {
            rows.push(vec![
                format!("mapping #{}", mapping.number),
                shown(&mapping.outcome),
                String::new(),
                shown(&mapping.at),
            ]);
        }
        Table::list(&["FIELD", "VALUE", "SET BY", "WRITTEN AT"], rows)
    }
}

pub(super) async fn explain(
    manager: &Manager,
    explain: cli::Explain,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::ExplainRequest {
        template: explain.template,
        provider: explain.provider.unwrap_or_default(),
        given: given(None, explain.set),
    };
    let answer = manager.ask("Explain", async |mut it| it.explain(request).await);
    let told = answer.await.map_err(MachineCommandError::Call)?;
    let told = ExplanationFacts::from(told);
    console.note(format_args!(
        "template {} for {}",
        shown(&told.template),
        told.provider
    ));
    console.answer(&told)?;
    for problem in &told.problems {
        console.note(format_args!("This makes no machine: {}", shown(problem)));
    }
    Ok(())
}

pub(super) async fn lock(
    manager: &Manager,
    lock: cli::Lock,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::LockRequest {
        forget: lock.forget,
        forget_all: lock.forget_all,
    };
    let answer = manager.ask("Lock", async |mut it| it.lock(request).await);
    let answer = answer.await.map_err(MachineCommandError::Call)?;
    console.note(format_args!("lock file {}", shown(&answer.path)));
    let entries = answer.entries.into_iter().map(LockFacts::from);
    Ok(console.answer(&Listing(entries.collect()))?)
}

/// One check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckFacts {
    check: String,
    /// ok, warning or error
    state: &'static str,
    message: String,
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Checks(Vec<CheckFacts>);

impl Answer for Checks {
    fn table(&self) -> Table {
        let row = |it: &CheckFacts| {
            let remedy = it.remedy.as_deref().unwrap_or_default();
            vec![
                it.check.clone(),
                it.state.to_owned(),
                shown(&it.message),
                shown(remedy),
            ]
        };
        let rows = self.0.iter().map(row).collect();
        Table::list(&["CHECK", "STATE", "FOUND", "WHAT TO DO"], rows)
    }
}

pub(super) async fn doctor(manager: &Manager, console: &mut Console) -> Result<(), CommandError> {
    let request = v1::DiagnoseRequest {};
    let answer = manager.ask("Diagnose", async |mut it| it.diagnose(request).await);
    let checks = answer.await.map_err(MachineCommandError::Call)?.checks;
    let checks = checks.into_iter().map(|check| CheckFacts {
        state: match check.health() {
            v1::Health::Ok => "ok",
            v1::Health::Warning | v1::Health::Unspecified => "warning",
            v1::Health::Error => "error",
        },
        check: check.id,
        message: check.message,
        remedy: (!check.advice.is_empty()).then_some(check.advice),
    });
    let checks = Checks(checks.collect());
    console.answer(&checks)?;
    match checks.0.iter().filter(|it| it.state == "error").count() {
        0 => Ok(()),
        errors => Err(MachineCommandError::NotWell(errors).into()),
    }
}

/// The manager.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagerFacts {
    id: String,
    version: String,
    pid: u32,
    state_dir: String,
    config_file: Option<String>,
    started: Option<String>,
    machines: u64,
}

impl Answer for ManagerFacts {
    fn table(&self) -> Table {
        Table::facts([
            ("Manager", self.id.clone()),
            ("Version", self.version.clone()),
            ("Process", self.pid.to_string()),
            ("State", shown(&self.state_dir)),
            (
                "Configuration",
                shown(
                    self.config_file
                        .as_deref()
                        .unwrap_or("none; everything is as usual"),
                ),
            ),
            ("Started", self.started.clone().unwrap_or_default()),
            ("Machines", self.machines.to_string()),
        ])
    }
}

pub(super) async fn manager(manager: &Manager, console: &mut Console) -> Result<(), CommandError> {
    let request = v1::GetManagerRequest {};
    let answer = manager.ask("GetManager", async |mut it| it.get_manager(request).await);
    let told = answer.await.map_err(MachineCommandError::Call)?;
    let facts = ManagerFacts {
        started: moment(told.started.as_ref()).map(|it| it.to_string()),
        id: told.id,
        version: told.version,
        pid: told.pid,
        state_dir: told.state_dir,
        config_file: (!told.config_file.is_empty()).then_some(told.config_file),
        machines: told.machines,
    };
    Ok(console.answer(&facts)?)
}
