//! `muster up` and `muster down`: a Unit on this machine, to try Muster out.

use std::env;
use std::path::{Path, PathBuf};
use std::pin::pin;

use muster_up::{
    Down, DownError, InstanceRow, Outcome, Picture, Settings, Shape, Tell, UnitError, UpError,
    is_interruption,
};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cli::Output;
use crate::cli::up as cli;
use crate::console::{Answer, Console, Exit, Table};
use crate::error::CommandError;
use crate::sm;

/// Where tools look for the Unit by themselves.
const USUAL_SOCKET: &str = "/run/muster/cm.sock";
/// So much of an error fits beside the other columns.
const LIVE_ERROR: usize = 24;
/// Pictures may come faster than a terminal draws them.
const TOLD_AT_ONCE: usize = 16;

/// Why the Unit is not up, or not gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpCommandError {
    #[error("the Unit is not up")]
    Up(#[source] Box<UpError>),
    #[error("the Unit is not gone")]
    Down(#[source] Box<DownError>),
    #[error("cannot find out which program this is")]
    Own(#[source] std::io::Error),
    #[error("cannot wait for anything")]
    Wait(#[source] std::io::Error),
    #[error("it broke off by itself; that is a mistake in Muster")]
    BrokeOff(#[source] tokio::task::JoinError),
    #[error("interrupted: `muster up` goes on from here, `muster down` takes away what is there")]
    Interrupted,
}

impl UpCommandError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Up(error) => match **error {
                UpError::Layout(_) | UpError::Desired { .. } => Exit::Usage,
                UpError::Busy { .. }
                | UpError::OtherUnit { .. }
                | UpError::OtherUser { .. }
                | UpError::Foreign { .. } => Exit::Refused,
                UpError::Missing { .. } => Exit::NotFound,
                UpError::Unit(UnitError::Silent { .. }) => Exit::Unreachable,
                UpError::NotActive { .. } => Exit::Late,
                _ => Exit::Failed,
            },
            Self::Down(error) => match **error {
                DownError::Layout(_) => Exit::Usage,
                DownError::Busy { .. } | DownError::Foreign { .. } | DownError::NotRoot => {
                    Exit::Refused
                }
                _ => Exit::Failed,
            },
            Self::Own(_) | Self::Wait(_) | Self::BrokeOff(_) => Exit::Failed,
            Self::Interrupted => Exit::Interrupted,
        }
    }
}

/// How an instance of the demo is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    instance: &'a str,
    version: &'a str,
    node: &'a str,
    state: &'a str,
    address: &'a str,
    error: &'a str,
}

impl<'a> From<&'a InstanceRow> for Row<'a> {
    fn from(row: &'a InstanceRow) -> Self {
        Self {
            instance: &row.name,
            version: &row.version,
            node: &row.node,
            state: &row.state,
            address: &row.address,
            error: &row.error,
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Rows<'a>(Vec<Row<'a>>);

impl<'a> Rows<'a> {
    fn of(picture: &'a Picture) -> Self {
        Self(picture.instances.values().map(Row::from).collect())
    }

    /// Lines that are drawn over must not be wrapped.
    fn shorten(&mut self) {
        for row in &mut self.0 {
            let end = row.error.char_indices().nth(LIVE_ERROR);
            row.error = &row.error[..end.map_or(row.error.len(), |(at, _)| at)];
        }
    }
}

impl Answer for Rows<'_> {
    fn table(&self) -> Table {
        let row = |it: &Row<'_>| {
            [
                it.instance,
                it.version,
                it.node,
                it.state,
                it.address,
                it.error,
            ]
            .map(str::to_owned)
        };
        Table::list(
            &["INSTANCE", "VERSION", "NODE", "STATE", "ADDRESS", "ERROR"],
            self.0.iter().map(|it| row(it).to_vec()).collect(),
        )
    }
}

/// Tells steps as remarks, and how instances are as a table that stays in its place on a terminal.
struct Live<'a> {
    console: &'a mut Console,
    /// Lines of the table that is on the terminal.
    drawn: usize,
    /// What was told last, where there is no terminal.
    told: Picture,
}

