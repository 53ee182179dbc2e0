//! The acting half: carries out one decision about one instance, and undoes what it did of it when it fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosCode, AosError, InstanceIdent, RuntimeId};
use muster_item::ItemConfig;
use muster_runtime::{
    Adopted, InstanceSpec, NetworkAttachment, ResourceGrant, RunId, RunPolicy, RunState, Runtime,
    Secret,
};
use muster_telemetry::ErrorChain;

use crate::data;
use crate::decide::{Facts, Saved, StartFault};
use crate::driver::Parts;
use crate::observe::{Observed, RunningInstance};
use crate::seams::{InstalledImage, runtime_fault};
use crate::target::Target;

/// What the actions work with.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) parts: Parts,
    pub(crate) runtimes: BTreeMap<RuntimeId, Arc<dyn Runtime>>,
    pub(crate) observed: Observed,
}

/// How far a start came, to be undone in reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Resources,
    Permissions,
    Network,
    Runtime,
}

impl Workshop {
    fn runtime(&self, target: &Target) -> Result<&Arc<dyn Runtime>, AosError> {
        let id = &target.info.runtime_id;
        let works = |runtime: &&Arc<dyn Runtime>| !runtime.is_retired();
        self.runtimes.get(id).filter(works).ok_or_else(|| {
            let working = self.runtimes.iter().filter(|(_, runtime)| works(runtime));
            let known: Vec<&str> = working.map(|(id, _)| id.as_str()).collect();
            let known = known.join(", ");
            AosError::new(
                AosCode::NotFound,
                format!("this node has no runtime {id}; it has: {known}"),
            )
        })
    }

    pub(crate) async fn fetch(&self, target: &Target) -> Result<Facts, AosError> {
        self.runtime(target)?;
        let manifest = target.info.manifest_digest;
        let image = self.parts.images.install(manifest).await;
        let image = image.map_err(|error| error.while_doing("cannot get its image"))?;
        Ok(self.facts(&image.item_config))
    }

    /// What of an item matters for deciding.
    fn facts(&self, item: &ItemConfig) -> Facts {
        let run = &item.run_parameters;
        let connected = item.allowed_connections.iter().map(|it| it.item.clone());
        Facts {
            policy: policy(item),
            health_period: run.health_period,
            stop_timeout: run.stop_timeout,
            offline_ttl: item.offline_ttl,
            after: connected.chain(item.dependencies.iter().cloned()).collect(),
            scarce: self.parts.resources.scarce(item),
        }
    }

    pub(crate) async fn start(&self, target: &Target, run: RunId) -> Result<(), StartFault> {
        let runtime = self.runtime(target).map_err(StartFault::Failed)?;
        let manifest = target.info.manifest_digest;
        let image = self.parts.images.install(manifest).await;
        let image = image.map_err(|error| error.fault_while("cannot get its image"))?;
        let mut reached = Reached::Resources;
        let result = self
            .build_up(target, &image, runtime, run, &mut reached)
            .await;
        if let Err(fault) = result {
            let item = Some(&image.item_config);
            self.tear_down(target, item, Some(runtime), (reached, Duration::ZERO))
                .await
                .unwrap_or_else(|left| {
                    tracing::warn!(instance = %target.ident(), error = %left, "a failed start left something behind");
                });
            return Err(fault);
        }
        let place = runtime.place(target.ident(), run);
        self.observed.started(RunningInstance {
            info: &target.info,
            run,
            image: Some(&image),
            place: place.as_ref(),
        });
        Ok(())
    }

    async fn build_up(
        &self,
        target: &Target,
        image: &InstalledImage,
        runtime: &Arc<dyn Runtime>,
        run: RunId,
        reached: &mut Reached,
    ) -> Result<(), StartFault> {
        let (ident, item) = (target.ident(), &image.item_config);
        let resources = self.parts.resources.take(ident, item).await;
        let resources = resources.map_err(|it| it.fault_while("cannot get its resources"))?;
        *reached = Reached::Permissions;
        let secret = self.parts.permissions.register(ident, item).await;
        let secret = secret.map_err(|it| it.fault_while("cannot register its permissions"))?;
        *reached = Reached::Network;
        let network = self.parts.network.attach(&target.info, image).await;
        let network = network.map_err(|it| it.fault_while("cannot make its network"))?;
        self.make_places(target).await?;
        *reached = Reached::Runtime;
        let spec = Arc::new(self.spec(target, image.clone(), resources, secret, network));
        let failed = |error| StartFault::Failed(runtime_fault(&error));
        runtime.prepare(Arc::clone(&spec)).await.map_err(failed)?;
        runtime.start(spec, run).await.map_err(failed)
    }

