//! How a machine is: what libvirt says of it, and what its files say.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use muster_lifecycle::{Reason, State, VerbSet};
use muster_provider::{Described, ManagerId, Mark, ResourceId};
use uuid::Uuid;

use super::{Shared, access};
use crate::error::Trouble;
use crate::folder::{Folders, MachineFolder};
use crate::helper::CallError;
use crate::metadata::Metadata;
use crate::plan::MachinePlan;
use crate::power::PowerChange;
use crate::protocol::{DomainFacts, Reply, Request};
use crate::status::{DomainStatus, Seen, state};

/// What is kept about a machine.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) plan: MachinePlan,
    pub(super) made: bool,
    pub(super) power: Option<PowerChange>,
    ending: bool,
    console: String,
}

impl Kept {
    fn read(folders: &Folders, folder: &MachineFolder) -> Result<Option<Self>, Trouble> {
        let Some(plan) = folder.plan()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            plan,
            made: folder.is_made()?,
            power: folder.power()?,
            ending: folders.is_buried(folder.uuid())?,
            console: folder.console().display().to_string(),
        }))
    }
}

/// All that is known about a machine: at least one of the two.
#[derive(Debug)]
pub(super) struct View {
    pub(super) uuid: Uuid,
    pub(super) domain: Option<DomainFacts>,
    pub(super) kept: Option<Kept>,
}

impl View {
    fn metadata(&self) -> Option<Metadata> {
        let domain = self.domain.as_ref()?;
        Metadata::read(domain.metadata.as_deref()?)
    }

    /// Whose it is, if libvirt and its files agree.
    fn mark(&self) -> Option<Mark> {
        let written = self.metadata().map(|metadata| metadata.mark);
        match (&self.domain, &self.kept) {
            (Some(_), None) => written,
            (Some(_), Some(kept)) => written.filter(|mark| *mark == kept.plan.mark),
            (None, Some(kept)) => Some(kept.plan.mark.clone()),
            (None, None) => None,
        }
    }

    /// Whether it bears a mark.
    pub(super) fn check(&self, mark: &Mark) -> Result<(), Trouble> {
        match self.mark().as_ref() == Some(mark) {
            true => Ok(()),
            false => Err(Trouble::Foreign),
        }
    }

    pub(super) fn status(&self) -> Option<DomainStatus> {
        self.domain.as_ref().map(|domain| domain.status)
    }

    pub(super) fn state(&self) -> State {
        let kept = self.kept.as_ref();
        state(Seen {
            domain: self.status(),
            // One without files was made by somebody who has lost them since.
            made: kept.is_none_or(|kept| kept.made),
            ending: kept.is_some_and(|kept| kept.ending),
            wanted: kept.and_then(|kept| kept.power).map(|change| change.wanted),
        })
    }

    fn reason(&self) -> Option<Reason> {
        let made = self.kept.as_ref().is_some_and(|kept| kept.made);
        match self.status() {
            None if made => Some(Reason::Outside),
            Some(DomainStatus::Crashed) => Some(Reason::Outside),
            _ => None,
        }
    }

    fn address(&self, ssh_port: Option<u16>) -> Option<IpAddr> {
        let domain = self.domain.as_ref()?;
        match (domain.status.is_active(), ssh_port) {
            (false, _) => None,
            (true, Some(_)) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            (true, None) => domain.addresses.first().copied(),
        }
    }

