//! The provider.

mod making;
mod power;
mod seeing;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt as _;
use muster_lifecycle::{Halt, State, Step, Verb, VerbSet, decide};
use muster_provider::{
    Answer, Capabilities, Capability, Described, Home, Isolation, ManagerId, Mark, Means,
    Operation, Order, Owned, Profile, Provider, ProviderError, ProviderId, Transport,
};
use tokio::sync::{OnceCell, OwnedMutexGuard};
use uuid::Uuid;

use crate::download::Downloads;
use crate::error::{OpenLibvirtError, Trouble};
use crate::fault::{BURIED, REMOVED, UNDEFINED};
use crate::folder::{Folders, MachineFolder};
use crate::helper::{CallError, Helpers};
use crate::image::{self, Fetches, Images, is_plain};
use crate::known::KnownSums;
use crate::plan::Accelerator;
use crate::protocol::{Change, FailureKind, Reply, Request};
use crate::settings::Settings;
use crate::status::Wanted;

/// Makes machines with libvirt.
///
/// One per folder: it is the only one that changes what is in there.
pub struct LibvirtProvider {
    shared: Arc<Shared>,
}

/// What calls and power tasks have in common.
struct Shared {
    profile: Profile,
    settings: Settings,
    folders: Folders,
    helpers: Helpers,
    images: Images,
    accelerator: OnceCell<Accelerator>,
    /// One change at a time of each machine.
    locks: Mutex<HashMap<Uuid, Weak<tokio::sync::Mutex<()>>>>,
    /// Machines that a power task looks after.
    driven: Mutex<HashSet<Uuid>>,
}

/// Keeps everybody else from a machine.
type Guard = OwnedMutexGuard<()>;

impl fmt::Debug for LibvirtProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibvirtProvider")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

/// How a machine with keys can be used.
fn access() -> Capabilities {
    [
        Means::Exec,
        Means::Attach,
        Means::Sftp,
        Means::Rsync,
        Means::Forward,
    ]
    .map(|means| Capability::new(Transport::Ssh, means))
    .into()
}

/// A URI of this host has nothing between its slashes.
fn is_local(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return false;
    };
    rest.starts_with('/') && !scheme.contains('+')
}