impl Live<'_> {
    fn step(&mut self, text: &str) {
        self.console.note(format_args!("muster: {text}"));
    }

    fn picture(&mut self, picture: &Picture) {
        if !is_for_people(self.console) {
            return;
        }
        if !self.console.is_terminal() {
            for (name, row) in &picture.instances {
                if self.told.instances.get(name) != Some(row) {
                    let line = format!("muster: {name} {} {} {}", row.node, row.state, row.error);
                    self.console.note(line.trim_end());
                }
            }
            self.told = picture.clone();
            return;
        }
        // Whoever closed the output hears of it when the command ends.
        if self.drawn > 0 {
            let _ = self.console.print(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        let mut rows = Rows::of(picture);
        rows.shorten();
        let _ = self.console.answer(&rows);
        let _ = self.console.flush();
        self.drawn = picture.instances.len() + 1;
    }
}

/// What is told on the way, from the thread that works to the one that draws.
enum Told {
    Step(String),
    Picture(Picture),
}

struct Teller(mpsc::Sender<Told>);

impl Tell for Teller {
    // Nobody listens any more when the command has been interrupted; then the process ends.
    fn step(&mut self, text: &str) {
        let _ = self.0.blocking_send(Told::Step(text.to_owned()));
    }

    // Told from within a runtime, which must not be held up: one that finds no room is followed by another, and the last one is
    // in the outcome.
    fn picture(&mut self, picture: &Picture) {
        let _ = self.0.try_send(Told::Picture(picture.clone()));
    }
}

/// Does the work in another thread and draws what it tells, until it has ended or somebody has had enough. What is then half
/// done is for the next command, as after a `kill -9`.
fn watch<T: Send + 'static>(
    live: &mut Live<'_>,
    work: impl FnOnce(&mut dyn Tell) -> T + Send + 'static,
) -> Result<T, UpCommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(UpCommandError::Wait)?;
    let done = runtime.block_on(async {
        let (sender, mut told) = mpsc::channel(TOLD_AT_ONCE);
        // One future for all of the time: what comes while something is drawn is not lost.
        let mut interruption = pin!(tokio::signal::ctrl_c());
        let work = tokio::task::spawn_blocking(move || work(&mut Teller(sender)));
        loop {
            tokio::select! {
                // First, because programs that are run on the way hear of it, too, and fail.
                biased;
                stopped = &mut interruption => {
                    stopped.map_err(UpCommandError::Wait)?;
                    return Err(UpCommandError::Interrupted);
                }
                said = told.recv() => match said {
                    Some(Told::Step(text)) => live.step(&text),
                    Some(Told::Picture(picture)) => live.picture(&picture),
                    None => break,
                },
            }
        }
        work.await.map_err(UpCommandError::BrokeOff)
    });
    // The process ends, and with it whatever still works.
    runtime.shutdown_background();
    done
}

/// Programs are given the answer and nothing else.
fn is_for_people(console: &Console) -> bool {
    matches!(console.output(), Output::Table | Output::Wide)
}

/// Brings it up.
pub(crate) fn up(command: &cli::Up, console: &mut Console) -> Result<(), CommandError> {
    let (dir, run) = Settings::resolve(command.place.dir.as_deref(), command.place.run.as_deref());
    let shape = Settings::usual_shape();
    if shape == Shape::OneUser {
        console.note(
            "muster: without root there is one node instead of two, and it runs the demo's programs as you and in this \
             machine's network, not in containers with networks of their own; run it as root to see all of it",
        );
    }
    let settings = Settings {
        dir,
        run,
        programs: command.programs.clone().unwrap_or_else(sm::programs),
        muster: env::current_exe().map_err(UpCommandError::Own)?,
        shape,
        patience: command.timeout.get(),
    };
    let mut live = Live {
        console,
        drawn: 0,
        told: Picture::default(),
    };
    let wanted = settings.clone();
    let done = watch(&mut live, move |tell| muster_up::up(&wanted, tell))?;
    let is_drawn = live.drawn > 0;
    if let Ok(outcome) = &done
        && is_drawn
    {
        live.picture(&outcome.picture);
    }
    if done.as_ref().is_err_and(|error| is_interruption(error)) {
        return Err(UpCommandError::Interrupted.into());
    }
    if done.as_ref().is_err_and(UpError::has_begun) {
        let journal = settings.dir.join("main/journal");
        console.note(format_args!(
            "muster: what has been started goes on; `journalctl -D {}` shows its logs, `muster up` tries again, \
             `muster down` takes it away",
            journal.display()
        ));
    }
    let outcome = done.map_err(|error| UpCommandError::Up(Box::new(error)))?;
    if !is_drawn {
        console.answer(&Rows::of(&outcome.picture))?;
    }
    if is_for_people(console) {
        console.print(&next_steps(&outcome, &settings))?;
    }
    Ok(())
}

