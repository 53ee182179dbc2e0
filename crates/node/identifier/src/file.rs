//! The plugin `file`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::domain::SubjectId;
use muster_tls::FolderWatch;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::config::FileConfig;
use crate::identity::{self, Identity, SystemInfo};

/// Files that are replaced one after the other are read together, and not while they are written.
const QUIET: Duration = Duration::from_millis(100);
/// However busy the folders are, the files are looked at so often.
const LATEST: Duration = Duration::from_secs(1);
/// How often to look where folders cannot be watched.
const RESCAN: Duration = Duration::from_secs(30);
const LARGEST: u64 = 1024 * 1024;

/// Publishes what the files say, until it is ended.
pub(crate) async fn run(config: FileConfig, identity: watch::Sender<Identity>) {
    let files: Vec<PathBuf> = [
        Some(&config.system_id),
        config.unit_model.as_ref(),
        config.subjects.as_ref(),
    ]
    .into_iter()
    .flatten()
    .cloned()
    .collect();
    let mut folders = FolderWatch::new()
        .inspect_err(|error| warn!(%error, "files of the identity cannot be watched, they are read every 30 s"))
        .ok();
    loop {
        // Before reading: what changes meanwhile is noticed.
        let watched = match &mut folders {
            Some(folders) => folders.arm(&files).is_empty(),
            None => false,
        };
        let read = tokio::task::spawn_blocking({
            let (config, before) = (config.clone(), identity.borrow().clone());
            move || merge(&before, Reading::all(&config))
        });
        // The task panics only by a defect, and then the next change is another try.
        if let Ok(now) = read.await {
            publish(&identity, now);
        }
        wait(folders.as_mut(), watched).await;
    }
}

async fn wait(folders: Option<&mut FolderWatch>, watched: bool) {
    let Some(folders) = folders else {
        return sleep(RESCAN).await;
    };
    let changed = if watched {
        folders.changed().await
    } else {
        timeout(RESCAN, folders.changed()).await.unwrap_or(Ok(()))
    };
    if changed.is_err() {
        return sleep(RESCAN).await;
    }
    let settle = async { while timeout(QUIET, folders.changed()).await.is_ok() {} };
    // Late or quiet, both are fine.
    let _ = timeout(LATEST, settle).await;
}

fn publish(identity: &watch::Sender<Identity>, now: Identity) {
    identity.send_if_modified(|before| {
        if *before == now {
            return false;
        }
        match &now.problem {
            Some(problem) if before.problem != now.problem => {
                warn!(%problem, "the identity's files cannot be used");
            }
            _ => info!(subjects = now.subjects.len(), "the identity has changed"),
        }
        *before = now;
        true
    });
}

/// What each file gave; nothing for one that is not configured.
#[derive(Debug)]
struct Reading {
    system_id: Result<String, String>,
    unit_model: Option<Result<(String, String), String>>,
    subjects: Option<Result<(Vec<SubjectId>, usize), String>>,
}

impl Reading {
    fn all(config: &FileConfig) -> Self {
        Self {
            system_id: parsed(&config.system_id, identity::name),
            unit_model: config
                .unit_model
                .as_deref()
                .map(|path| parsed(path, identity::model)),
            subjects: config.subjects.as_deref().map(|path| parsed(path, lines)),
        }
    }
}

fn lines(text: &str) -> Result<(Vec<SubjectId>, usize), identity::InvalidText> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(identity::subjects(lines))
}

fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, identity::InvalidText>,
) -> Result<T, String> {
    let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe would keep a thread waiting for whoever writes into it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// What is known now: what was read, and for what could not be, what was known before.
fn merge(before: &Identity, read: Reading) -> Identity {
    let mut problems = Vec::new();
    let system_id = keep(read.system_id, &mut problems).or_else(|| {
        before
            .system
            .as_ref()
            .map(|system| system.system_id.clone())
    });
    let (unit_model, version) = match read.unit_model {
        None => Default::default(),
        Some(read) => keep(read, &mut problems).unwrap_or_else(|| {
            let before = before.system.as_ref();
            before
                .map(|system| (system.unit_model.clone(), system.version.clone()))
                .unwrap_or_default()
        }),
    };
    let subjects = match read.subjects {
        None => Vec::new(),
        Some(read) => match keep(read, &mut problems) {
            Some((subjects, 0)) => subjects,
            Some((subjects, left_out)) => {
                problems.push(format!(
                    "{left_out} lines cannot be subjects and are left out"
                ));
                subjects
            }
            None => before.subjects.clone(),
        },
    };
    Identity {
        system: system_id.map(|system_id| SystemInfo {
            system_id,
            unit_model,
            version,
        }),
        subjects,
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}

fn keep<T>(read: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}
