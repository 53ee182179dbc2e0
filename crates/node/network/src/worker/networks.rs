//! Networks as a whole.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use muster_api::domain::NetworkId;
use muster_api::servicemanager::v5 as wire;
use muster_firewall::{Change, Ipv4Subnet, LinkName as RuleName, NetworkPolicy, PolicyError};
use muster_telemetry::ErrorChain;

use super::{Worker, blocking};
use crate::error::{ListFailure, NetworkError, NetworkFault, UpdateNetworksError};
use crate::fault;
use crate::links::{self, LinkStep, Wanted};
use crate::netlink;
use crate::node_network::{NodeNetwork, Uplink};
use crate::plan::{self, Known};
use crate::records;

impl Worker {
    /// Brings all networks into line with what is written down, in whatever state they are, and gives lost rules back.
    pub(crate) async fn look_after(&self) {
        let known: Vec<NodeNetwork> = {
            let book = self.book();
            let networks = book.networks.values();
            networks.map(|it| it.network.clone()).collect()
        };
        if known.is_empty() {
            return;
        }
        let firewall = self.firewall.clone();
        let installed = match blocking(move || firewall.installed()).await {
            Ok(installed) => installed,
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "networks are not looked after");
                return;
            }
        };
        let ruled: Vec<&str> = installed
            .networks()
            .map(|it| it.bridge().as_str())
            .collect();
        let is_ruled = |network: &NodeNetwork| ruled.contains(&network.bridge().as_str());
        self.up.lock().await.retain(|_, network| is_ruled(network));
        for network in known {
            if let Err(error) = self.settle(&network.id).await {
                tracing::warn!(network = %network.id, error = %ErrorChain(&error), "a network is not as it should be");
            }
        }
        self.restore_rules(&installed).await;
    }

    /// From now on exactly these.
    pub(crate) async fn update(
        &self,
        list: &[wire::UpdateNetworkParameters],
    ) -> Result<(), UpdateNetworksError> {
        let (mut wanted, mut unreadable, mut failures) = (Vec::new(), BTreeSet::new(), Vec::new());
        for entry in list {
            match NodeNetwork::try_from(entry) {
                Ok(network) => wanted.push(network),
                Err(error) => {
                    unreadable.extend(NetworkId::new(&entry.network_id));
                    failures.push(ListFailure::Invalid(error));
                }
            }
        }
        let used = self.used();
        let plan = plan::update(&self.book().networks, wanted, unreadable, &used);
        failures.extend(plan.refused.into_iter().map(ListFailure::Conflict));
        let have = plan.have.iter().map(|network| Known {
            network: network.clone(),
            wanted: true,
        });
        let unwanted: Vec<Known> = {
            let book = self.book();
            let ids = plan.retire.iter().chain(&plan.remove);
            let known = ids.filter_map(|id| book.networks.get(id).cloned());
            known
                .map(|it| Known {
                    wanted: false,
                    ..it
                })
                .collect()
        };
        let changed: Vec<Known> = have.chain(unwanted).collect();
        let written = changed.clone();
        let write = self.store.write(move |db| {
            written
                .iter()
                .try_for_each(|known| records::put_network(db, known))
        });
        write.await.map_err(UpdateNetworksError::Store)?;
        muster_fault::hit(fault::LIST_WRITTEN);
        for known in changed {
            self.book().networks.insert(known.network.id.clone(), known);
        }
        let made = plan.have.iter().map(|network| &network.id);
        // What goes makes room for what comes.
        for id in plan.remove.iter().chain(made) {
            if let Err(error) = self.settle(id).await {
                failures.push(ListFailure::Failed(error));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(UpdateNetworksError::Some { failures })
    }

    /// Makes a network what it should be: up, or gone when nobody wants it any more.
    pub(crate) async fn settle(&self, id: &NetworkId) -> Result<(), NetworkError> {
        let known = self.book().networks.get(id).cloned();
        let Some(Known { network, wanted }) = known else {
            return Ok(());
        };
        let (operation, done) = if wanted || self.used().contains(id) {
            ("make", self.bring_up(&network).await)
        } else {
            ("remove", self.take_down(&network).await)
        };
        done.map_err(|fault| NetworkError {
            operation,
            network: id.clone(),
            fault,
        })
    }

    async fn bring_up(&self, network: &NodeNetwork) -> Result<(), NetworkFault> {
        let mut up = self.up.lock().await;
        let uplink = network
            .uplink(&self.settings)
            .map_err(NetworkFault::Uplink)?;
        let policy = policy(network)?;
        let records = self.instances_of(&network.id);
        let instances: BTreeSet<IpAddr> = records.iter().map(|it| it.address).collect();
        let its = network.clone();
        blocking(move || make_links(&its, &uplink, &instances)).await?;
        muster_fault::hit(fault::LINKS_MADE);
        if up.get(&network.id) != Some(network) {
            let firewall = self.firewall.clone();
            let applied = blocking(move || firewall.apply(&[Change::PutNetwork(policy)])).await;
            applied.map_err(NetworkFault::Firewall)?;
            muster_fault::hit(fault::RULES_MADE);
        }
        let made: Vec<_> = records.into_iter().filter(|it| it.made).collect();
        let published = self.directory.publish(network, &made).await;
        published.map_err(NetworkFault::Names)?;
        up.insert(network.id.clone(), network.clone());
        Ok(())
    }

    async fn take_down(&self, network: &NodeNetwork) -> Result<(), NetworkFault> {
        let mut up = self.up.lock().await;
        up.remove(&network.id);
        let withdrawn = self.directory.withdraw(network).await;
        withdrawn.map_err(NetworkFault::Names)?;
        let (firewall, bridge) = (self.firewall.clone(), rule_name(network)?);
        let applied = blocking(move || firewall.apply(&[Change::RemoveNetwork(bridge)])).await;
        applied.map_err(NetworkFault::Firewall)?;
        let its = network.clone();
        blocking(move || {
            let there = netlink::read().map_err(NetworkFault::Link)?;
            carry_out(&links::steps_to_remove(&its, &there))
        })
        .await?;
        muster_fault::hit(fault::LINKS_REMOVED);
        let id = network.id.clone();
        let forgotten = self
            .store
            .write(move |db| records::forget_network(db, &id))
            .await;
        forgotten.map_err(NetworkFault::Store)?;
        self.book().networks.remove(&network.id);
        Ok(())
    }

    /// Removes links and rules with names of ours that no network has.
    pub(crate) async fn remove_strays(&self) -> Result<(), NetworkFault> {
        let _held = self.up.lock().await;
        let known: Vec<NodeNetwork> = {
            let book = self.book();
            book.networks
                .values()
                .map(|it| it.network.clone())
                .collect()
        };
        let firewall = self.firewall.clone();
        blocking(move || {
            let there = netlink::read().map_err(NetworkFault::Link)?;
            let strays = links::strays(&known, &there);
            let steps: Vec<_> = strays.into_iter().map(LinkStep::Remove).collect();
            carry_out(&steps)?;
            let installed = firewall.installed().map_err(NetworkFault::Firewall)?;
            let bridges: Vec<_> = known.iter().map(NodeNetwork::bridge).collect();
            let stray = |it: &&NetworkPolicy| {
                bridges
                    .iter()
                    .all(|own| own.as_str() != it.bridge().as_str())
            };
            let changes: Vec<_> = (installed.networks().filter(stray))
                .map(|it| Change::RemoveNetwork(it.bridge().clone()))
                .collect();
            if changes.is_empty() {
                return Ok(());
            }
            firewall.apply(&changes).map_err(NetworkFault::Firewall)
        })
        .await
    }
}

fn rule_name(network: &NodeNetwork) -> Result<RuleName, NetworkFault> {
    RuleName::new(network.bridge().as_str()).map_err(NetworkFault::Name)
}

fn policy(network: &NodeNetwork) -> Result<NetworkPolicy, NetworkFault> {
    let subnet = Ipv4Subnet::try_from(network.subnet).map_err(NetworkFault::Policy)?;
    let IpAddr::V4(node) = network.address else {
        let wrong = PolicyError::SubnetNotIpv4 {
            subnet: network.subnet,
        };
        return Err(NetworkFault::Policy(wrong));
    };
    NetworkPolicy::new(rule_name(network)?, subnet, node).map_err(NetworkFault::Policy)
}

/// Blocks for some milliseconds at most.
fn make_links(
    network: &NodeNetwork,
    uplink: &Uplink,
    instances: &BTreeSet<IpAddr>,
) -> Result<(), NetworkFault> {
    let there = netlink::read().map_err(NetworkFault::Link)?;
    let wanted = Wanted {
        network,
        uplink,
        instances,
    };
    let steps = links::steps_for(&wanted, &there).map_err(NetworkFault::Conflict)?;
    carry_out(&steps)?;
    for (setting, value) in links::settings_for(network, uplink) {
        let path = Path::new("/proc/sys/net").join(setting);
        set(&path, value).map_err(|source| NetworkFault::Setting {
            path,
            value,
            source,
        })?;
    }
    Ok(())
}

fn carry_out(steps: &[LinkStep]) -> Result<(), NetworkFault> {
    for step in steps {
        netlink::carry_out(step).map_err(NetworkFault::Link)?;
        muster_fault::hit(fault::LINK_STEP);
    }
    Ok(())
}

/// Writes only what differs: settings may be read-only and right. A kernel without IPv6 has nothing to switch off.
fn set(path: &Path, value: &str) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(found) if found.trim() == value => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_ipv6(path) => Ok(()),
        _ => fs::write(path, value),
    }
}

fn is_ipv6(path: &Path) -> bool {
    path.starts_with("/proc/sys/net/ipv6")
}
