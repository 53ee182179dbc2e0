//! Carries out what was decided. Shared by all jobs of the manager's task.
//!
//! `networks` has what is about networks as a whole, `instances` what is about one instance.

mod instances;
mod networks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::domain::NetworkId;
use muster_cni::Runner;
use muster_dns::NameServer;
use muster_firewall::Firewall;
use muster_store::Store;

use crate::directory::Directory;
use crate::error::OpenNetworksError;
use crate::namespace::Namespaces;
use crate::node_network::NodeNetwork;
use crate::records::{self, Book, Record};
use crate::settings::NetworkSettings;

/// What all jobs need.
#[derive(Debug)]
pub(crate) struct Worker {
    settings: NetworkSettings,
    store: Store,
    runner: Runner,
    namespaces: Namespaces,
    firewall: Firewall,
    directory: Directory,
    /// What is in the database, and addresses that are about to be; never held across an await.
    book: Mutex<Book>,
    /// Networks that were brought up in this run, as they were then. Whoever changes links holds it.
    up: tokio::sync::Mutex<BTreeMap<NetworkId, NodeNetwork>>,
}

impl Worker {
    /// Reads what there is; nothing is changed yet.
    pub(crate) async fn open(
        settings: NetworkSettings,
        store: Store,
        names: Arc<dyn NameServer>,
    ) -> Result<Self, OpenNetworksError> {
        let folder = settings.run_folder.clone();
        let make = || {
            std::fs::create_dir_all(&folder)?;
            std::fs::canonicalize(&folder)
        };
        let folder = make().map_err(|source| OpenNetworksError::Folder {
            folder: folder.clone(),
            source,
        })?;
        let firewall = blocking(Firewall::detect).await;
        let firewall = firewall.map_err(OpenNetworksError::Firewall)?;
        let book = store.read(records::load).await;
        let book = book.map_err(OpenNetworksError::Store)?;
        let mut folders = vec![settings.program_folder.clone()];
        folders.extend(settings.plugin_folders.iter().cloned());
        let runner = Runner::new(folders, folder.join("cni"), settings.plugin_timeout);
        Ok(Self {
            runner,
            namespaces: Namespaces::new(folder.join("netns")),
            firewall,
            directory: Directory::new(names, settings.upstream_name_servers.clone()),
            book: Mutex::new(book),
            up: tokio::sync::Mutex::default(),
            settings,
            store,
        })
    }

    /// Never nought, which no timer takes.
    pub(crate) fn look_period(&self) -> Duration {
        self.settings.look_period.max(Duration::from_millis(10))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Networks that have instances, or leftovers of such.
    fn used(&self) -> BTreeSet<NetworkId> {
        let book = self.book();
        book.instances
            .values()
            .map(|it| it.network.clone())
            .collect()
    }

    fn instances_of(&self, network: &NetworkId) -> Vec<Record> {
        let book = self.book();
        let of_it = book.instances.values().filter(|it| it.network == *network);
        of_it.cloned().collect()
    }
}

/// What waits for the kernel or for a short program: the runtime has one thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("work on networks does not panic")
}
