//! What must not change from plan to plan: users, groups, and the nodes that instances are bound to.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{
    Gid, InstanceIdent, InvalidValue, ItemId, ItemType, NodeId, SubjectId, Uid,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Numbers for users or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    first: u32,
    last: u32,
}

/// The range is empty, or holds a number that is no account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{first} to {last} is no range of account numbers")]
pub struct InvalidIdRange {
    /// Its first number.
    pub first: u32,
    /// Its last number.
    pub last: u32,
}

impl IdRange {
    /// 5000 to 10000, as the field's controllers have it.
    pub const DEFAULT: Self = Self {
        first: 5000,
        last: 10_000,
    };

    /// Both ends belong to it. The last must not lie before the first, and `u32::MAX` is no account.
    pub fn new(first: u32, last: u32) -> Result<Self, InvalidIdRange> {
        if last < first || last == u32::MAX {
            return Err(InvalidIdRange { first, last });
        }
        Ok(Self { first, last })
    }

    /// The lowest number.
    pub fn first(self) -> u32 {
        self.first
    }

    /// The highest number.
    pub fn last(self) -> u32 {
        self.last
    }

    /// How many numbers it has.
    pub fn size(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// Hands numbers out in turn, so that one that was given back is not used again at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pool {
    taken: BTreeSet<u32>,
    next: u32,
}

impl Pool {
    fn find(&self, range: IdRange) -> Option<u32> {
        let start = self.next.clamp(range.first, range.last);
        let free = |from: u32, to: u32| {
            let mut candidate = from;
            for taken in self.taken.range(from..=to) {
                if *taken != candidate {
                    break;
                }
                candidate += 1;
            }
            (candidate <= to).then_some(candidate)
        };
        free(start, range.last).or_else(|| free(range.first, start))
    }

    fn take(&mut self, range: IdRange) -> Option<u32> {
        let number = self.find(range)?;
        self.taken.insert(number);
        // Beyond the range it is taken back to its start by the next search.
        self.next = if number == range.last { 0 } else { number + 1 };
        Some(number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    uid: Uid,
    /// Where a bound instance was first placed.
    home: Option<NodeId>,
}

/// Users, groups and bindings that were handed out.
///
/// Made by a plan from the one before, and kept by the caller as text or whatever serde writes. It changes only when a plan
/// is carried out, and must be durable before that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Ledger {
    accounts: BTreeMap<InstanceIdent, Account>,
    groups: BTreeMap<ItemId, Gid>,
    uids: Pool,
    gids: Pool,
}

impl Ledger {
    /// The user of an instance.
    pub fn uid(&self, instance: &InstanceIdent) -> Option<Uid> {
        self.accounts.get(instance).map(|account| account.uid)
    }

    /// The group of an item.
    pub fn gid(&self, item: &ItemId) -> Option<Gid> {
        self.groups.get(item).copied()
    }

    /// The node that an instance is bound to.
    pub fn home(&self, instance: &InstanceIdent) -> Option<&NodeId> {
        self.accounts.get(instance)?.home.as_ref()
    }

    /// Forgets the instances that `keep` does not want, and groups of items without instances. Their numbers come up again
    /// after all others.
    pub fn retain(&mut self, mut keep: impl FnMut(&InstanceIdent) -> bool) {
        self.accounts.retain(|instance, account| {
            let stays = keep(instance);
            if !stays {
                self.uids.taken.remove(&account.uid.as_raw());
            }
            stays
        });
        let items: BTreeSet<&ItemId> = self.accounts.keys().map(|ident| &ident.item_id).collect();
        self.groups.retain(|item, gid| {
            let stays = items.contains(item);
            if !stays {
                self.gids.taken.remove(&gid.as_raw());
            }
            stays
        });
    }

    pub(crate) fn can_admit(&self, instance: &InstanceIdent, uids: IdRange) -> bool {
        self.accounts.contains_key(instance) || self.uids.find(uids).is_some()
    }

    pub(crate) fn can_admit_item(&self, item: &ItemId, gids: IdRange) -> bool {
        self.groups.contains_key(item) || self.gids.find(gids).is_some()
    }

