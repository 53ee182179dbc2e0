//! The entry point.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{Backend, FirewallError};
use crate::bridge;
use crate::iptables::Iptables;
use crate::model::{Change, Counters, Desired, Installed, plan};
use crate::names::{InstanceId, LinkName};
use crate::nft::Nft;
use crate::policy::NetworkPolicy;

/// Where changes of different processes are kept apart.
pub const LOCK_FILE: &str = "/run/muster-firewall.lock";

/// Longer than a few others need, each of which has a bound of its own.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
const LOCK_TURN: Duration = Duration::from_millis(2);

/// Muster's rules in this network namespace. Cheap to clone.
///
/// Every call runs a program and takes milliseconds: in async code, call it from a thread that may block.
#[derive(Debug, Clone)]
pub struct Firewall {
    backend: Arc<dyn Backend>,
    lock: Arc<PathBuf>,
}

impl Firewall {
    /// Takes nft where it works, else iptables.
    pub fn detect() -> Result<Self, FirewallError> {
        let nft = Nft::new();
        let Err(refused) = nft.probe() else {
            return Ok(Self::with(nft));
        };
        match Iptables::find() {
            Some(iptables) => Ok(Self::with(iptables)),
            None => Err(FirewallError::NoBackend(refused)),
        }
    }

    /// Uses this backend.
    pub fn with(backend: impl Backend + 'static) -> Self {
        Self {
            backend: Arc::new(backend),
            lock: Arc::new(PathBuf::from(LOCK_FILE)),
        }
    }

    /// Uses another lock file than [`LOCK_FILE`].
    #[must_use]
    pub fn lock_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.lock = Arc::new(path.into());
        self
    }

    /// `nft` or `iptables`.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Makes all changes in one step, or none. Without any, it lays the foundations, if they are missing: the node's traffic
    /// is counted from then on.
    ///
    /// When a network or an instance is put, the ports of its bridge are kept apart first (see the crate's documentation):
    /// the bridge must exist by then, and the instance's port be in it.
    pub fn apply(&self, changes: &[Change]) -> Result<(), FirewallError> {
        let _held = lock(&self.lock)?;
        let installed = self.backend.installed()?;
        self.commit(&installed, changes)
    }

    fn commit(&self, installed: &Installed, changes: &[Change]) -> Result<(), FirewallError> {
        check_networks(installed, changes)?;
        for bridge in bridges_to_separate(installed, changes) {
            bridge::separate_ports(bridge).map_err(|source| FirewallError::Bridge {
                bridge: bridge.clone(),
                source,
            })?;
        }
        if changes.is_empty() && installed.is_complete() {
            return Ok(());
        }
        self.backend.commit(installed, changes)
    }

    /// Makes the rules what is wanted, and nothing more, in one step. Answers what had to be done.
    pub fn reconcile(&self, desired: &Desired) -> Result<Vec<Change>, FirewallError> {
        let _held = lock(&self.lock)?;
        let installed = self.backend.installed()?;
        let changes = plan(&installed, desired);
        self.commit(&installed, &changes)?;
        Ok(changes)
    }

    /// Reads what has rules.
    pub fn installed(&self) -> Result<Installed, FirewallError> {
        self.backend.installed()
    }

    /// Reads all meters.
    pub fn counters(&self) -> Result<Counters, FirewallError> {
        self.backend.counters()
    }

    /// Removes all rules and meters of these instances, in one step; answers which had any.
    pub fn remove_instances(
        &self,
        gone: &BTreeSet<InstanceId>,
    ) -> Result<BTreeSet<InstanceId>, FirewallError> {
        let _held = lock(&self.lock)?;
        let installed = self.backend.installed()?;
        let present = |instance: &&InstanceId| {
            installed.instances.contains_key(*instance) || installed.meters.contains_key(*instance)
        };
        let present: BTreeSet<InstanceId> = gone.iter().filter(present).cloned().collect();
        let changes: Vec<Change> = present
            .iter()
            .flat_map(|instance| {
                [
                    Change::RemoveInstance(instance.clone()),
                    Change::RemoveMeter(instance.clone()),
                ]
            })
            .collect();
        self.commit(&installed, &changes)?;
        Ok(present)
    }

    /// Removes everything of Muster's from this network namespace.
    pub fn clear(&self) -> Result<(), FirewallError> {
        let _held = lock(&self.lock)?;
        self.backend.clear()
    }
}

/// Networks that share addresses could not be told apart by them.
fn check_networks(installed: &Installed, changes: &[Change]) -> Result<(), FirewallError> {
    let mut networks: BTreeMap<_, _> = installed.networks.iter().collect();
    for change in changes {
        match change {
            Change::PutNetwork(new) => {
                let shares = |other: &&&NetworkPolicy| {
                    other.bridge() != new.bridge() && other.subnet().overlaps(&new.subnet())
                };
                if let Some(other) = networks.values().find(shares) {
                    return Err(FirewallError::Overlap {
                        bridge: new.bridge().clone(),
                        subnet: new.subnet(),
                        other: other.bridge().clone(),
                        other_subnet: other.subnet(),
                    });
                }
                networks.insert(new.bridge(), new);
            }
            Change::RemoveNetwork(bridge) => drop(networks.remove(bridge)),
            _ => {}
        }
    }
    Ok(())
}

/// An instance's port may have joined the bridge since the network was put.
fn bridges_to_separate<'a>(
    installed: &'a Installed,
    changes: &'a [Change],
) -> BTreeSet<&'a LinkName> {
    let put = changes.iter().filter_map(|change| match change {
        Change::PutNetwork(network) => Some(network),
        _ => None,
    });
    let networks: Vec<_> = installed.networks.values().chain(put.clone()).collect();
    let of_instances = changes
        .iter()
        .filter_map(|change| match change {
            Change::PutInstance(policy) => Some(policy.address),
            _ => None,
        })
        .flat_map(|address| {
            networks
                .iter()
                .filter(move |network| network.subnet().contains(address))
        });
    put.map(|network| network.bridge())
        .chain(of_instances.map(|network| network.bridge()))
        .collect()
}

fn lock(path: &Path) -> Result<File, FirewallError> {
    let take = || {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            // Whoever can open it can hold it.
            .mode(0o600)
            .open(path)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(LOCK_TURN);
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    };
    take().map_err(|source| FirewallError::Lock {
        path: path.to_owned(),
        source,
    })
}
