//! A terminal on a machine, in the terminal here.

use std::io::{self, Write as _};

use muster_executor::{Command, Exit, Size, Terminal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::MachineCommandError;
use super::exec::{Used, feed};
use super::stops::{Stopped, Stops};
use crate::error::CommandError;

/// The terminal without line editing, until this is dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

fn size() -> Size {
    let window = tcgetwinsize(io::stdin());
    // Whoever has no size gets the one that terminals once had.
    window.map_or(
        Size {
            columns: 80,
            rows: 24,
        },
        |it| Size {
            columns: it.ws_col,
            rows: it.ws_row,
        },
    )
}

/// Gives the terminal here to a command there.
pub(super) async fn attach(used: &Used, command: Option<&Command>) -> Result<Exit, CommandError> {
    // Before the size is looked at: a change in between is not missed.
    let mut resized = signal(SignalKind::window_change()).map_err(MachineCommandError::Signals)?;
    let mut stops = Stops::listen().map_err(MachineCommandError::Signals)?;
    let terminal = Terminal {
        kind: std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
        size: size(),
    };
    let attached = match stops.begin(used.executor.attach(command, &terminal)).await {
        Ok(attached) => attached,
        Err(Stopped { stop, late }) => {
            if let Some(Ok(attached)) = late {
                stops.end(attached.kill()).await;
            }
            return Ok(stop);
        }
    };
    let mut attached = attached.map_err(|error| used.failed(error))?;
    let resizer = attached.resizer();
    let _raw = Raw::enter().map_err(MachineCommandError::Terminal)?;
    if let Some(keys) = attached.stdin() {
        tokio::spawn(feed(keys));
    }
    loop {
        tokio::select! {
            shown = attached.next() => {
                let Some(bytes) = shown else { break };
                let mut out = io::stdout().lock();
                let written = out.write_all(&bytes).and_then(|()| out.flush());
                written.map_err(MachineCommandError::Terminal)?;
            }
            Some(()) = resized.recv() => resizer.resize(size()),
            // Not a key: keys go to the machine. The terminal here is left as it was found.
            stop = stops.next() => {
                stops.end(attached.kill()).await;
                return Ok(stop);
            }
        }
    }
    let exit = attached.wait().await;
    exit.map_err(|error| used.failed(error))
}
