//! Lists of plugins, up and down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::attachment::Attachment;
use crate::cache::{self, CacheError, Entry};
use crate::error::{AddError, CheckError, CniCommand, DelError, PluginError, PluginFault};
use crate::exec::Call;
use crate::list::{NetworkList, PluginConfig};
use crate::result::CniResult;

muster_fault::points! {
    /// It is on disk what will be done, and nothing is done.
    INTENT_KEPT = "cni.intent-kept",
    /// A plugin has done its part, and its result is not on disk.
    PLUGIN_ADDED = "cni.plugin-added",
    /// The result of a plugin is on disk, and the next one has not begun.
    RESULT_KEPT = "cni.result-kept",
    /// A plugin has undone its part, and the next one has not begun.
    PLUGIN_DELETED = "cni.plugin-deleted",
    /// All plugins have undone their parts, and the file is still there.
    ALL_DELETED = "cni.all-deleted",
}

/// The file system that files of namespaces are in.
const NAMESPACE_FS: i64 = 0x6e73_6673;

/// Runs lists of plugins. Cheap to clone; see the crate's documentation.
#[derive(Debug, Clone)]
pub struct Runner {
    folders: Vec<PathBuf>,
    cache: PathBuf,
    limit: Duration,
}

impl Runner {
    /// Plugins are looked for in `folders`, in order; what was done is kept in `cache`; a plugin that takes longer than
    /// `limit` is killed.
    pub fn new(folders: Vec<PathBuf>, cache: PathBuf, limit: Duration) -> Self {
        Self {
            folders,
            cache,
            limit,
        }
    }

    /// Puts a container into a network: every plugin in order. What was done is undone when one fails.
    pub async fn add(
        &self,
        list: &NetworkList,
        attachment: &Attachment,
    ) -> Result<CniResult, AddError> {
        let container = || attachment.container().to_owned();
        let network = || list.name().to_owned();
        let unwritten = |source| AddError::Cache {
            container: container(),
            network: network(),
            source,
        };
        let mut entry = Entry {
            list: list.clone(),
            attachment: attachment.clone(),
            result: None,
            complete: false,
        };
        self.put(&entry).await.map_err(unwritten)?;
        muster_fault::hit(INTENT_KEPT);
        let mut latest = None;
        for (position, plugin) in list.plugins().iter().enumerate() {
            let added = self.add_one(&entry, plugin).await;
            let result = match added {
                Ok(result) => result,
                Err(source) => {
                    // What was never run has nothing to undo.
                    let ran = !matches!(
                        source.fault,
                        PluginFault::NotFound { .. } | PluginFault::Input { .. }
                    );
                    self.undo(&entry, position + usize::from(ran)).await;
                    return Err(AddError::Plugin {
                        container: container(),
                        network: network(),
                        source,
                    });
                }
            };
            muster_fault::hit(PLUGIN_ADDED);
            entry.result = Some(result.document().clone());
            entry.complete = position + 1 == list.plugins().len();
            latest = Some(result);
            if let Err(source) = self.put(&entry).await {
                self.undo(&entry, position + 1).await;
                return Err(unwritten(source));
            }
            muster_fault::hit(RESULT_KEPT);
        }
        Ok(latest.expect("a list has at least one plugin"))
    }

    async fn add_one(
        &self,
        entry: &Entry,
        plugin: &PluginConfig,
    ) -> Result<CniResult, PluginError> {
        let answer = self.call(entry, plugin, CniCommand::Add).await?;
        CniResult::parse(&answer, entry.list.version())
            .map_err(|source| failed(entry, plugin, CniCommand::Add, PluginFault::Garbage(source)))
    }

    /// After a failure: the first `begun` plugins, the last one first.
    async fn undo(&self, entry: &Entry, begun: usize) {
        let begun = &entry.list.plugins()[..begun];
        let (failures, _) = self.delete(entry, begun).await;
        if failures == 0
            && let Err(error) = self.forget(&entry.attachment).await
        {
            tracing::warn!(container = entry.attachment.container(), error = %error, "a kept result stays");
        }
    }