impl LibvirtProvider {
    /// Makes the folders. libvirt is not asked before something is wanted of it.
    ///
    /// # Errors
    /// When the URI is not of this host, or a folder cannot be made or used.
    pub fn open(settings: Settings) -> Result<Self, OpenLibvirtError> {
        if !is_local(&settings.uri) {
            return Err(OpenLibvirtError::RemoteUri { uri: settings.uri });
        }
        for path in [&settings.folder, &settings.cache] {
            if !is_plain(path) {
                return Err(OpenLibvirtError::Path { path: path.clone() });
            }
        }
        let folder = |(path, source)| OpenLibvirtError::Folder { path, source };
        let folders = Folders::open(&settings.folder).map_err(folder)?;
        make_cache(&settings.cache).map_err(|error| folder((settings.cache.clone(), error)))?;
        let downloads = Downloads::new(&settings.ca_bundle, settings.stall, settings.largest_image);
        let images = Images {
            cache: settings.cache.clone(),
            catalog: settings.catalog.clone(),
            downloads: downloads.map_err(OpenLibvirtError::Http)?,
            qemu_img: settings.qemu_img.clone(),
            known: KnownSums::default(),
            fetches: Fetches::default(),
            patience: image::PATIENCE,
        };
        let profile = Profile {
            id: ProviderId::Libvirt,
            verbs: VerbSet::ALL,
            access: access(),
            spot: false,
            one_machine: false,
            isolation: Isolation::Isolated,
        };
        let shared = Shared {
            profile,
            folders,
            helpers: Helpers::new(&settings),
            images,
            accelerator: OnceCell::new(),
            locks: Mutex::default(),
            driven: Mutex::default(),
            settings,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    fn error(&self, operation: Operation, object: &str, trouble: Trouble) -> ProviderError {
        ProviderError {
            provider: self.shared.profile.id,
            operation,
            object: object.to_owned(),
            class: trouble.class(),
            source: trouble.into(),
        }
    }
}

/// libvirt's QEMU reads base images, and may be another user.
fn make_cache(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

impl Shared {
    /// Waits until nobody else changes a machine.
    async fn lock(&self, uuid: Uuid) -> Guard {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let found = locks.get(&uuid).and_then(Weak::upgrade);
            found.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(uuid, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }

    /// Work with a machine's files, off the runtime's thread: flushing takes its time.
    async fn on_disk<T: Send + 'static>(
        &self,
        uuid: Uuid,
        work: impl FnOnce(&Folders, &MachineFolder) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let folders = self.folders.clone();
        let done = tokio::task::spawn_blocking(move || work(&folders, &folders.machine(uuid)));
        done.await.unwrap_or_else(|error| {
            Err(Trouble::File {
                action: "work with",
                path: self.folders.machine(uuid).path().to_owned(),
                source: std::io::Error::other(error),
            })
        })
    }

    /// Machines are of a hypervisor and of a folder: who has neither knows nothing of them.
    async fn home(&self) -> Result<Option<Home>, Trouble> {
        let name = self
            .on_disk(Uuid::nil(), |folders, _| folders.name())
            .await?;
        Ok(Home::new(&format!("{}#{name}", self.settings.uri)).ok())
    }

    async fn ask(&self, request: Request) -> Result<Reply, Trouble> {
        self.helpers.ask(&request).await.map_err(Trouble::Libvirt)
    }

    async fn change(&self, uuid: Uuid, mark: &Mark, change: Change) -> Result<(), Trouble> {
        let mark = mark.clone();
        match self.ask(Request::Change { uuid, mark, change }).await? {
            Reply::Done => Ok(()),
            _ => Err(Trouble::Libvirt(CallError::Answer)),
        }
    }

    async fn destroy(&self, machine: &Owned) -> Result<State, Trouble> {
        let Ok(uuid) = machine.resource.as_str().parse::<Uuid>() else {
            return Ok(State::Terminated);
        };
        let _guard = self.lock(uuid).await;
        let Some(view) = self.look(uuid, false).await? else {
            return Ok(State::Terminated);
        };
        view.check(&machine.mark)?;
        let mark = machine.mark.clone();
        self.on_disk(uuid, move |folders, _| {
            folders.bury(uuid, &mark, std::time::SystemTime::now())
        })
        .await?;
        muster_fault::hit(BURIED);
        if view.domain.is_some() {
            match self.change(uuid, &machine.mark, Change::Remove).await {
                Err(Trouble::Libvirt(CallError::Refused(failure)))
                    if failure.kind == FailureKind::NoDomain => {}
                done => done?,
            }
            muster_fault::hit(UNDEFINED);
        }
        self.on_disk(uuid, |_, folder| folder.remove()).await?;
        muster_fault::hit(REMOVED);
        Ok(State::Terminated)
    }

    async fn describe(self: &Arc<Self>, machine: &Owned) -> Result<Option<Described>, Trouble> {
        let Ok(uuid) = machine.resource.as_str().parse::<Uuid>() else {
            return Ok(None);
        };
        let Some(view) = self.look(uuid, true).await? else {
            return Ok(None);
        };
        view.check(&machine.mark)?;
        self.carry_on(&view);
        view.described().map(Some)
    }

    async fn act(self: &Arc<Self>, machine: &Owned, verb: Verb) -> Result<State, Trouble> {
        if verb == Verb::Terminate {
            return self.destroy(machine).await;
        }
        let uuid: Uuid = machine
            .resource
            .as_str()
            .parse()
            .map_err(|_| Trouble::Missing)?;
        let guard = self.lock(uuid).await;
        let Some(view) = self.look(uuid, false).await? else {
            return Err(Trouble::Missing);
        };
        view.check(&machine.mark)?;
        let step = decide(view.state(), verb, self.profile.verbs).map_err(Trouble::State)?;
        let Step::Act(verb) = step else {
            self.carry_on(&view);
            return Ok(view.state());
        };
        let mark = &machine.mark;
        match verb {
            Verb::Start | Verb::Resume => {
                // A stop that is done, and not yet known to be, must not stop it again.
                self.keep_no_power(uuid).await?;
                self.start(uuid, mark, &view).await?;
                Ok(State::Running)
            }
            Verb::Stop => {
                self.begin(uuid, Wanted::Stop).await?;
                Ok(State::Stopping(Halt::Off))
            }
            Verb::Reboot => {
                self.begin(uuid, Wanted::Reboot).await?;
                Ok(State::Running)
            }
            Verb::ForceStop => {
                self.keep_no_power(uuid).await?;
                self.change(uuid, mark, Change::Cut).await?;
                Ok(State::Stopped(Halt::Off))
            }
            Verb::Hibernate => {
                self.keep_no_power(uuid).await?;
                // Writing memory takes long, and whoever loses patience may cut the power meanwhile.
                drop(guard);
                self.change(uuid, mark, Change::Save).await?;
                Ok(State::Stopped(Halt::Hibernated))
            }
            Verb::Terminate => self.destroy(machine).await,
        }
    }
}

impl Provider for LibvirtProvider {
    fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        async move {
            let made = self.shared.provision(order).await;
            let object = order.mark.machine.as_str();
            made.map_err(|trouble| self.error(Operation::Provision, object, trouble))
        }
        .boxed()
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State> {
        async move {
            let done = self.shared.destroy(machine).await;
            let object = machine.resource.as_str();
            done.map_err(|trouble| self.error(Operation::Destroy, object, trouble))
        }
        .boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        async move {
            let described = self.shared.describe(machine).await;
            let object = machine.resource.as_str();
            described.map_err(|trouble| self.error(Operation::Describe, object, trouble))
        }
        .boxed()
    }

    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        async move {
            let listed = self.shared.list(manager).await;
            listed.map_err(|trouble| self.error(Operation::List, manager.as_str(), trouble))
        }
        .boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        async move {
            let done = self.shared.act(machine, verb).await;
            let object = machine.resource.as_str();
            done.map_err(|trouble| self.error(Operation::Act(verb), object, trouble))
        }
        .boxed()
    }

    fn home(&self) -> Answer<'_, Option<Home>> {
        async move {
            let home = self.shared.home().await;
            home.map_err(|trouble| self.error(Operation::Home, "itself", trouble))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hypervisors_of_this_host_are_used() {
        for uri in [
            "qemu:///system",
            "qemu:///session",
            "qemu:///system?socket=/run/x",
        ] {
            assert!(is_local(uri), "{uri}");
        }
        for uri in [
            "qemu+ssh://host/system",
            "qemu+tls:///system",
            "qemu://host/system",
            "",
            "qemu",
        ] {
            assert!(!is_local(uri), "{uri}");
            let root = tempfile::tempdir().unwrap();
            let mut settings = Settings::new(root.path(), root.path());
            settings.uri = uri.to_owned();
            let refused = LibvirtProvider::open(settings).unwrap_err();
            assert!(matches!(refused, OpenLibvirtError::RemoteUri { .. }));
        }
    }

    /// A disk that is not mounted is seen by what stands in its place.
    #[tokio::test]
    async fn a_folder_is_told_from_another_at_the_same_place() {
        let root = tempfile::tempdir().unwrap();
        let (folder, cache) = (root.path().join("machines"), root.path().join("cache"));
        let open = || LibvirtProvider::open(Settings::new(&folder, &cache)).unwrap();
        let home = open().home().await.unwrap();
        assert!(home.is_some());
        assert_eq!(open().home().await.unwrap(), home, "it lasts");
        let mut other = Settings::new(&folder, &cache);
        other.uri = "qemu:///session".to_owned();
        let other = LibvirtProvider::open(other).unwrap();
        assert_ne!(other.home().await.unwrap(), home);

        let provider = open();
        std::fs::rename(&folder, root.path().join("unmounted")).unwrap();
        provider.home().await.unwrap_err();
        assert_ne!(open().home().await.unwrap(), home);
    }

    #[test]
    fn folders_that_a_description_cannot_name_are_refused() {
        for path in ["relative", "/a\nb"] {
            let settings = Settings::new(Path::new(path), Path::new("/tmp"));
            let refused = LibvirtProvider::open(settings).unwrap_err();
            assert!(matches!(refused, OpenLibvirtError::Path { .. }));
        }
    }
}
