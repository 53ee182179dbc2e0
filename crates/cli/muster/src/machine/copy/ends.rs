//! Looks at both ends of a copy, so that it goes where it is meant to.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_executor::files::{Entry, Kind, RelPath};
use muster_executor::{Direction, Executor, ExecutorError, Transfer};
use tokio::time::Instant;

use super::place::{self, Found, Misfit};

/// For how long a machine that does not answer is asked again, as a copy itself does, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);

/// How many links a path may lead through, as the kernel has it.
const LINKS: usize = 40;

/// Why nothing can be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndsError {
    #[error("there is no {0}")]
    Missing(String),
    #[error("cannot look at {}", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("{target} is no folder, and {source_name} can only go into one")]
    NoFolder { target: String, source_name: String },
    #[error("{0} is a folder, and a file does not take its place")]
    Folder(String),
    #[error("{0} leads through too many links")]
    Links(String),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// A way to a machine, and what it is called.
pub(super) struct Far<'a> {
    pub(super) machine: &'a str,
    pub(super) executor: &'a dyn Executor,
}

/// Where a link that was named on the command line leads. One that leads nowhere is missing.
pub(super) fn real(path: &Path) -> Result<PathBuf, EndsError> {
    path.canonicalize().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            EndsError::Missing(path.display().to_string())
        }
        _ => EndsError::Look {
            path: path.to_owned(),
            source,
        },
    })
}

fn look_here(path: &Path) -> Result<Found, EndsError> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(Found::Folder),
        Ok(meta) if meta.is_file() => Ok(Found::File),
        Ok(_) => Ok(Found::Special),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Found::Nothing)
        }
        Err(source) => Err(EndsError::Look {
            path: path.to_owned(),
            source,
        }),
    }
}

impl Far<'_> {
    pub(super) fn shown(&self, path: &Path) -> String {
        format!("{}:{}", self.machine, path.display())
    }

    async fn entry(&self, folder: &Path, path: &RelPath) -> Result<Option<Entry>, ExecutorError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let looked = async { self.executor.files(folder).await?.look(path).await };
            match looked.await {
                Err(error) if error.class.is_retryable() && Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                looked => return looked,
            }
        }
    }

    async fn look(&self, path: &Path) -> Result<Found, EndsError> {
        let entry = self.entry(path, &RelPath::root()).await?;
        Ok(match entry.map(|it| it.kind) {
            None => Found::Nothing,
            Some(Kind::Folder) => Found::Folder,
            Some(Kind::File { .. }) => Found::File,
            Some(Kind::Link { .. } | Kind::Special) => Found::Special,
        })
    }

    /// The file to which a link leads; whatever is no link is left as it is.
    async fn real(&self, path: &Path) -> Result<PathBuf, EndsError> {
        let mut real = path.to_owned();
        for _ in 0..LINKS {
            let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
                return Ok(real);
            };
            let Ok(name) = RelPath::new(name.as_encoded_bytes()) else {
                return Ok(real);
            };
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            };
            match self.entry(folder, &name).await?.map(|it| it.kind) {
                Some(Kind::Link { target }) => {
                    use std::os::unix::ffi::OsStrExt as _;
                    real = folder.join(std::ffi::OsStr::from_bytes(&target));
                }
                _ => return Ok(real),
            }
        }
        Err(EndsError::Links(self.shown(path)))
    }
}

/// The copy that is meant by two paths, as `cp` understands them.
pub(super) async fn resolve(
    far: &Far<'_>,
    direction: Direction,
    from: &Path,
    to: &Path,
) -> Result<Transfer, EndsError> {
    let up = direction == Direction::Up;
    let shown = |path: &Path, is_far: bool| match is_far {
        true => far.shown(path),
        false => path.display().to_string(),
    };
    let (real_from, source) = match up {
        true => {
            let real = real(from)?;
            let found = look_here(&real)?;
            (real, found)
        }
        false => match far.look(from).await? {
            Found::File => (far.real(from).await?, Found::File),
            found => (from.to_owned(), found),
        },
    };
    if source == Found::Nothing {
        return Err(EndsError::Missing(shown(from, !up)));
    }
    let look = async |path: &Path| match up {
        true => far.look(path).await,
        false => look_here(path),
    };
    let there = look(to).await?;
    let is_folder = source == Found::Folder;
    let target = place::target(from, is_folder, to, there);
    let target = target.map_err(|Misfit::NoFolder| EndsError::NoFolder {
        target: shown(to, up),
        source_name: shown(from, !up),
    })?;
    if there == Found::Folder && !is_folder && look(&target).await? == Found::Folder {
        return Err(EndsError::Folder(shown(&target, up)));
    }
    Ok(match up {
        true => Transfer::upload(real_from, target),
        false => Transfer::download(real_from, target),
    })
}