    /// What it keeps stays when it goes: nothing of this is undone.
    async fn make_places(&self, target: &Target) -> Result<(), StartFault> {
        let info = target.info.clone();
        let storages = self.parts.storage_folder.clone();
        let states = self.parts.state_folder.clone();
        let made = tokio::task::spawn_blocking(move || {
            data::make_storage(&storages, &info)?;
            data::make_state(&states, &info)
        });
        let failed = |error: &(dyn std::error::Error + 'static)| {
            let why = format!(
                "cannot make a place for what it keeps: {}",
                ErrorChain(error)
            );
            StartFault::Failed(AosError::new(AosCode::Failed, why))
        };
        let made = made.await.map_err(|error| failed(&error))?;
        made.map_err(|error| failed(&error))
    }

    /// Tells of what was found running, before anything happens to it. Answers with what is known of it.
    pub(crate) async fn introduce(
        &self,
        saved: &Saved,
        adopted: Vec<Adopted>,
    ) -> Vec<(Adopted, Option<Facts>)> {
        let mut introduced = Vec::with_capacity(adopted.len());
        let left: BTreeMap<&InstanceIdent, &(Arc<Target>, RunId)> = saved
            .rows
            .iter()
            .filter_map(|(ident, row)| Some((ident, row.running.as_ref()?)))
            .collect();
        for found in adopted {
            let known = left.get(&found.instance);
            // Nobody knows what another run is made of, and it is ended.
            let Some((target, _)) = known.filter(|(_, run)| *run == found.run) else {
                introduced.push((found, None));
                continue;
            };
            let image = self.parts.images.installed(target.info.manifest_digest);
            let image = image.await;
            let runtime = self.runtimes.get(&target.info.runtime_id);
            let place = runtime.and_then(|it| it.place(&found.instance, found.run));
            let running = RunningInstance {
                info: &target.info,
                run: found.run,
                image: image.as_ref(),
                place: place.as_ref(),
            };
            match found.state {
                RunState::Ended(_) => self.observed.found_ended(running),
                _ => self.observed.started(running),
            }
            let facts = image.map(|image| self.facts(&image.item_config));
            introduced.push((found, facts));
        }
        introduced
    }

    fn spec(
        &self,
        target: &Target,
        image: InstalledImage,
        resources: Vec<ResourceGrant>,
        secret: Option<Secret>,
        network: Option<NetworkAttachment>,
    ) -> InstanceSpec {
        let InstalledImage {
            paths,
            image_config,
            item_config,
        } = image;
        let below = |root: &PathBuf, path: Option<&muster_api::domain::DataPath>| {
            path.map(|path| path.below(root))
        };
        InstanceSpec {
            policy: policy(&item_config),
            state_file: below(&self.parts.state_folder, target.info.state_path.as_ref()),
            storage: below(
                &self.parts.storage_folder,
                target.info.storage_path.as_ref(),
            ),
            info: target.info.clone(),
            image: paths,
            image_config,
            item_config,
            env_override: target.env_override.clone(),
            secret,
            network,
            resources,
        }
    }

    pub(crate) async fn stop(&self, target: &Target, grace: Duration) -> Result<(), AosError> {
        // One that this node had once ends what it started. Without even that there is nothing that could run.
        let runtime = self.runtimes.get(&target.info.runtime_id);
        let image = self.parts.images.installed(target.info.manifest_digest);
        let image = image.await;
        let item = image.as_ref().map(|image| &image.item_config);
        self.tear_down(target, item, runtime, (Reached::Runtime, grace))
            .await
    }

    /// Goes on after a failure, so that one thing that cannot be removed does not keep the others; answers the first failure.
    async fn tear_down(
        &self,
        target: &Target,
        item: Option<&ItemConfig>,
        runtime: Option<&Arc<dyn Runtime>>,
        (reached, grace): (Reached, Duration),
    ) -> Result<(), AosError> {
        let ident: &InstanceIdent = target.ident();
        let mut first = Ok(());
        let mut note = |result: Result<(), AosError>| {
            if let Err(fault) = result {
                tracing::warn!(instance = %ident, error = %ErrorChain(&fault), "cannot remove all of an instance");
                if first.is_ok() {
                    first = Err(fault);
                }
            }
        };
        if reached >= Reached::Runtime {
            let stopped = match runtime {
                Some(runtime) => runtime.stop(ident.clone(), grace).await,
                None => Ok(()),
            };
            if stopped.is_ok() {
                self.observed.ended(ident);
            }
            note(stopped.map_err(|error| runtime_fault(&error)));
        }
        if reached >= Reached::Network {
            let detached = self.parts.network.detach(ident).await;
            note(detached.map_err(|it| it.while_doing("cannot remove its network")));
        }
        if reached >= Reached::Permissions {
            let unregistered = self.parts.permissions.unregister(ident, item).await;
            note(unregistered.map_err(|it| it.while_doing("cannot take its permissions away")));
        }
        let released = self.parts.resources.release(ident).await;
        note(released.map_err(|it| it.while_doing("cannot give its resources back")));
        first
    }
}

fn policy(item: &ItemConfig) -> RunPolicy {
    let run = &item.run_parameters;
    RunPolicy {
        restart_interval: run.restart_interval,
        start_burst: run.start_burst,
        start_interval: run.start_interval,
    }
}

#[cfg(test)]
mod tests;
