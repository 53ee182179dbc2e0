//! The task that owns every instance's data, and the handle to it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{DataPath, InstanceIdent};
use muster_fault::hit;
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use muster_tls::FolderWatch;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::database;
use crate::fault::{STATE_ACCEPTED, STATE_WRITTEN};
use crate::folders::{self, FolderError, Stamp, relative};
use crate::follow::{Action, Checksum, Event, Follow};
use crate::quota::{Quota, SetQuotaError};

/// Requests that wait for the task.
const REQUESTS: usize = 64;

/// Who keeps copies of states. Both calls return at once; answers come through [`InstanceData`].
pub trait StateCloud: Send + Sync + fmt::Debug + 'static {
    /// Whether there is one at all.
    fn exists(&self) -> bool;
    /// Shows a new state.
    fn offer(&self, instance: InstanceIdent, checksum: Checksum, content: Vec<u8>);
    /// Asks for the last state that was accepted.
    fn request(&self, instance: InstanceIdent);
}

/// For Units without a cloud: every state is accepted as it is found.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCloud;

impl StateCloud for NoCloud {
    fn exists(&self) -> bool {
        false
    }

    fn offer(&self, _: InstanceIdent, _: Checksum, _: Vec<u8>) {}

    fn request(&self, _: InstanceIdent) {}
}

/// What can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folders of instances are below.
    pub storage_dir: PathBuf,
    /// State files of instances are below.
    pub state_dir: PathBuf,
    /// A state file is looked at so long after it last changed.
    pub debounce: Duration,
    /// The longest state, where the item sets no limit.
    pub state_limit: u64,
}

impl Settings {
    /// The defaults, for these folders.
    pub fn new(storage_dir: impl Into<PathBuf>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            storage_dir: storage_dir.into(),
            state_dir: state_dir.into(),
            debounce: Duration::from_secs(1),
            state_limit: 1 << 20,
        }
    }
}

/// What an instance needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Who it runs as.
    pub uid: u32,
    /// The group it runs as.
    pub gid: u32,
    /// It keeps files, at most so many bytes.
    pub storage: Option<u64>,
    /// It keeps state, at most so many bytes.
    pub state: Option<u64>,
}

/// What its node is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// Where it keeps files.
    pub storage: Option<DataPath>,
    /// Where it keeps state.
    pub state: Option<DataPath>,
}

/// Why an instance's folders could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A folder or file.
    #[error("cannot make the folders of instance {instance}")]
    Folders {
        /// Which instance.
        instance: InstanceIdent,
        /// What exactly.
        source: FolderError,
    },
    /// Its limit.
    #[error("cannot limit what instance {instance} keeps")]
    Quota {
        /// Which instance.
        instance: InstanceIdent,
        /// What exactly.
        source: SetQuotaError,
    },
    /// The task has ended, or broke off.
    #[error("instance data is not kept any more")]
    Ended,
}

/// Why a state of the cloud was not taken.
#[derive(Debug, thiserror::Error)]
pub enum UpdateStateError {
    /// Nobody prepared such an instance.
    #[error("instance {instance} keeps no state")]
    Unknown {
        /// Which instance.
        instance: InstanceIdent,
    },
    /// The content is another one.
    #[error("the state of instance {instance} has checksum {found}, and was said to have {said}")]
    Checksum {
        /// Which instance.
        instance: InstanceIdent,
        /// Of the content.
        found: Checksum,
        /// By the cloud.
        said: Checksum,
    },
    /// It is too long.
    #[error("the state of instance {instance} has {length} bytes and may have {limit}")]
    TooLong {
        /// Which instance.
        instance: InstanceIdent,
        /// Of the content.
        length: u64,
        /// The most.
        limit: u64,
    },
    /// It cannot be written.
    #[error("cannot write the state of instance {instance}")]
    Write {
        /// Which instance.
        instance: InstanceIdent,
        /// What exactly.
        source: FolderError,
    },
    /// It cannot be kept that it was accepted.
    #[error("cannot keep the checksum of the state of instance {instance}")]
    Keep {
        /// Which instance.
        instance: InstanceIdent,
        /// What the database said.
        source: StoreError,
    },
    /// The task has ended, or broke off.
    #[error("instance data is not kept any more")]
    Ended,
}

