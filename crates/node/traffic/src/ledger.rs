//! All accounts, and who has passed a limit. Pure: readings and the time go in, meters come out.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use muster_firewall::{Amounts, Counters, InstanceId, Meter};

use crate::account::{Account, Moment};

/// After this time without an instance its account is forgotten: no month that could still be limited remembers it.
const FORGOTTEN_AFTER_SECONDS: i64 = 62 * 24 * 60 * 60;

/// The most that an instance may exchange with the outside, in bytes. What is absent is not limited; 0 is nothing at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// From the outside, in a day.
    pub daily_download: Option<u64>,
    /// To the outside, in a day.
    pub daily_upload: Option<u64>,
    /// From the outside, in a month.
    pub monthly_download: Option<u64>,
    /// To the outside, in a month.
    pub monthly_upload: Option<u64>,
}

/// What an instance or the node has exchanged with the outside, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the outside, since its account was opened. Never decreases.
    pub download: u64,
    /// To the outside, since its account was opened. Never decreases.
    pub upload: u64,
    /// Today.
    pub today: Amounts,
    /// This month.
    pub this_month: Amounts,
    /// A limit is passed: nothing from the outside reaches it.
    pub download_blocked: bool,
    /// A limit is passed: nothing of it reaches the outside.
    pub upload_blocked: bool,
}

/// Whose account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    System,
    Instance(InstanceId),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.pad("system"),
            Self::Instance(instance) => instance.fmt(f),
        }
    }
}

impl FromStr for Holder {
    type Err = muster_firewall::InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "system" => Ok(Self::System),
            instance => InstanceId::new(instance).map(Self::Instance),
        }
    }
}

/// Both directions, and when they were last looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) download: Account,
    pub(crate) upload: Account,
    pub(crate) seen: i64,
}

impl Accounts {
    fn observe(&mut self, counters: Amounts, now: Moment) {
        self.download.observe(counters.download, now);
        self.upload.observe(counters.upload, now);
        self.seen = now.seconds();
    }

    fn usage(&self) -> Usage {
        let amounts = |pick: fn(&Account) -> u64| Amounts {
            download: pick(&self.download),
            upload: pick(&self.upload),
        };
        Usage {
            download: self.download.total,
            upload: self.upload.total,
            today: amounts(|account| account.today.bytes),
            this_month: amounts(|account| account.this_month.bytes),
            ..Usage::default()
        }
    }
}

/// An instance that runs.
#[derive(Debug, Clone, Copy)]
struct Metered {
    address: Ipv4Addr,
    limits: Limits,
    /// What the kernel was last told: download and upload.
    blocked: (bool, bool),
}

/// The accounts of the node and its instances.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<Holder, Accounts>,
    metered: BTreeMap<InstanceId, Metered>,
}

impl Ledger {
    /// What was written down.
    pub(crate) fn new(accounts: BTreeMap<Holder, Accounts>) -> Self {
        Self {
            accounts,
            metered: BTreeMap::new(),
        }
    }

    /// Opens or reopens an account; answers the meter that it needs. `is_counting` tells whether the kernel has that meter,
    /// so that its counter goes on where it was last read.
    pub(crate) fn add(
        &mut self,
        instance: InstanceId,
        address: Ipv4Addr,
        limits: Limits,
        is_counting: bool,
        now: Moment,
    ) -> Meter {
        let accounts = self
            .accounts
            .entry(Holder::Instance(instance.clone()))
            .or_default();
        if !is_counting {
            accounts.download.begin_anew();
            accounts.upload.begin_anew();
        }
        accounts.download.roll(now);
        accounts.upload.roll(now);
        accounts.seen = now.seconds();
        let metered = Metered {
            address,
            limits,
            blocked: blocked(accounts, &limits),
        };
        self.metered.insert(instance.clone(), metered);
        meter(instance, &metered)
    }

    /// The instance runs no more; its account stays.
    pub(crate) fn remove(&mut self, instance: &InstanceId) {
        self.metered.remove(instance);
    }

    /// Takes readings in. Answers the meters that have to change: those of instances that passed a limit or may go on, and
    /// those that the kernel has lost.
    pub(crate) fn observe(&mut self, counters: &Counters, now: Moment) -> Vec<Meter> {
        self.accounts
            .entry(Holder::System)
            .or_default()
            .observe(counters.system(), now);
        let mut changed = Vec::new();
        for (instance, metered) in &mut self.metered {
            let accounts = self
                .accounts
                .entry(Holder::Instance(instance.clone()))
                .or_default();
            let reading = counters.instance(instance);
            accounts.observe(reading.unwrap_or_default(), now);
            let blocked = blocked(accounts, &metered.limits);
            if metered.blocked != blocked || reading.is_none() {
                metered.blocked = blocked;
                changed.push(meter(instance.clone(), metered));
            }
        }
        changed
    }

    /// The kernel did not take a meter: it is offered again with the next reading.
    pub(crate) fn not_installed(&mut self, meter: &Meter) {
        if let Some(metered) = self.metered.get_mut(&meter.instance) {
            metered.blocked = (!meter.download_blocked, !meter.upload_blocked);
        }
    }

    /// Forgets accounts that nobody has used for long; answers whose.
    pub(crate) fn forget_old(&mut self, now: Moment) -> Vec<Holder> {
        let is_old = |(holder, accounts): &(&Holder, &Accounts)| match holder {
            Holder::System => false,
            Holder::Instance(instance) => {
                !self.metered.contains_key(instance)
                    && now.seconds().saturating_sub(accounts.seen) > FORGOTTEN_AFTER_SECONDS
            }
        };
        let old: Vec<Holder> = self
            .accounts
            .iter()
            .filter(is_old)
            .map(|(holder, _)| holder.clone())
            .collect();
        for holder in &old {
            self.accounts.remove(holder);
        }
        old
    }

    pub(crate) fn accounts(&self) -> &BTreeMap<Holder, Accounts> {
        &self.accounts
    }

    pub(crate) fn system(&self) -> Usage {
        self.accounts
            .get(&Holder::System)
            .map(Accounts::usage)
            .unwrap_or_default()
    }

    /// Of every instance that runs.
    pub(crate) fn instances(&self) -> BTreeMap<InstanceId, Usage> {
        let usage = |(instance, metered): (&InstanceId, &Metered)| {
            let accounts = self.accounts.get(&Holder::Instance(instance.clone()))?;
            let usage = Usage {
                download_blocked: metered.blocked.0,
                upload_blocked: metered.blocked.1,
                ..accounts.usage()
            };
            Some((instance.clone(), usage))
        };
        self.metered.iter().filter_map(usage).collect()
    }
}

fn blocked(accounts: &Accounts, limits: &Limits) -> (bool, bool) {
    (
        accounts
            .download
            .passes(limits.daily_download, limits.monthly_download),
        accounts
            .upload
            .passes(limits.daily_upload, limits.monthly_upload),
    )
}

fn meter(instance: InstanceId, metered: &Metered) -> Meter {
    Meter {
        instance,
        address: metered.address,
        download_blocked: metered.blocked.0,
        upload_blocked: metered.blocked.1,
    }
}

#[cfg(test)]
mod tests;