/// Takes it away.
pub(crate) fn down(command: &cli::Down, console: &mut Console) -> Result<(), CommandError> {
    let (dir, run) = Settings::resolve(command.place.dir.as_deref(), command.place.run.as_deref());
    let mut live = Live {
        console,
        drawn: 0,
        told: Picture::default(),
    };
    let state = dir.clone();
    let done = watch(&mut live, move |tell| muster_up::down(&state, &run, tell))?;
    let found = done.map_err(|error| match is_interruption(&error) {
        true => UpCommandError::Interrupted,
        false => UpCommandError::Down(Box::new(error)),
    })?;
    console.note(match found {
        Down::Removed => "muster: the Unit is gone, and everything of it".to_owned(),
        Down::NothingThere => format!("muster: there is no Unit in {}", dir.display()),
    });
    Ok(())
}

/// Whether a shell finds the program by its name.
fn is_in_path(program: &Path) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join("muster") == program)
}

/// What to try.
fn next_steps(outcome: &Outcome, settings: &Settings) -> String {
    let mut text = String::from("\nThe Unit is up. To try:\n");
    let mut line = |command: &str, what: &str| {
        let command = format!("  {command}");
        text.push_str(
            match what {
                "" => command.clone(),
                _ => format!("{command:58} # {what}"),
            }
            .as_str(),
        );
        text.push('\n');
    };
    if !is_in_path(&settings.muster)
        && let Some(folder) = settings.muster.parent()
    {
        line(&format!("export PATH={}:$PATH", folder.display()), "");
    }
    if outcome.control_socket != Path::new(USUAL_SOCKET) {
        line(
            &format!("export MUSTER_UNIT={}", outcome.control_socket.display()),
            "",
        );
    }
    line("muster get instances", "what runs, and where");
    if let Some(web) = &outcome.web {
        line(&format!("curl http://{web}/"), "the web service");
    }
    line("muster logs worker -f", "what the worker hears");
    line("muster explain web/demo/0", "why it is where it is");
    line("muster top", "what all of it uses");
    let desired: PathBuf = outcome.desired.clone();
    line(
        &format!("${{EDITOR:-vi}} {}", desired.display()),
        "change what shall run",
    );
    line(
        &format!("muster apply --wait {}", desired.display()),
        "and make it so",
    );
    line(
        "pkill -9 muster-sm",
        "nothing that runs is touched, and it comes back",
    );
    let place = match is_usual(settings) {
        true => String::new(),
        false => format!(
            " --dir {} --run {}",
            settings.dir.display(),
            settings.run.display()
        ),
    };
    line(&format!("muster down{place}"), "take all of it away");
    text
}

fn is_usual(settings: &Settings) -> bool {
    Settings::resolve(None, None) == (settings.dir.clone(), settings.run.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    fn outcome(web: Option<&str>) -> (Outcome, Settings) {
        let row = InstanceRow {
            name: "web/demo/0".into(),
            version: "1.0.0".into(),
            node: "main".into(),
            state: "active".into(),
            address: String::new(),
            error: String::new(),
        };
        let settings = Settings {
            dir: "/srv/demo".into(),
            run: "/srv/demo/run".into(),
            programs: "/usr/lib/muster".into(),
            muster: "/nowhere/in/the/path/muster".into(),
            shape: Shape::TwoNodes,
            patience: Duration::from_secs(1),
        };
        let outcome = Outcome {
            picture: Picture {
                nodes: BTreeMap::new(),
                instances: [(row.name.clone(), row)].into(),
            },
            web: web.map(str::to_owned),
            desired: "/srv/demo/desired.yaml".into(),
            control_socket: "/srv/demo/run/cm.sock".into(),
        };
        (outcome, settings)
    }

    #[test]
    fn what_to_try_can_be_typed_as_it_is_printed() {
        let (outcome, settings) = outcome(Some("172.17.0.4:8080"));
        let text = next_steps(&outcome, &settings);
        for line in [
            "export PATH=/nowhere/in/the/path:$PATH",
            "export MUSTER_UNIT=/srv/demo/run/cm.sock",
            "curl http://172.17.0.4:8080/",
            "muster apply --wait /srv/demo/desired.yaml",
            "muster down --dir /srv/demo --run /srv/demo/run",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn an_instance_without_an_address_is_not_to_be_called() {
        let (outcome, settings) = outcome(None);
        assert!(!next_steps(&outcome, &settings).contains("curl"));
    }

    #[test]
    fn a_long_error_does_not_wrap_the_table() {
        let (mut outcome, _) = outcome(None);
        for row in outcome.picture.instances.values_mut() {
            row.error = "ä".repeat(200);
        }
        let mut rows = Rows::of(&outcome.picture);
        rows.shorten();
        assert_eq!(rows.0[0].error.chars().count(), LIVE_ERROR);
    }
}
