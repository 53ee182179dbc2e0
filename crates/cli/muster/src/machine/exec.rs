//! `exec` and `ssh`: a command on a machine, as if it ran here.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use muster_executor::{
    Chunk, Command, Executor, ExecutorError, Exit as CommandExit, Stdin, signal_number,
};
use muster_machine_api::{reach, v1};
use tokio::io::AsyncReadExt as _;

use super::MachineCommandError;
use super::client::Manager;
use super::held::Held;
use super::stops::{Stopped, Stops};
use super::terminal;
use crate::cli::machine as cli;
use crate::console::{Console, Exit};
use crate::error::CommandError;

/// So much is read of standard input at a time.
const PIECE: usize = 32 * 1024;

/// A machine that is being used: it is not put away meanwhile.
pub(super) struct Used {
    pub(super) machine: String,
    pub(super) executor: Arc<dyn Executor>,
    /// The manager counts the machine as busy while this is there.
    _held: Held,
}

impl Used {
    /// What stands for a command failed: it exits as shells do.
    pub(super) fn failed(&self, source: ExecutorError) -> CommandError {
        let machine = self.machine.clone();
        MachineCommandError::Executor { machine, source }.into()
    }

    /// Something else failed.
    pub(super) fn not_done(&self, source: ExecutorError) -> CommandError {
        let machine = self.machine.clone();
        MachineCommandError::Inside { machine, source }.into()
    }
}

/// Holds a machine and makes an executor for it.
pub(super) async fn hold(
    manager: &Manager,
    machine: &str,
    kind: v1::HoldKind,
) -> Result<Used, MachineCommandError> {
    let mut request = v1::HoldRequest {
        machine: machine.to_owned(),
        ..v1::HoldRequest::default()
    };
    request.set_kind(kind);
    let held = Held::begin(manager, request).await?;
    let request = v1::GetAccessRequest {
        machine: machine.to_owned(),
    };
    let access = manager.ask("GetAccess", async |mut it| it.get_access(request).await);
    let access = access.await?;
    let executor = reach::executor(&access)?;
    Ok(Used {
        machine: access.machine,
        executor,
        _held: held,
    })
}

fn command(argv: Vec<String>, place: cli::CommandArgs) -> Option<Command> {
    let mut argv = argv.into_iter();
    let mut command = Command::new(argv.next()?).args(argv);
    for (name, value) in place.env {
        command = command.env(name, value);
    }
    command.folder = place.cwd;
    command.user = place.user;
    command.timeout = place.timeout.map(|it| it.get());
    Some(command)
}

/// A shell's way to say how a command ended.
pub(super) fn exit_of(exit: &CommandExit) -> Exit {
    Exit::Command(match exit {
        CommandExit::Code(code) => u8::try_from(*code).unwrap_or(1),
        // One that has no number everywhere is a signal all the same.
        CommandExit::Signal(name) => 128 + signal_number(name).unwrap_or(0),
    })
}

pub(super) async fn exec(
    manager: &Manager,
    exec: cli::Exec,
    console: &mut Console,
) -> Result<Exit, CommandError> {
    let used = hold(manager, &exec.machine, v1::HoldKind::Command).await?;
    // The command line has one, says clap.
    let Some(mut command) = command(exec.command, exec.place) else {
        return Ok(Exit::Usage);
    };
    command.input = exec.input;
    console.flush()?;
    pass_through(&used, &command).await
}

/// Runs a command there with the standard streams of this program. It does not outlive this program's end.
async fn pass_through(used: &Used, command: &Command) -> Result<Exit, CommandError> {
    let mut stops = Stops::listen().map_err(MachineCommandError::Signals)?;
    let running = match stops.begin(used.executor.run(command)).await {
        Ok(running) => running,
        Err(Stopped { stop, late }) => {
            if let Some(Ok(running)) = late {
                stops.end(running.kill()).await;
            }
            return Ok(exit_of(&stop));
        }
    };
    let mut running = running.map_err(|error| used.failed(error))?;
    if let Some(stdin) = running.stdin() {
        tokio::spawn(feed(stdin));
    }
    loop {
        tokio::select! {
            chunk = running.next() => match chunk {
                Some(chunk) if print(&chunk).is_ok() => {}
                // As a command that writes to nobody ends here.
                Some(_) => {
                    stops.end(running.kill()).await;
                    return Ok(Exit::ReaderGone);
                }
                None => break,
            },
            stop = stops.next() => {
                stops.end(running.kill()).await;
                return Ok(exit_of(&stop));
            }
        }
    }
    let exit = running.wait().await;
    Ok(exit_of(&exit.map_err(|error| used.failed(error))?))
}

/// Standard input, until its end or that of the command.
pub(super) async fn feed(stdin: Stdin) {
    let mut input = tokio::io::stdin();
    let mut piece = vec![0; PIECE];
    while let Ok(read @ 1..) = input.read(&mut piece).await {
        if stdin.write(piece[..read].to_vec()).await.is_err() {
            return;
        }
    }
}

/// What a command writes goes where it would have gone here. Nobody to complain to keeps no command from its work.
fn print(chunk: &Chunk) -> io::Result<()> {
    match chunk {
        Chunk::Stdout(bytes) => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Chunk::Stderr(bytes) => {
            let _ = io::stderr().lock().write_all(bytes);
            Ok(())
        }
    }
}

pub(super) async fn ssh(
    manager: &Manager,
    ssh: cli::Ssh,
    console: &mut Console,
) -> Result<Exit, CommandError> {
    let used = hold(manager, &ssh.machine, v1::HoldKind::Session).await?;
    let mut command = command(ssh.command, ssh.place);
    console.flush()?;
    if !io::stdin().is_terminal() {
        // Without a terminal here there is none there: what comes on standard input goes to the command, or to a shell.
        let mut command = command.unwrap_or_else(|| Command::new("sh"));
        command.input = true;
        return pass_through(&used, &command).await;
    }
    if let Some(command) = &mut command {
        command.input = true;
    }
    let exit = terminal::attach(&used, command.as_ref()).await?;
    Ok(exit_of(&exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_exits_here_as_there() {
        for (exit, code) in [
            (CommandExit::Code(0), 0),
            (CommandExit::Code(42), 42),
            (CommandExit::Code(-1), 1),
            (CommandExit::Signal("KILL".to_owned()), 137),
            (CommandExit::Signal("RTMIN".to_owned()), 128),
        ] {
            assert_eq!(exit_of(&exit), Exit::Command(code), "{exit}");
        }
    }
}
