//! Making machines.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use muster_machine_api::{time, v1};

use super::client::Manager;
use super::facts::{CandidateFacts, MachineFacts};
use super::{MachineCommandError, exec, join};
use crate::cli::machine as cli;
use crate::console::{Console, OutputClosed};
use crate::error::CommandError;
use crate::unit::facts::Listing;

/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Fields that are wanted instead of what a template says.
pub(super) fn given(image: Option<String>, set: Vec<(String, String)>) -> BTreeMap<String, String> {
    let image = image.map(|image| ("image".to_owned(), image));
    image.into_iter().chain(set).collect()
}

pub(super) fn wish(args: cli::WishArgs) -> v1::Wish {
    let mut wish = v1::Wish {
        template: args.template.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        given: given(args.image, args.set),
        spot_types: args.spot_type,
        prefer: args.prefer,
        reuse: args.reuse,
        access: args.access,
        runs_for: args.runs_for.map(|it| time::duration(it.get())),
        max_price: args.max_price,
        tolerates: args.tolerate.into_iter().collect(),
        ..v1::Wish::default()
    };
    if let Some(spot) = args.spot {
        wish.set_spot(match spot {
            cli::Spot::Never => v1::Spot::Never,
            cli::Spot::Prefer => v1::Spot::Prefer,
            cli::Spot::Only => v1::Spot::Only,
            cli::Spot::Either => v1::Spot::Either,
        });
    }
    wish
}

pub(super) fn timers(args: &cli::TimerArgs) -> v1::Timers {
    let wire = |given: Option<muster_config::Duration>| given.map(|it| time::duration(it.get()));
    v1::Timers {
        idle: wire(args.idle),
        when_idle: match args.when_idle {
            None => "",
            Some(cli::WhenIdle::Stop) => "stop",
            Some(cli::WhenIdle::Hibernate) => "hibernate",
            Some(cli::WhenIdle::Terminate) => "terminate",
        }
        .to_owned(),
        stopped: wire(args.stopped),
        lifetime: wire(args.lifetime),
    }
}

pub(super) async fn plan(
    manager: &Manager,
    args: cli::WishArgs,
    console: &mut Console,
) -> Result<(), CommandError> {
    show_plan(manager, wish(args), false, console).await
}

pub(super) async fn show_plan(
    manager: &Manager,
    wish: v1::Wish,
    anew: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::PlanRequest {
        wish: Some(wish),
        anew,
    };
    let answer = manager.ask("Plan", async |mut it| it.plan(request).await);
    let candidates = answer.await.map_err(MachineCommandError::Call)?.candidates;
    show_candidates(candidates.into_iter().map(Into::into).collect(), console)
}

/// What a plan comes to where a machine was named.
pub(super) async fn show_named(
    manager: &Manager,
    machine: String,
    console: &mut Console,
) -> Result<(), CommandError> {
    let request = v1::GetMachineRequest { machine };
    let answer = manager.ask("GetMachine", async |mut it| it.get_machine(request).await);
    let machine = answer.await.map_err(MachineCommandError::Call)?;
    show_candidates(vec![CandidateFacts::named(machine)], console)
}

fn show_candidates(
    candidates: Vec<CandidateFacts>,
    console: &mut Console,
) -> Result<(), CommandError> {
    if !candidates.iter().any(|it| it.chosen) {
        console.note("Nothing fits.");
    }
    Ok(console.answer(&Listing(candidates))?)
}

/// A turning sign on standard error, for people only.
pub(super) fn spinner(text: String) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    bar.set_style(style.expect("the template is one"));
    bar.set_message(text);
    bar.enable_steady_tick(TICK);
    bar
}

pub(super) async fn provision(
    manager: &Manager,
    args: cli::Provision,
    console: &mut Console,
) -> Result<(), CommandError> {
    let wanted = wish(args.wish);
    if args.dry_run {
        let anew = args.name.is_some() || !args.label.is_empty() || args.key.is_some();
        return show_plan(manager, wanted, anew, console).await;
    }
    let mut labels: BTreeMap<String, String> = args.label.into_iter().collect();
    if let Some(name) = args.name {
        labels.insert("name".to_owned(), name);
    }
    let joining = args.join.as_deref();
    let joining = joining.map(|unit| join::Joining::read(unit, args.programs));
    let joining = joining.transpose()?;
    let request = v1::ProvisionRequest {
        wish: Some(wanted),
        labels,
        timers: Some(timers(&args.timers)),
        key: args.key.unwrap_or_default(),
        wait: !args.no_wait,
    };
    let sign = spinner("making a machine".to_owned());
    let answer = manager.ask("Provision", async |mut it| it.provision(request).await);
    let answer = answer.await;
    sign.finish_and_clear();
    let machine = answer.map_err(MachineCommandError::Call)?;
    if let Some(joining) = joining {
        joining.join(manager, &machine.id, console).await?;
    } else if !args.no_wait {
        wait_answer(manager, &machine, args.timeout.get()).await?;
    }
    Ok(made(machine, console)?)
}

/// A machine that runs, as its provider says, may have to boot before it can be used. One that nobody can get into need not.
async fn wait_answer(
    manager: &Manager,
    machine: &v1::Machine,
    patience: Duration,
) -> Result<(), MachineCommandError> {
    if machine.access.is_empty() {
        return Ok(());
    }
    let used = exec::hold(manager, &machine.id, v1::HoldKind::Command).await?;
    let sign = spinner(format!("waiting until {} answers", machine.id));
    let answered = muster_join::wait_answer(&*used.executor, patience).await;
    sign.finish_and_clear();
    answered.map_err(|source| MachineCommandError::Silent {
        machine: machine.id.clone(),
        source,
    })
}

/// People get a line that can be used, programs everything.
pub(super) fn made(machine: v1::Machine, console: &mut Console) -> Result<(), OutputClosed> {
    let facts = MachineFacts::from(machine);
    match console.output() {
        crate::cli::Output::Table => console.answer(&Listing(vec![facts])),
        _ => console.answer(&facts),
    }
}