enum Command {
    Prepare(
        InstanceIdent,
        Needs,
        oneshot::Sender<Result<Prepared, PrepareError>>,
    ),
    Release(InstanceIdent),
    Remove(InstanceIdent, oneshot::Sender<Result<(), FolderError>>),
    Update(
        InstanceIdent,
        Checksum,
        Vec<u8>,
        oneshot::Sender<Result<(), UpdateStateError>>,
    ),
    Answer(InstanceIdent, Event),
    Reconnected,
}

/// The accepted checksum of every instance that keeps state.
pub type Checksums = BTreeMap<InstanceIdent, Checksum>;

/// The handle. Cheap to clone.
#[derive(Debug, Clone)]
pub struct InstanceData {
    commands: mpsc::Sender<Command>,
    checksums: watch::Receiver<Arc<Checksums>>,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // States are the instances' business.
        f.write_str("Command")
    }
}

impl InstanceData {
    /// Reads what is known. The future is the task.
    pub async fn start(
        store: Store,
        settings: Settings,
        cloud: Arc<dyn StateCloud>,
    ) -> Result<(Self, impl Future<Output = ()> + Send), StoreError> {
        let mut known = database::load(&store).await?;
        let followed = database::followed(&store).await?.into_iter();
        let followed = followed.map(|(instance, limit)| {
            let accepted = known.remove(&relative(&instance));
            (instance, Followed::new(accepted, limit))
        });
        let followed = followed.collect();
        let (commands, inbox) = mpsc::channel(REQUESTS);
        let (checksums_in, checksums) = watch::channel(Arc::default());
        let keeper = Keeper {
            store,
            settings: Arc::new(settings),
            cloud,
            known,
            followed,
            checksums: checksums_in,
        };
        keeper.publish();
        let handle = Self {
            commands,
            checksums,
        };
        Ok((handle, keeper.run(inbox)))
    }

    /// Makes what an instance needs, limits it, and follows its state from now on.
    pub async fn prepare(
        &self,
        instance: InstanceIdent,
        needs: Needs,
    ) -> Result<Prepared, PrepareError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Prepare(instance, needs, reply));
        sent.await.map_err(|_| PrepareError::Ended)?;
        answer.await.unwrap_or(Err(PrepareError::Ended))
    }

    /// The instance does not run any more; what it kept stays.
    pub async fn release(&self, instance: InstanceIdent) {
        // With the task everything else has ended, too.
        let _ = self.commands.send(Command::Release(instance)).await;
    }

    /// Removes what an instance kept.
    pub async fn remove(&self, instance: InstanceIdent) -> Result<(), FolderError> {
        let (reply, answer) = oneshot::channel();
        if self
            .commands
            .send(Command::Remove(instance, reply))
            .await
            .is_err()
        {
            return Ok(());
        }
        answer.await.unwrap_or(Ok(()))
    }

    /// The cloud sends a state.
    pub async fn update(
        &self,
        instance: InstanceIdent,
        checksum: Checksum,
        content: Vec<u8>,
    ) -> Result<(), UpdateStateError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Update(instance, checksum, content, reply);
        let sent = self.commands.send(command).await;
        sent.map_err(|_| UpdateStateError::Ended)?;
        answer.await.unwrap_or(Err(UpdateStateError::Ended))
    }

    /// The cloud took a state that it was offered, or did not.
    pub async fn answered(&self, instance: InstanceIdent, checksum: Checksum, accepted: bool) {
        let event = if accepted {
            Event::Accepted(checksum)
        } else {
            Event::Rejected(checksum)
        };
        let _ = self.commands.send(Command::Answer(instance, event)).await;
    }

    /// The cloud is there again and may have missed something.
    pub async fn reconnected(&self) {
        let _ = self.commands.send(Command::Reconnected).await;
    }

    /// What the cloud has, as it changes.
    pub fn checksums(&self) -> watch::Receiver<Arc<Checksums>> {
        self.checksums.clone()
    }
}

#[derive(Debug)]
struct Followed {
    follow: Follow,
    limit: u64,
    stamp: Option<Stamp>,
}

