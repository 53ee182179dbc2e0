//! What the node has now: the resources file as it was last usable, the devices as they were last seen.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::domain::ResourceInfo;
use muster_telemetry::ErrorChain;
use tracing::{error, info, warn};

use crate::presence::{self, Missing};
use crate::table::ResourceTable;
use crate::watch::{FolderWatch, Folders};

/// Tells one content of a file from the next: device, inode, size, and the time of the last change to the nanosecond.
type Signature = Option<(u64, u64, u64, i64, i64)>;

fn signature(file: &Path) -> Signature {
    let found = fs::metadata(file).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.size(),
        found.ctime(),
        found.ctime_nsec(),
    ))
}

/// Runs what waits for the disk elsewhere.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// What the node has, and the watch over it.
#[derive(Debug)]
pub(super) struct Inventory {
    file: Arc<PathBuf>,
    table: Arc<ResourceTable>,
    read: Option<Signature>,
    missing: Missing,
    watch: Option<FolderWatch>,
    /// Some folder is not watched.
    is_blind: bool,
}

impl Inventory {
    /// Notices changes, if the system lets it.
    pub(super) fn watched(file: PathBuf) -> Self {
        let blind = Self::unwatched(file);
        match FolderWatch::new() {
            Ok(watch) => Self {
                watch: Some(watch),
                is_blind: false,
                ..blind
            },
            Err(failed) => {
                warn!(error = %ErrorChain(&failed), "devices cannot be watched: they are looked at from time to time");
                blind
            }
        }
    }

    /// Changes only when it is told to look.
    pub(super) fn unwatched(file: PathBuf) -> Self {
        Self {
            file: Arc::new(file),
            table: Arc::default(),
            read: None,
            missing: Missing::new(),
            watch: None,
            is_blind: true,
        }
    }

    pub(super) fn table(&self) -> &ResourceTable {
        &self.table
    }

    pub(super) fn missing(&self) -> &Missing {
        &self.missing
    }

    pub(super) fn announced(&self) -> Vec<ResourceInfo> {
        self.table.announced(&self.missing)
    }

    /// Whether changes can go unnoticed.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Waits for a change; for ever where there is no watch.
    pub(super) async fn changed(&mut self) {
        let Some(watch) = &self.watch else {
            return std::future::pending().await;
        };
        if let Err(failed) = watch.changed().await {
            warn!(error = %ErrorChain(&failed), "devices are not watched any more: they are looked at from time to time");
            self.watch = None;
            self.is_blind = true;
        }
    }

    /// Looks at everything again. A folder is watched before it is looked at, so that no change falls in between.
    pub(super) async fn refresh(&mut self) {
        self.arm().await;
        if self.reload().await {
            self.arm().await;
        }
        self.look().await;
    }

    /// Looks at the devices again.
    pub(super) async fn look(&mut self) {
        let table = Arc::clone(&self.table);
        self.missing = blocking(move || presence::look(table.devices())).await;
    }

    async fn arm(&mut self) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let (file, table) = (Arc::clone(&self.file), Arc::clone(&self.table));
        let folders = blocking(move || Folders::around(&file, table.devices())).await;
        let armed = watch.arm(&folders);
        if let (Err((folder, failed)), false) = (&armed, self.is_blind) {
            warn!(folder = %folder.display(), error = %ErrorChain(failed), "a folder of devices cannot be watched: they are looked at from time to time");
        }
        self.is_blind = armed.is_err();
    }

    /// Reads the resources file if it is another than the last time. Tells whether there is a new table.
    async fn reload(&mut self) -> bool {
        let (file, read) = (Arc::clone(&self.file), self.read);
        let reloaded = blocking(move || {
            // Taken first: what changes during the reading is read again.
            let now = signature(&file);
            (read != Some(now)).then(|| (now, ResourceTable::load(&file)))
        });
        let Some((signature, loaded)) = reloaded.await else {
            return false;
        };
        self.read = Some(signature);
        match loaded {
            Ok(table) if table == *self.table => false,
            Ok(table) => {
                info!(file = %self.file.display(), count = table.len(), "resources file read");
                self.table = Arc::new(table);
                true
            }
            Err(failed) => {
                error!(file = %self.file.display(), error = %ErrorChain(&failed), "the resources file cannot be used: the node goes on with what it had");
                false
            }
        }
    }
}
