//! `cp` and `sync`: files to a machine, and from it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use muster_executor::{Progress, Report, Transfer};
use muster_machine_api::v1;
use serde::Serialize;
use tokio::sync::watch;

use super::MachineCommandError;
use super::client::Manager;
use super::exec::hold;
use crate::cli::machine as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::size;

/// Where a path is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    There(String, PathBuf),
}

/// A path of a machine has a colon before its first slash.
fn place(text: &str) -> Place {
    match text.split_once(':') {
        Some((machine, path)) if !machine.is_empty() && !machine.contains('/') => {
            let path = match path {
                "" => ".",
                path => path,
            };
            Place::There(machine.to_owned(), PathBuf::from(path))
        }
        _ => Place::Here(PathBuf::from(text)),
    }
}

/// A name that ends in a slash, or is a folder here, takes the source's name into it, as `cp` does.
fn below(target: &Path, source: &Path, is_folder: bool) -> PathBuf {
    let slash = target.as_os_str().as_encoded_bytes().ends_with(b"/");
    match source.file_name() {
        Some(name) if slash || is_folder => target.join(name),
        _ => target.to_owned(),
    }
}

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
    let (machine, mut transfer) = match (place(&copy.from), place(&copy.to)) {
        (Place::Here(from), Place::There(machine, to)) => {
            let to = match sync {
                true => to,
                false => below(&to, &from, false),
            };
            (machine, Transfer::upload(from, to))
        }
        (Place::There(machine, from), Place::Here(to)) => {
            let to = match sync {
                true => to,
                false => below(&to, &from, to.is_dir()),
            };
            (machine, Transfer::download(from, to))
        }
        _ => return Err(MachineCommandError::WhereToCopy.into()),
    };
    transfer.delete = delete;
    transfer.checksum = copy.checksum;
    let used = hold(manager, &machine, v1::HoldKind::Session).await?;
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
    let report = report.map_err(|error| used.failed(error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_the_first_slash_names_a_machine() {
        let there = |machine: &str, path: &str| Place::There(machine.to_owned(), path.into());
        for (text, expected) in [
            ("m-1:/src", there("m-1", "/src")),
            ("dev:notes", there("dev", "notes")),
            ("dev:", there("dev", ".")),
            ("./a:b", Place::Here("./a:b".into())),
            ("/a:b", Place::Here("/a:b".into())),
            ("folder", Place::Here("folder".into())),
            (":x", Place::Here(":x".into())),
        ] {
            assert_eq!(place(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_copied_into_a_folder_keeps_its_name() {
        let into = |target: &str, folder| below(Path::new(target), Path::new("/a/file"), folder);
        assert_eq!(into("/b/", false), Path::new("/b/file"));
        assert_eq!(into("/b", true), Path::new("/b/file"));
        assert_eq!(into("/b", false), Path::new("/b"));
    }
}