impl Followed {
    fn new(accepted: Option<Checksum>, limit: u64) -> Self {
        Self {
            follow: Follow {
                accepted,
                offered: None,
            },
            limit,
            stamp: None,
        }
    }
}

#[derive(Debug)]
struct Keeper {
    store: Store,
    settings: Arc<Settings>,
    cloud: Arc<dyn StateCloud>,
    /// Of instances that are not followed yet, by path.
    known: BTreeMap<String, Checksum>,
    followed: BTreeMap<InstanceIdent, Followed>,
    checksums: watch::Sender<Arc<Checksums>>,
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut watch = match FolderWatch::new() {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::error!(%error, "states of instances cannot be watched; they are looked at when instances start");
                None
            }
        };
        self.finish_staged().await;
        self.arm(watch.as_mut());
        // What changed while nobody was there.
        let mut look_at = Some(Instant::now() + self.settings.debounce);
        loop {
            let changed = async {
                match &mut watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            let due = async {
                match look_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = inbox.recv() => {
                    let Some(command) = command else { return };
                    if self.carry_out(command).await {
                        self.arm(watch.as_mut());
                        look_at = Some(Instant::now() + self.settings.debounce);
                    }
                }
                result = changed => match result {
                    Ok(()) => look_at = Some(Instant::now() + self.settings.debounce),
                    Err(error) => {
                        tracing::error!(%error, "states of instances are not watched any more");
                        watch = None;
                    }
                },
                () = due => {
                    look_at = None;
                    self.look().await;
                }
            }
        }
    }

    /// States of the cloud that were on their way into files when the last task ended.
    async fn finish_staged(&self) {
        let (settings, all) = (Arc::clone(&self.settings), self.followed.keys().cloned());
        let all: Vec<InstanceIdent> = all.collect();
        let work = move || {
            for instance in all {
                if let Err(error) = folders::finish_write(&settings.state_dir, &instance) {
                    let error = ErrorChain(&error);
                    tracing::error!(%instance, %error, "a state of the cloud is not in place");
                }
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::error!(%error, "states of the cloud were not looked at");
        }
    }

    fn arm(&self, watch: Option<&mut FolderWatch>) {
        let root = &self.settings.state_dir;
        let followed = self.followed.keys();
        let files: Vec<PathBuf> = followed.map(|it| folders::state_path(root, it)).collect();
        if let Some(watch) = watch {
            for (folder, error) in watch.arm(&files) {
                tracing::error!(folder = %folder.display(), %error, "cannot watch states in a folder");
            }
        }
    }

    /// Answers whether other files are followed now.
    async fn carry_out(&mut self, command: Command) -> bool {
        match command {
            Command::Prepare(instance, needs, reply) => {
                let result = self.prepare(instance, needs).await;
                let _ = reply.send(result);
                true
            }
            Command::Release(instance) => {
                if let Some(followed) = self.followed.remove(&instance)
                    && let Some(accepted) = followed.follow.accepted
                {
                    self.known.insert(relative(&instance), accepted);
                }
                self.unfollow(&instance).await;
                self.publish();
                true
            }
            Command::Remove(instance, reply) => {
                let _ = reply.send(self.remove(&instance).await);
                true
            }
            Command::Update(instance, checksum, content, reply) => {
                let _ = reply.send(self.update(instance, checksum, content).await);
                false
            }
            Command::Answer(instance, event) => {
                self.happened(&instance, event, None).await;
                false
            }
            Command::Reconnected => {
                let all: Vec<InstanceIdent> = self.followed.keys().cloned().collect();
                for instance in all {
                    self.happened(&instance, Event::Reconnected, None).await;
                }
                false
            }
        }
    }

    async fn prepare(
        &mut self,
        instance: InstanceIdent,
        needs: Needs,
    ) -> Result<Prepared, PrepareError> {
        let (settings, of) = (Arc::clone(&self.settings), instance.clone());
        let made = tokio::task::spawn_blocking(move || make(&settings, &of, needs)).await;
        let prepared = made.map_err(|_| PrepareError::Ended)??;
        if needs.state.is_some() {
            let limit = needs.state.filter(|limit| *limit > 0);
            let limit = limit.unwrap_or(self.settings.state_limit);
            let before = self.followed.get_mut(&instance);
            let is_news = before.as_ref().is_none_or(|it| it.limit != limit);
            match before {
                Some(followed) => followed.limit = limit,
                None => {
                    let known = self.known.remove(&relative(&instance));
                    let followed = Followed::new(known, limit);
                    self.followed.insert(instance.clone(), followed);
                }
            }
            if is_news && let Err(error) = database::follow(&self.store, &instance, limit).await {
                let error = ErrorChain(&error);
                tracing::error!(%instance, %error, "a state will not be followed after a restart");
            }
            self.publish();
        }
        Ok(prepared)
    }

    async fn remove(&mut self, instance: &InstanceIdent) -> Result<(), FolderError> {
        self.followed.remove(instance);
        self.known.remove(&relative(instance));
        self.unfollow(instance).await;
        self.publish();
        if let Err(error) = database::forget(&self.store, instance).await {
            tracing::error!(%instance, error = %ErrorChain(&error), "cannot forget a state");
        }
        let (settings, of) = (Arc::clone(&self.settings), instance.clone());
        let removed = tokio::task::spawn_blocking(move || {
            folders::remove(&settings.state_dir, &of)?;
            folders::remove(&settings.storage_dir, &of)
        });
        removed.await.unwrap_or(Ok(()))
    }

    async fn unfollow(&self, instance: &InstanceIdent) {
        if let Err(error) = database::unfollow(&self.store, instance).await {
            let error = ErrorChain(&error);
            tracing::error!(%instance, %error, "a state will be followed again after a restart");
        }
    }

    async fn update(
        &mut self,
        instance: InstanceIdent,
        said: Checksum,
        content: Vec<u8>,
    ) -> Result<(), UpdateStateError> {
        let Some(followed) = self.followed.get(&instance) else {
            return Err(UpdateStateError::Unknown { instance });
        };
        let (length, limit) = (content.len() as u64, followed.limit);
        if length > limit {
            return Err(UpdateStateError::TooLong {
                instance,
                length,
                limit,
            });
        }
        let found = Checksum::of(&content);
        if found != said {
            return Err(UpdateStateError::Checksum {
                instance,
                found,
                said,
            });
        }
        let (settings, of) = (Arc::clone(&self.settings), instance.clone());
        let written = tokio::task::spawn_blocking(move || {
            folders::write_state(&settings.state_dir, &of, &content)
        });
        let written = written.await.map_err(|_| UpdateStateError::Ended)?;
        if let Err(source) = written {
            return Err(UpdateStateError::Write { instance, source });
        }
        hit(STATE_WRITTEN);
        if let Some(followed) = self.followed.get_mut(&instance) {
            followed.follow.apply(Event::Replaced(found), true);
        }
        self.keep(&instance, found)
            .await
            .map_err(|source| UpdateStateError::Keep { instance, source })
    }

    /// Looks at every file that has changed since the last time.
    async fn look(&mut self) {
        let root = &self.settings.state_dir;
        let mut changed = Vec::new();
        for (instance, followed) in &mut self.followed {
            let stamp = folders::stamp(root, instance);
            if stamp != followed.stamp {
                followed.stamp = stamp;
                changed.push((instance.clone(), followed.limit));
            }
        }
        for (instance, limit) in changed {
            let (settings, of) = (Arc::clone(&self.settings), instance.clone());
            let read = tokio::task::spawn_blocking(move || {
                folders::read_state(&settings.state_dir, &of, limit)
            });
            match read.await {
                Ok(Ok(content)) => {
                    let found = Event::Found(Checksum::of(&content));
                    self.happened(&instance, found, Some(content)).await;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%instance, error = %ErrorChain(&error), "a state is not taken in");
                }
                Err(error) => tracing::error!(%instance, %error, "a state was not read"),
            }
        }
    }

    async fn happened(&mut self, instance: &InstanceIdent, event: Event, content: Option<Vec<u8>>) {
        let Some(followed) = self.followed.get_mut(instance) else {
            tracing::debug!(%instance, "an answer about a state that nobody follows");
            return;
        };
        match followed.follow.apply(event, self.cloud.exists()) {
            None => {}
            Some(Action::Request) => self.cloud.request(instance.clone()),
            Some(Action::Keep(checksum)) => {
                if let Err(error) = self.keep(instance, checksum).await {
                    tracing::error!(%instance, error = %ErrorChain(&error), "cannot keep the checksum of a state");
                }
            }
            Some(Action::Offer(checksum)) => {
                let content = match content {
                    Some(content) => content,
                    None => match self.read_again(instance, checksum).await {
                        Some(content) => content,
                        None => return,
                    },
                };
                self.cloud.offer(instance.clone(), checksum, content);
            }
        }
    }

    /// What was offered, if the file still holds it; if not, the next look offers what it holds now.
    async fn read_again(&self, instance: &InstanceIdent, checksum: Checksum) -> Option<Vec<u8>> {
        let limit = self.followed.get(instance)?.limit;
        let (settings, of) = (Arc::clone(&self.settings), instance.clone());
        let read = tokio::task::spawn_blocking(move || {
            folders::read_state(&settings.state_dir, &of, limit)
        });
        let content = read.await.ok()?.ok()?;
        (Checksum::of(&content) == checksum).then_some(content)
    }

    async fn keep(
        &mut self,
        instance: &InstanceIdent,
        checksum: Checksum,
    ) -> Result<(), StoreError> {
        database::save(&self.store, instance, checksum).await?;
        hit(STATE_ACCEPTED);
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        let followed = self.followed.iter();
        let now: Checksums = followed
            .filter_map(|(instance, it)| Some((instance.clone(), it.follow.accepted?)))
            .collect();
        self.checksums.send_if_modified(|old| {
            let changed = **old != now;
            if changed {
                *old = Arc::new(now);
            }
            changed
        });
    }
}

