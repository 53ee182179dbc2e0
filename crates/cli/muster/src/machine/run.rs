//! `run`: a command on a machine that is made for it, or a workflow.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use muster_executor::Exit as CommandExit;
use muster_machine_api::{time, v1};

use super::MachineCommandError;
use super::client::Manager;
use super::exec::exit_of;
use super::facts::RunFacts;
use super::follow::{self, RunLog};
use super::make::{show_named, show_plan, spinner, wish};
use super::stops::Stops;
use crate::cli::machine as cli;
use crate::console::{Console, Exit};
use crate::error::CommandError;
use crate::text::shown;

fn word(finally: Option<cli::Finally>) -> String {
    match finally {
        None => "",
        Some(cli::Finally::Destroy) => "destroy",
        Some(cli::Finally::Stop) => "stop",
        Some(cli::Finally::Keep) => "keep",
    }
    .to_owned()
}

/// The folder that goes there and back. A whole home, or everything, goes only if it is named.
fn folder(named: Option<&Path>, no_sync: bool) -> Result<Option<PathBuf>, MachineCommandError> {
    if no_sync {
        return Ok(None);
    }
    let path = named.unwrap_or(Path::new("."));
    let found = path.canonicalize();
    let found = found.map_err(|source| MachineCommandError::Folder {
        path: path.to_owned(),
        source,
    })?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|it| it.canonicalize().ok());
    if named.is_none() && (found.parent().is_none() || Some(&found) == home.as_ref()) {
        return Err(MachineCommandError::WholeHome(found));
    }
    Ok(Some(found))
}

fn one_command(args: cli::Run) -> Result<v1::OneCommand, MachineCommandError> {
    let folder = folder(args.folder.as_deref(), args.no_sync)?;
    Ok(v1::OneCommand {
        wish: Some(wish(args.wish)),
        machine: args.machine.unwrap_or_default(),
        argv: args.command,
        env: args.env.into_iter().collect(),
        working_dir: args.cwd.unwrap_or_default(),
        folder: folder.map_or_else(String::new, |it| it.display().to_string()),
        remote_folder: args.to.unwrap_or_default(),
        bring_back: !args.no_back,
        timeout: args.timeout.map(|it| time::duration(it.get())),
        finally: word(args.finally),
        finally_on_failure: word(args.on_failure),
    })
}

/// What is sent to the manager as it is.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, MachineCommandError> {
    let text = std::fs::read(path);
    text.map_err(|source| MachineCommandError::ReadFile {
        path: path.to_owned(),
        source,
    })
}

fn workflow(path: &Path) -> Result<v1::WorkflowText, MachineCommandError> {
    Ok(v1::WorkflowText {
        name: path.display().to_string(),
        text: read_file(path)?,
    })
}

pub(super) async fn run(
    manager: &Manager,
    args: cli::Run,
    console: &mut Console,
) -> Result<Exit, CommandError> {
    if args.dry_run {
        match args.machine {
            Some(machine) => show_named(manager, machine, console).await?,
            None => show_plan(manager, wish(args.wish), true, console).await?,
        }
        return Ok(Exit::Done);
    }
    let detach = args.detach;
    let what = match &args.workflow {
        Some(path) => v1::start_run_request::What::Workflow(workflow(path)?),
        None => v1::start_run_request::What::Command(Box::new(one_command(args)?)),
    };
    let mut signals = Interrupts::listen()?;
    let Some(started) = start(manager, what, &mut signals, console).await? else {
        return Ok(signals.exit());
    };
    if detach && signals.heard.is_none() {
        console.answer(&RunFacts::from(started))?;
        return Ok(Exit::Done);
    }
    let Some(ended) = follow(manager, &started.id, &mut signals, console).await? else {
        return Ok(signals.exit());
    };
    if let Some(failure) = &ended.failure {
        console.note(format_args!("muster: run {}: {}", ended.id, shown(failure)));
    }
    if ended.state == CANCELLED && signals.heard.is_some() {
        return Ok(signals.exit());
    }
    // One that was over before it could be cancelled ended as it ended.
    let code = ended.exit_code.and_then(|it| u8::try_from(it).ok());
    Ok(Exit::Command(code.unwrap_or(125)))
}

/// How the manager calls a run that was cancelled.
const CANCELLED: &str = "cancelled";

/// Ctrl-C, or whatever else ends programs: the first cancels the run, the second leaves it to itself.
struct Interrupts {
    stops: Stops,
    /// The first that there was.
    heard: Option<CommandExit>,
}

