//! `muster machine`: machines on demand, through a node manager, and machines themselves, through executors.

mod client;
mod copy;
mod events;
mod exec;
mod facts;
mod follow;
mod forward;
mod held;
mod inside;
mod join;
mod look;
mod make;
mod pool;
mod run;
mod runs;
mod start;
mod stop;
mod stops;
mod templates;
mod terminal;
mod verb;
mod watch;

use std::io;
use std::path::PathBuf;

use muster_executor::{ExecutorError, PowerVerb};
use muster_join::NotReady;
use muster_machine_api::reach::ReachError;

pub(crate) use self::client::ConnectManagerError;
use self::copy::EndsError;
use self::join::JoinCommandError;
use self::start::StartManagerError;
use self::stop::StopManagerError;
use crate::call::CallError;
use crate::cli::machine::{Machine, MachineCommand, ManagerArgs};
use crate::console::{Console, Exit};
use crate::error::CommandError;

/// Why a command about machines was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineCommandError {
    #[error("cannot start the runtime that connections need")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectManagerError),
    #[error(transparent)]
    Start(#[from] StartManagerError),
    #[error(transparent)]
    Stop(StopManagerError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("machine {machine}")]
    Executor {
        machine: String,
        #[source]
        source: ExecutorError,
    },
    #[error("machine {machine}")]
    Inside {
        machine: String,
        #[source]
        source: ExecutorError,
    },
    #[error(transparent)]
    Ends(#[from] EndsError),
    #[error(
        "machine {machine} is there and does not answer yet; `muster machine ssh {machine}` tries again, and `muster machine destroy {machine}` gives it up"
    )]
    Silent {
        machine: String,
        #[source]
        source: NotReady,
    },
    #[error("cannot read {}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("cannot use the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{} would go to a machine as a whole; name it with --folder if that is meant, or use --no-sync", .0.display())]
    WholeHome(PathBuf),
    #[error("one of FROM and TO must be on a machine, written MACHINE:PATH, and not both")]
    WhereToCopy,
    #[error("{0} of them failed; the reasons are above")]
    Several(usize),
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    #[error("{0} providers could not be asked; the reasons are above")]
    Providers(usize),
    #[error(transparent)]
    Join(Box<JoinCommandError>),
    #[error("{}; each says what to do", crate::text::count(*.0, "error"))]
    NotWell(usize),
}

impl MachineCommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Connect(error) => error.exit(),
            Self::Start(_) => Exit::Unreachable,
            Self::Call(error) => error.exit(),
            Self::ReadFile { source, .. } | Self::Folder { source, .. }
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Exit::NotFound
            }
            Self::Join(error) => error.exit(),
            Self::WholeHome(_) | Self::WhereToCopy => Exit::Usage,
            // As shells and `timeout` have it.
            Self::Executor { source, .. } => Exit::Command(source.class.exit_code()),
            Self::Ends(EndsError::Missing(_)) => Exit::NotFound,
            Self::Ends(EndsError::NoFolder { .. } | EndsError::Folder(_)) => Exit::Refused,
            Self::Silent { .. } => Exit::Late,
            Self::Runtime(_)
            | Self::Reach(_)
            | Self::Inside { .. }
            | Self::Ends(_)
            | Self::ReadFile { .. }
            | Self::Folder { .. }
            | Self::Several(_)
            | Self::Stop(_)
            | Self::Terminal(_)
            | Self::Signals(_)
            | Self::Providers(_)
            | Self::NotWell(_) => Exit::Failed,
        }
    }
}

/// Carries out one command.
pub(crate) fn run(machine: Machine, console: &mut Console) -> Result<Exit, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(MachineCommandError::Runtime)?;
    let done = runtime.block_on(carry_out(machine, console));
    // A thread that waits for a key is not waited for.
    runtime.shutdown_background();
    done
}

async fn carry_out(machine: Machine, console: &mut Console) -> Result<Exit, CommandError> {
    if let MachineCommand::Manager(ManagerArgs { stop: true }) = machine.command {
        // One that is not there is not started for that.
        stop::stop(&machine.connection, console).await?;
        return Ok(Exit::Done);
    }
    let manager = start::connect(&machine.connection, console).await?;
    match machine.command {
        MachineCommand::Run(run) => return run::run(&manager, *run, console).await,
        MachineCommand::Exec(exec) => return exec::exec(&manager, exec, console).await,
        MachineCommand::Ssh(ssh) => return exec::ssh(&manager, ssh, console).await,
        MachineCommand::Forward(args) => return forward::forward(&manager, args, console).await,
        MachineCommand::List(list) => look::list(&manager, &list, console).await,
        MachineCommand::Show(one) => look::show(&manager, one, console).await,
        MachineCommand::Plan(wish) => make::plan(&manager, wish, console).await,
        MachineCommand::Provision(provision) => {
            make::provision(&manager, *provision, console).await
        }
        MachineCommand::Join(join) => {
            let joining = join::Joining::read(&join.unit, join.programs)?;
            if join.dry_run {
                joining.check(&manager, &join.machine, console).await?;
                return Ok(Exit::Done);
            }
            joining.join(&manager, &join.machine, console).await
        }
        MachineCommand::Leave(leave) => join::leave_all(&manager, leave, console).await,
        MachineCommand::Explain(explain) => look::explain(&manager, explain, console).await,
        MachineCommand::Templates(args) => templates::run(&manager, args, console).await,
        MachineCommand::Providers => look::providers(&manager, console).await,
        MachineCommand::Cp(cp) => copy::copy(&manager, cp, false, false, console).await,
        MachineCommand::Sync(sync) => {
            copy::copy(&manager, sync.copy, true, sync.delete, console).await
        }
        MachineCommand::Busy(busy) => verb::keep_busy(&manager, &busy, console).await,
        MachineCommand::Start(it) => verb::ask(&manager, "start", it, console).await,
        MachineCommand::Stop(stop) if stop.from_inside => {
            inside::switch(&manager, PowerVerb::Off, stop.verb.machines, console).await
        }
        MachineCommand::Stop(stop) => {
            let verb = match stop.force {
                true => "force-stop",
                false => "stop",
            };
            verb::ask(&manager, verb, stop.verb, console).await
        }
        MachineCommand::Hibernate(it) => verb::ask(&manager, "hibernate", it, console).await,
        MachineCommand::Resume(it) => verb::ask(&manager, "resume", it, console).await,
        MachineCommand::Reboot(it) if it.from_inside => {
            inside::switch(&manager, PowerVerb::Reboot, it.verb.machines, console).await
        }
        MachineCommand::Reboot(it) => verb::ask(&manager, "reboot", it.verb, console).await,
        MachineCommand::Destroy(it) => verb::ask(&manager, verb::TERMINATE, it, console).await,
        MachineCommand::Gc(gc) => verb::gc(&manager, gc.destroy, console).await,
        MachineCommand::Pool(pool) => pool::run(&manager, pool, console).await,
        MachineCommand::Events(events) => events::events(&manager, events, console).await,
        MachineCommand::Runs(command) => runs::run(&manager, command, console).await,
        MachineCommand::Lock(lock) => look::lock(&manager, lock, console).await,
        MachineCommand::Doctor => look::doctor(&manager, console).await,
        MachineCommand::Manager(_) => look::manager(&manager, console).await,
    }
    .map(|()| Exit::Done)
}