    /// The instance's user and its item's group, new ones if it has none. `None` if there are no more.
    pub(crate) fn admit(
        &mut self,
        instance: &InstanceIdent,
        uids: IdRange,
        gids: IdRange,
    ) -> Option<(Uid, Gid)> {
        let gid = match self.groups.get(&instance.item_id) {
            Some(gid) => *gid,
            None => {
                let gid = Gid::new(self.gids.take(gids)?).ok()?;
                self.groups.insert(instance.item_id.clone(), gid);
                gid
            }
        };
        let uid = match self.accounts.get(instance) {
            Some(account) => account.uid,
            None => {
                let uid = Uid::new(self.uids.take(uids)?).ok()?;
                let account = Account { uid, home: None };
                self.accounts.insert(instance.clone(), account);
                uid
            }
        };
        Some((uid, gid))
    }

    pub(crate) fn set_home(&mut self, instance: &InstanceIdent, home: Option<&NodeId>) {
        if let Some(account) = self.accounts.get_mut(instance)
            && account.home.as_ref() != home
        {
            account.home = home.cloned();
        }
    }
}

/// The ledger as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    instances: Vec<AccountRecord>,
    groups: BTreeMap<String, u32>,
    next_uid: u32,
    next_gid: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountRecord {
    item: String,
    subject: String,
    instance: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    component: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    preinstalled: bool,
    uid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<String>,
}

/// A written ledger cannot be taken for one.
#[derive(Debug, Error)]
pub enum RestoreLedgerError {
    /// A name or number breaks the rules for its kind.
    #[error("the ledger's entry {entry} is invalid")]
    Entry {
        /// Which one, as written.
        entry: String,
        /// What is wrong with it.
        #[source]
        source: InvalidValue,
    },
    /// An instance, or a number, stands in it twice.
    #[error("the ledger's entry {entry} repeats another one")]
    Duplicate {
        /// Which one, as written.
        entry: String,
    },
}

impl From<Ledger> for Record {
    fn from(ledger: Ledger) -> Self {
        let account = |(ident, account): (InstanceIdent, Account)| AccountRecord {
            item: ident.item_id.into(),
            subject: ident.subject_id.into(),
            instance: ident.instance,
            component: ident.item_type == ItemType::Component,
            preinstalled: ident.preinstalled,
            uid: account.uid.as_raw(),
            home: account.home.map(String::from),
        };
        let group = |(item, gid): (ItemId, Gid)| (String::from(item), gid.as_raw());
        Self {
            next_uid: ledger.uids.next,
            next_gid: ledger.gids.next,
            instances: ledger.accounts.into_iter().map(account).collect(),
            groups: ledger.groups.into_iter().map(group).collect(),
        }
    }
}

impl TryFrom<Record> for Ledger {
    type Error = RestoreLedgerError;

    fn try_from(record: Record) -> Result<Self, RestoreLedgerError> {
        let mut ledger = Self::default();
        ledger.uids.next = record.next_uid;
        ledger.gids.next = record.next_gid;
        for written in record.instances {
            let entry = format!("{}:{}:{}", written.item, written.subject, written.instance);
            let (ident, account) = written.read().map_err(|source| RestoreLedgerError::Entry {
                entry: entry.clone(),
                source,
            })?;
            let is_new = ledger.uids.taken.insert(account.uid.as_raw());
            if !is_new || ledger.accounts.insert(ident, account).is_some() {
                return Err(RestoreLedgerError::Duplicate { entry });
            }
        }
        for (item, gid) in record.groups {
            let read = ItemId::new(&item).and_then(|id| Ok((id, Gid::new(gid)?)));
            let (id, number) = read.map_err(|source| RestoreLedgerError::Entry {
                entry: item.clone(),
                source,
            })?;
            if !ledger.gids.taken.insert(gid) {
                return Err(RestoreLedgerError::Duplicate { entry: item });
            }
            ledger.groups.insert(id, number);
        }
        Ok(ledger)
    }
}

impl AccountRecord {
    fn read(self) -> Result<(InstanceIdent, Account), InvalidValue> {
        let ident = InstanceIdent {
            item_id: ItemId::new(&self.item)?,
            subject_id: SubjectId::new(&self.subject)?,
            instance: self.instance,
            item_type: match self.component {
                true => ItemType::Component,
                false => ItemType::Service,
            },
            preinstalled: self.preinstalled,
        };
        let home = self.home.as_deref().map(NodeId::new).transpose()?;
        let uid = Uid::new(self.uid)?;
        Ok((ident, Account { uid, home }))
    }
}

#[cfg(test)]
mod tests;