    pub(super) fn described(&self) -> Result<Described, Trouble> {
        let mark = self.mark().ok_or(Trouble::Foreign)?;
        let metadata = self.metadata();
        let plan = self.kept.as_ref().map(|kept| &kept.plan);
        let ssh_port = match (&metadata, plan) {
            (Some(metadata), _) => metadata.ssh_port,
            (None, plan) => plan.and_then(MachinePlan::ssh_port),
        };
        let ssh_user = match (metadata, plan) {
            (Some(metadata), _) => metadata.ssh_user,
            (None, plan) => plan.and_then(|plan| plan.ssh_user.clone()),
        };
        let keyed = ssh_user.is_some();
        let mut details = BTreeMap::new();
        let mut tell = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                details.insert(name.to_owned(), value);
            }
        };
        tell("domain", self.domain.as_ref().map(|it| it.name.clone()));
        tell("sshPort", ssh_port.map(|port| port.to_string()));
        tell("user", ssh_user);
        tell(
            "accelerator",
            plan.map(|plan| plan.accelerator.as_str().to_owned()),
        );
        tell(
            "console",
            self.kept.as_ref().map(|kept| kept.console.clone()),
        );
        let sum = plan.and_then(|plan| plan.sum.as_ref());
        let of = |local: bool| sum.filter(|it| it.local == local);
        tell("digest", of(false).map(|it| it.digest.clone()));
        tell("localDigest", of(true).map(|it| it.digest.clone()));
        if self.status() == Some(DomainStatus::Paused) {
            tell("paused", Some("by whoever runs the hypervisor".to_owned()));
        }
        Ok(Described {
            resource: ResourceId::new(&self.uuid.to_string()).map_err(Trouble::Name)?,
            mark,
            state: self.state(),
            reason: self.reason(),
            spot: false,
            // A domain can whatever its hypervisor can.
            verbs: VerbSet::ALL,
            address: self.address(ssh_port),
            access: if keyed { access() } else { Default::default() },
            details,
        })
    }
}

impl Shared {
    pub(super) async fn domain(
        &self,
        uuid: Uuid,
        addresses: bool,
    ) -> Result<Option<DomainFacts>, Trouble> {
        match self.ask(Request::Describe { uuid, addresses }).await? {
            Reply::Domain(facts) => Ok(facts.map(|facts| *facts)),
            _ => Err(Trouble::Libvirt(CallError::Answer)),
        }
    }

    pub(super) async fn kept(&self, uuid: Uuid) -> Result<Option<Kept>, Trouble> {
        self.on_disk(uuid, Kept::read).await
    }

    /// A machine as it is, if there is anything of it.
    pub(super) async fn look(&self, uuid: Uuid, addresses: bool) -> Result<Option<View>, Trouble> {
        let kept = self.kept(uuid).await?;
        let forwarded = kept.as_ref().is_some_and(|it| it.plan.ssh_port().is_some());
        let addresses = addresses && !forwarded;
        let domain = self.domain(uuid, addresses).await?;
        let nothing = domain.is_none() && kept.is_none();
        Ok((!nothing).then_some(View { uuid, domain, kept }))
    }

    /// Everything of a manager: what libvirt has, and what has files only.
    pub(super) async fn list(
        self: &Arc<Self>,
        manager: &ManagerId,
    ) -> Result<Vec<Described>, Trouble> {
        let Reply::Domains(domains) = self.ask(Request::List).await? else {
            return Err(Trouble::Libvirt(CallError::Answer));
        };
        let mut found: BTreeMap<Uuid, View> = domains
            .into_iter()
            .map(|facts| {
                let uuid = facts.uuid;
                let domain = Some(facts);
                (
                    uuid,
                    View {
                        uuid,
                        domain,
                        kept: None,
                    },
                )
            })
            .collect();
        for (uuid, kept) in self.all_kept().await? {
            let none = View {
                uuid,
                domain: None,
                kept: None,
            };
            found.entry(uuid).or_insert(none).kept = Some(kept);
        }
        let mut listed = Vec::new();
        for view in found.values() {
            if view.mark().is_some_and(|mark| mark.manager == *manager) {
                self.carry_on(view);
                listed.push(view.described()?);
            }
        }
        Ok(listed)
    }

    /// Whatever has files. A record that cannot be read is said and left: it is for a person to look at.
    async fn all_kept(&self) -> Result<Vec<(Uuid, Kept)>, Trouble> {
        self.on_disk(Uuid::nil(), |folders, _| {
            let mut all = Vec::new();
            for folder in folders.machines()? {
                match Kept::read(folders, &folder) {
                    Ok(Some(kept)) => all.push((folder.uuid(), kept)),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(path = %folder.path().display(), %error, "a machine's files cannot be read");
                    }
                }
            }
            Ok(all)
        })
        .await
    }
}
