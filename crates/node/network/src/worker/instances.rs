//! Instances: into their networks and out of them.

use std::collections::BTreeSet;

use muster_api::domain::NetworkId;
use muster_firewall::plugin::{self, Request};
use muster_firewall::{Installed, InstanceId};
use muster_runtime::NetworkAttachment;
use muster_telemetry::ErrorChain;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Worker, blocking};
use crate::error::{AttachError, DetachError, LookError};
use crate::fault;
use crate::instance::{FIREWALL, Plan, Wish, attachment};
use crate::records::{self, Record};

impl Worker {
    /// Puts an instance into its network. What is there already and right stays as it is.
    pub(crate) async fn attach(&self, wish: &Wish) -> Result<NetworkAttachment, AttachError> {
        let plan = self.plan(wish)?;
        let id = plan.record.instance;
        let earlier = self.book().instances.get(&id).cloned();
        if let Some(earlier) = earlier {
            if self.is_as_planned(&earlier, &plan).await {
                self.publish(wish, &plan).await?;
                return Ok(plan.answer);
            }
            let removed = self.detach(id).await;
            removed.map_err(|source| AttachError::Leftover {
                instance: wish.ident().to_string(),
                source: Box::new(source),
            })?;
        }
        self.reserve(wish, &plan)?;
        let made = self.build(wish, &plan).await;
        if let Err(error) = made {
            if let Err(left) = self.detach(id).await {
                tracing::warn!(instance = %wish.ident(), error = %ErrorChain(&left), "a failed network left something behind");
            }
            return Err(error);
        }
        Ok(plan.answer)
    }

    fn plan(&self, wish: &Wish) -> Result<Plan, AttachError> {
        let (instance, id) = (wish.ident().to_string(), wish.instance_id());
        let parameters = wish.parameters();
        let book = self.book();
        let known = book
            .networks
            .get(&parameters.network_id)
            .filter(|it| it.wanted);
        let Some(known) = known else {
            return Err(AttachError::UnknownNetwork {
                instance,
                network: parameters.network_id.clone(),
            });
        };
        let plan = wish.plan(
            &known.network,
            self.settings.same_subnet,
            self.namespaces.path(id),
        );
        plan.map_err(|source| AttachError::Plan {
            instance,
            network: parameters.network_id.clone(),
            source: Box::new(source),
        })
    }

    /// Takes the address for this instance, before anything is waited for: another job may want it, too.
    fn reserve(&self, wish: &Wish, plan: &Plan) -> Result<(), AttachError> {
        let mut book = self.book();
        let record = &plan.record;
        let is_here = |it: &&Record| it.network == record.network && it.address == record.address;
        let taken = book.instances.values().find(is_here);
        if let Some(other) = taken.filter(|it| it.instance != record.instance) {
            return Err(AttachError::AddressTaken {
                instance: wish.ident().to_string(),
                address: record.address,
                other: other.name.clone(),
            });
        }
        book.instances.insert(record.instance, record.clone());
        Ok(())
    }

    /// Whether an earlier run has made exactly this, and it still is.
    async fn is_as_planned(&self, earlier: &Record, plan: &Plan) -> bool {
        let wanted = Record {
            made: true,
            ..plan.record.clone()
        };
        if *earlier != wanted || !self.namespaces.exists(earlier.instance) {
            return false;
        }
        let checked = self.runner.check(&plan.attachment).await;
        if let Err(error) = &checked {
            tracing::info!(instance = earlier.name, error = %ErrorChain(error), "a network is made anew");
        }
        checked.is_ok()
    }

    async fn build(&self, wish: &Wish, plan: &Plan) -> Result<(), AttachError> {
        let instance = || wish.ident().to_string();
        let id = plan.record.instance;
        self.write(plan.record.clone(), wish).await?;
        muster_fault::hit(fault::INSTANCE_BEGUN);
        self.publish(wish, plan).await?;
        let namespaces = self.namespaces.clone();
        let made = blocking(move || namespaces.make(id)).await;
        made.map_err(|source| AttachError::Namespace {
            instance: instance(),
            source,
        })?;
        muster_fault::hit(fault::NAMESPACE_MADE);
        let added = self.runner.add(&plan.list, &plan.attachment).await;
        added.map_err(|source| AttachError::Plugins {
            instance: instance(),
            source: Box::new(source),
        })?;
        muster_fault::hit(fault::PLUGINS_DONE);
        let record = Record {
            made: true,
            ..plan.record.clone()
        };
        self.write(record, wish).await?;
        muster_fault::hit(fault::INSTANCE_MADE);
        self.publish(wish, plan).await
    }

    /// Brings the network up, with all its instances' names and routes.
    async fn publish(&self, wish: &Wish, plan: &Plan) -> Result<(), AttachError> {
        let settled = self.settle(&plan.record.network).await;
        settled.map_err(|source| AttachError::Network {
            instance: wish.ident().to_string(),
            source: Box::new(source),
        })
    }

    async fn write(&self, record: Record, wish: &Wish) -> Result<(), AttachError> {
        let written = record.clone();
        let write = self
            .store
            .write(move |db| records::put_instance(db, &written));
        write.await.map_err(|source| AttachError::Store {
            instance: wish.ident().to_string(),
            source,
        })?;
        self.book().instances.insert(record.instance, record);
        Ok(())
    }

