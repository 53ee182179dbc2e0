//! `cp` and `sync`: files to a machine, and from it.

mod ends;
mod place;
mod preview;

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};
use muster_executor::{Direction, Progress, Report, Transfer};
use muster_machine_api::v1;
use serde::Serialize;
use tokio::sync::watch;

pub(crate) use self::ends::EndsError;
use self::ends::Far;
use self::place::{Place, place};
use self::preview::{Preview, preview};
use super::MachineCommandError;
use super::client::Manager;
use super::exec::hold;
use crate::cli::machine as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::size;
use crate::unit::facts::Listing;

/// What was copied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Copied {
    files: u64,
    bytes: u64,
    resumed: u64,
    unchanged: u64,
    removed: u64,
    /// Devices, pipes and sockets.
    skipped: Vec<String>,
    rsync: bool,
}

impl From<Report> for Copied {
    fn from(report: Report) -> Self {
        let path = |it: &muster_executor::transfer::RelPath| it.as_path().display().to_string();
        Self {
            files: report.files,
            bytes: report.bytes,
            resumed: report.resumed,
            unchanged: report.unchanged,
            removed: report.removed,
            skipped: report.skipped.iter().map(path).collect(),
            rsync: report.rsync,
        }
    }
}

impl Answer for Copied {
    fn table(&self) -> Table {
        let unless_none = |number: u64| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        Table::facts([
            (
                "Copied",
                format!(
                    "{}, {}",
                    crate::text::count(usize::try_from(self.files).unwrap_or(usize::MAX), "file"),
                    size(self.bytes)
                ),
            ),
            ("Unchanged", unless_none(self.unchanged)),
            ("Removed", unless_none(self.removed)),
            ("Left out", crate::text::shown(&self.skipped.join(" "))),
        ])
    }
}

/// Copies, or with `sync` makes the target like the source.
pub(super) async fn copy(
    manager: &Manager,
    copy: cli::Copy,
    sync: bool,
    delete: bool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let (machine, direction, from, to) = match (place(&copy.from), place(&copy.to)) {
        (Place::Here(from), Place::There(machine, to)) => {
            // What is not here is said before a machine is asked for anything.
            ends::real(&from).map_err(MachineCommandError::from)?;
            (machine, Direction::Up, from, to)
        }
        (Place::There(machine, from), Place::Here(to)) => (machine, Direction::Down, from, to),
        _ => return Err(MachineCommandError::WhereToCopy.into()),
    };
    let used = hold(manager, &machine, v1::HoldKind::Session).await?;
    let mut transfer = match (sync, direction) {
        (true, Direction::Up) => {
            let from = ends::real(&from).map_err(MachineCommandError::from)?;
            Transfer::upload(from, to)
        }
        (true, Direction::Down) => Transfer::download(from, to),
        (false, _) => {
            let far = Far {
                machine: &machine,
                executor: &*used.executor,
            };
            let resolved = ends::resolve(&far, direction, &from, &to).await;
            resolved.map_err(|error| match error {
                EndsError::Executor(source) => used.not_done(source),
                error => MachineCommandError::from(error).into(),
            })?
        }
    };
    transfer.delete = delete;
    transfer.checksum = copy.checksum;
    if copy.dry_run {
        let looked = preview(&machine, &*used.executor, &transfer).await;
        let Preview { steps, unchanged } = looked.map_err(|error| used.not_done(error))?;
        let unchanged = usize::try_from(unchanged).unwrap_or(usize::MAX);
        console.answer(&Listing(steps))?;
        console.note(format_args!(
            "Nothing was done; {} would stay as they are.",
            crate::text::count(unchanged, "file")
        ));
        return Ok(());
    }
    let shown = std::io::stderr().is_terminal().then(|| {
        let (sender, receiver) = watch::channel(Progress::default());
        transfer.progress = Some(sender);
        tokio::spawn(draw(receiver))
    });
    let report = match sync {
        true => used.executor.sync(&transfer).await,
        false => used.executor.copy(&transfer).await,
    };
    drop(transfer);
    if let Some(shown) = shown {
        // It ends when nobody tells it more; one that panicked has drawn enough.
        let _ = shown.await;
    }
    let report = report.map_err(|error| used.not_done(error))?;
    if let Some(why) = report.without_rsync {
        console.note(format_args!("Copied file by file: {why}"));
    }
    Ok(console.answer(&Copied::from(report))?)
}

/// A bar of bytes, until there is no more to tell.
async fn draw(mut progress: watch::Receiver<Progress>) {
    let bar = ProgressBar::new(0);
    let style = "{bytes} of {total_bytes} [{bar:30}] {bytes_per_sec} {msg}";
    let style = ProgressStyle::with_template(style);
    bar.set_style(style.expect("the template is one"));
    while progress.changed().await.is_ok() {
        let now = progress.borrow_and_update().clone();
        bar.set_length(now.bytes);
        bar.set_position(now.bytes_done);
        let current = now.current.as_deref().unwrap_or_default();
        bar.set_message(format!(
            "{} of {} files {}",
            now.files_done,
            now.files,
            crate::text::shown(current)
        ));
    }
    bar.finish_and_clear();
}