impl Interrupts {
    /// From now on none ends this program.
    fn listen() -> Result<Self, MachineCommandError> {
        let stops = Stops::listen().map_err(MachineCommandError::Signals)?;
        let heard = None;
        Ok(Self { stops, heard })
    }

    /// The next one; whether it is the first.
    async fn next(&mut self) -> bool {
        let stop = self.stops.next().await;
        let first = self.heard.is_none();
        self.heard.get_or_insert(stop);
        first
    }

    /// As if the first had ended the command.
    fn exit(&self) -> Exit {
        self.heard.as_ref().map_or(Exit::Command(130), exit_of)
    }
}

/// Starts the run. Nothing if nobody wants to know any more what becomes of it.
async fn start(
    manager: &Manager,
    what: v1::start_run_request::What,
    signals: &mut Interrupts,
    console: &mut Console,
) -> Result<Option<v1::Run>, CommandError> {
    let request = v1::StartRunRequest {
        what: Some(what),
        // A manager that dies before it answers is asked again, and knows whether it has begun the run.
        key: format!("muster-run-{:032x}", rand::random::<u128>()),
    };
    let sign = spinner("starting the run".to_owned());
    let started = follow::persist(async || {
        let request = request.clone();
        manager
            .ask_runs("StartRun", async |mut it| it.start_run(request).await)
            .await
    });
    tokio::pin!(started);
    loop {
        tokio::select! {
            started = &mut started => {
                sign.finish_and_clear();
                let started = started.map_err(MachineCommandError::Call)?;
                if signals.heard.is_some() {
                    cancel(manager, &started.id).await;
                }
                return Ok(Some(started));
            }
            first = signals.next() => match first {
                true => sign.suspend(|| console.note(CANCELLING)),
                false => {
                    sign.finish_and_clear();
                    console.note("muster: whether the run has begun is not known; `muster machine runs list` shows it");
                    return Ok(None);
                }
            }
        }
    }
}

const CANCELLING: &str =
    "muster: cancelling, and cleaning up; once more leaves that to the node manager";

async fn cancel(manager: &Manager, run: &str) {
    // One that is over meanwhile needs no cancelling.
    let _ = follow::persist(async || {
        let request = v1::CancelRunRequest {
            run: run.to_owned(),
        };
        let cancel = manager.ask_runs("CancelRun", async |mut it| it.cancel_run(request).await);
        cancel.await
    })
    .await;
}

/// Shows what the run writes until it is over. The first Ctrl-C cancels it, and its cleanup is waited for; the second leaves it
/// to itself: then nothing comes back. A manager that dies meanwhile is waited for.
async fn follow(
    manager: &Manager,
    run: &str,
    signals: &mut Interrupts,
    console: &mut Console,
) -> Result<Option<RunFacts>, CommandError> {
    let mut log = RunLog::new(manager, run);
    console.flush()?;
    loop {
        tokio::select! {
            piece = log.next() => match piece.map_err(MachineCommandError::Call)? {
                Some(piece) => print(&piece),
                None => break,
            },
            first = signals.next() => {
                if !first {
                    console.note(format_args!("muster: run {run} goes on cleaning up by itself"));
                    return Ok(None);
                }
                console.note(CANCELLING);
                tokio::select! {
                    () = cancel(manager, run) => {}
                    _ = signals.next() => {
                        console.note(format_args!("muster: run {run} goes on by itself; nobody answers who could cancel it"));
                        return Ok(None);
                    }
                }
            }
        }
    }
    // It is over: there is nothing to cancel any more.
    tokio::select! {
        over = follow::persist(async || follow::show(manager, run).await) => {
            Ok(Some(over.map_err(MachineCommandError::Call)?.into()))
        }
        _ = signals.next() => Ok(None),
    }
}

/// The bytes that were written.
pub(super) fn written(piece: &v1::RunLog) -> &[u8] {
    match piece.written.is_empty() {
        true => piece.text.as_bytes(),
        false => &piece.written,
    }
}

/// Output goes where the command's would have gone; the manager's own words to standard error.
fn print(piece: &v1::RunLog) {
    let bytes = written(piece);
    // A reader that went away keeps no run from its end.
    let _ = match piece.stream.as_str() {
        "stdout" => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        "stderr" => io::stderr().lock().write_all(bytes),
        _ => writeln!(
            io::stderr().lock(),
            "muster: {}",
            shown(piece.text.trim_end())
        ),
    };
}