    /// Takes an instance out of its network, whatever there is of it. Goes on after a failure; answers the first one.
    pub(crate) async fn detach(&self, id: Uuid) -> Result<(), DetachError> {
        let record = self.book().instances.get(&id).cloned();
        let name = record
            .as_ref()
            .map_or_else(|| id.to_string(), |it| it.name.clone());
        let store_error = |source| DetachError::Store {
            instance: name.clone(),
            source,
        };
        let mut network: Option<NetworkId> = None;
        if let Some(record) = record {
            network = Some(record.network.clone());
            let going = Record {
                made: false,
                ..record
            };
            let written = going.clone();
            let write = self
                .store
                .write(move |db| records::put_instance(db, &written));
            write.await.map_err(store_error)?;
            self.book().instances.insert(id, going);
            muster_fault::hit(fault::REMOVAL_BEGUN);
        }
        let attachment = attachment(id, self.namespaces.path(id));
        let attachment = attachment.map_err(|source| DetachError::Attachment {
            instance: name.clone(),
            source,
        })?;
        let deleted = self.runner.del(&attachment).await;
        muster_fault::hit(fault::PLUGINS_UNDONE);
        let namespaces = self.namespaces.clone();
        let removed = blocking(move || namespaces.remove(id)).await;
        muster_fault::hit(fault::NAMESPACE_REMOVED);
        deleted.map_err(|source| DetachError::Plugins {
            instance: name.clone(),
            source,
        })?;
        removed.map_err(|source| DetachError::Namespace {
            instance: name.clone(),
            source,
        })?;
        let forget = self.store.write(move |db| records::forget_instance(db, id));
        forget.await.map_err(store_error)?;
        self.book().instances.remove(&id);
        // The instance is out; a network that is not as it should be is brought into line by the next list or instance.
        if let Some(network) = network
            && let Err(error) = self.settle(&network).await
        {
            tracing::warn!(network = %network, error = %ErrorChain(&error), "a network is not as it should be");
        }
        Ok(())
    }

    /// Removes everything of instances that are none of these.
    pub(crate) async fn keep_only(&self, keep: &BTreeSet<Uuid>) {
        match self.found().await {
            Ok(found) => {
                for id in found.difference(keep) {
                    if let Err(error) = self.detach(*id).await {
                        tracing::warn!(instance = %id, error = %ErrorChain(&error), "a leftover stays");
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "leftovers of instances are not looked for");
            }
        }
        self.remove_rules_of_others(keep).await;
        if let Err(error) = self.remove_strays().await {
            tracing::warn!(error = %ErrorChain(&error), "leftovers of networks stay");
        }
    }

    /// Every instance of which there is anything: also what no record speaks of, should the database have been lost.
    async fn found(&self) -> Result<BTreeSet<Uuid>, LookError> {
        let mut found: BTreeSet<Uuid> = self.book().instances.keys().copied().collect();
        let namespaces = self.namespaces.clone();
        let files = blocking(move || namespaces.all()).await;
        found.extend(files.map_err(LookError::Namespaces)?);
        let attached = self
            .runner
            .attachments()
            .await
            .map_err(LookError::Plugins)?;
        let ids = attached
            .iter()
            .filter_map(|it| Uuid::parse_str(it.container()).ok());
        found.extend(ids);
        Ok(found)
    }

    async fn remove_rules_of_others(&self, keep: &BTreeSet<Uuid>) {
        let known: BTreeSet<InstanceId> = keep.iter().copied().map(InstanceId::from).collect();
        let firewall = self.firewall.clone();
        let removed = blocking(move || {
            let leftovers = firewall.installed()?.leftovers(&known);
            firewall.remove_instances(&leftovers)
        })
        .await;
        match removed {
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => tracing::info!(
                count = gone.len(),
                "rules of instances that are gone are removed"
            ),
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&LookError::Firewall(error)), "rules of instances that are gone stay");
            }
        }
    }

    /// Gives rules back to instances that have lost them while nobody looked.
    pub(super) async fn restore_rules(&self, installed: &Installed) {
        let ruled: BTreeSet<String> = installed
            .instances()
            .map(|(id, _)| id.to_string())
            .collect();
        let bare: Vec<Record> = {
            let book = self.book();
            let made = book.instances.values().filter(|it| it.made);
            let bare = made.filter(|it| !ruled.contains(&it.instance.to_string()));
            bare.cloned().collect()
        };
        for record in bare
            .into_iter()
            .filter(|it| self.namespaces.exists(it.instance))
        {
            let Some(request) = rules_of(&record) else {
                continue;
            };
            match blocking(move || plugin::run(&request)).await {
                Ok(_) => tracing::info!(instance = record.name, "an instance has its rules again"),
                Err(failure) => {
                    tracing::warn!(instance = record.name, error = %failure.to_json(), "an instance has no rules, and so no network");
                }
            }
        }
    }
}

/// What the plugin for rules was asked when the instance was put into its network.
fn rules_of(record: &Record) -> Option<Request> {
    let list: Value = serde_json::from_str(&record.conflist).ok()?;
    let plugins = list.get("plugins")?.as_array()?;
    let config = plugins
        .iter()
        .find(|it| it.get("type") == Some(&json!(FIREWALL)))?;
    let mut config = config.as_object()?.clone();
    config.insert("cniVersion".into(), list.get("cniVersion")?.clone());
    let address = format!("{}/32", record.address);
    config.insert("prevResult".into(), json!({"ips": [{"address": address}]}));
    Some(Request {
        command: Some("ADD".into()),
        container_id: Some(record.instance.to_string()),
        config: Value::Object(config).to_string().into_bytes(),
    })
}