fn make(
    settings: &Settings,
    instance: &InstanceIdent,
    needs: Needs,
) -> Result<Prepared, PrepareError> {
    let folders_failed = |source| PrepareError::Folders {
        instance: instance.clone(),
        source,
    };
    let mut prepared = Prepared::default();
    // Ids are components of a path, so what is made of them is a path.
    let path = |suffix: &str| format!("{}{suffix}", relative(instance)).parse().ok();
    if needs.storage.is_some() {
        folders::make_storage(&settings.storage_dir, instance, needs.uid, needs.gid)
            .map_err(folders_failed)?;
        prepared.storage = path("");
    }
    if needs.state.is_some() {
        folders::make_state(&settings.state_dir, instance, needs.uid, needs.gid)
            .map_err(folders_failed)?;
        prepared.state = path(&format!("/{}", folders::STATE_FILE));
    }
    limit(settings, instance, needs)?;
    Ok(prepared)
}

/// One user's files are limited per file system: where both folders are on one, by the sum.
fn limit(settings: &Settings, instance: &InstanceIdent, needs: Needs) -> Result<(), PrepareError> {
    let mut limits: Vec<(&PathBuf, u64, u64)> = Vec::new();
    for (root, bytes) in [
        (&settings.storage_dir, needs.storage),
        (&settings.state_dir, needs.state),
    ] {
        let (Some(bytes), Ok(facts)) = (bytes, rustix::fs::stat(root)) else {
            continue;
        };
        match limits
            .iter_mut()
            .find(|(_, device, _)| *device == facts.st_dev)
        {
            // Without a limit for one there is none for both.
            Some((.., sum)) if *sum > 0 && bytes > 0 => *sum = sum.saturating_add(bytes),
            Some((.., sum)) => *sum = 0,
            None => limits.push((root, facts.st_dev, bytes)),
        }
    }
    for (root, _, bytes) in limits {
        let quota = Quota {
            uid: needs.uid,
            bytes,
        };
        match quota.set(root) {
            Ok(()) => {}
            Err(SetQuotaError::NotSupported { .. }) if bytes == 0 => {}
            Err(error @ SetQuotaError::NotSupported { .. }) => {
                tracing::warn!(%instance, error = %ErrorChain(&error), "what an instance keeps is not limited");
            }
            Err(source) => {
                return Err(PrepareError::Quota {
                    instance: instance.clone(),
                    source,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