    /// Asks every plugin whether the container is in its network as it was put in.
    pub async fn check(&self, attachment: &Attachment) -> Result<(), CheckError> {
        let container = || attachment.container().to_owned();
        let entry = self
            .get(attachment)
            .await
            .map_err(|source| CheckError::Cache {
                container: container(),
                source,
            })?;
        let entry = entry.filter(|it| it.complete && it.attachment == *attachment);
        let entry = entry.ok_or_else(|| CheckError::NotAdded {
            container: container(),
        })?;
        if !entry.list.has_check() {
            return Ok(());
        }
        for plugin in entry.list.plugins() {
            let checked = self.call(&entry, plugin, CniCommand::Check).await;
            checked.map_err(|source| CheckError::Plugin {
                container: container(),
                source,
            })?;
        }
        Ok(())
    }

    /// Takes a container out of the network that it was put into: every plugin, the last one first, also when others fail.
    /// What was never put in is out.
    pub async fn del(&self, attachment: &Attachment) -> Result<(), DelError> {
        let container = || attachment.container().to_owned();
        let unreadable = |source| DelError::Cache {
            container: container(),
            source,
        };
        let Some(entry) = self.get(attachment).await.map_err(unreadable)? else {
            return self.forget(attachment).await.map_err(unreadable);
        };
        let plugins = entry.list.plugins();
        if let (failed, Some(first)) = self.delete(&entry, plugins).await {
            return Err(DelError::Plugins {
                container: container(),
                failed,
                all: plugins.len(),
                first: Box::new(first),
            });
        }
        muster_fault::hit(ALL_DELETED);
        self.forget(attachment).await.map_err(unreadable)
    }

    async fn delete(
        &self,
        entry: &Entry,
        plugins: &[PluginConfig],
    ) -> (usize, Option<PluginError>) {
        let (mut failures, mut first) = (0, None);
        for plugin in plugins.iter().rev() {
            if let Err(error) = self.call(entry, plugin, CniCommand::Del).await {
                tracing::warn!(
                    plugin = plugin.kind(),
                    container = entry.attachment.container(),
                    error = %error.fault,
                    "a plugin did not undo its part"
                );
                failures += 1;
                first.get_or_insert(error);
            }
            muster_fault::hit(PLUGIN_DELETED);
        }
        (failures, first)
    }

    async fn call(
        &self,
        entry: &Entry,
        plugin: &PluginConfig,
        command: CniCommand,
    ) -> Result<Vec<u8>, PluginError> {
        let attachment = &entry.attachment;
        let input = (entry.list).input(plugin, attachment.capabilities(), entry.result.as_ref());
        let namespace = attachment.namespace();
        let input_file = cache::input_file(&self.cache, attachment);
        let gone = command == CniCommand::Del && !is_namespace(namespace);
        let call = Call {
            folders: &self.folders,
            plugin: plugin.kind(),
            command,
            attachment,
            namespace: if gone { Path::new("") } else { namespace },
            input: Value::to_string(&input).into_bytes(),
            input_file: &input_file,
            limit: self.limit,
        };
        call.run()
            .await
            .map_err(|fault| failed(entry, plugin, command, fault))
    }

    /// Every attachment that something was begun for and not wholly undone.
    pub async fn attachments(&self) -> Result<Vec<Attachment>, CacheError> {
        self.on_disk(|folder| cache::all(&folder)).await
    }

    async fn put(&self, entry: &Entry) -> Result<(), CacheError> {
        let entry = entry.clone();
        self.on_disk(move |folder| cache::put(&folder, &entry))
            .await
    }

    async fn get(&self, attachment: &Attachment) -> Result<Option<Entry>, CacheError> {
        let attachment = attachment.clone();
        self.on_disk(move |folder| cache::get(&folder, &attachment))
            .await
    }

    async fn forget(&self, attachment: &Attachment) -> Result<(), CacheError> {
        let attachment = attachment.clone();
        self.on_disk(move |folder| cache::forget(&folder, &attachment))
            .await
    }

    /// Flushing may take long, and the runtime has one thread.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> T {
        let folder = self.cache.clone();
        let done = tokio::task::spawn_blocking(move || work(folder)).await;
        done.expect("work on the cache does not panic")
    }
}

fn failed(
    entry: &Entry,
    plugin: &PluginConfig,
    command: CniCommand,
    fault: PluginFault,
) -> PluginError {
    PluginError {
        plugin: plugin.kind().to_owned(),
        command,
        container: entry.attachment.container().to_owned(),
        fault,
    }
}

/// Whether the file is a namespace: after a reboot it may be an empty file.
fn is_namespace(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == NAMESPACE_FS)
}
