//! Whose turn it is to start.

use std::collections::BTreeMap;

use muster_api::domain::{InstanceIdent, ItemId};

use super::Now;
use super::instance::{Fetch, Have, Instance, Pulse};
use crate::limits::Limits;
use crate::target::Sole;

/// Somebody who is on the way up.
struct Climber<'a> {
    ident: &'a InstanceIdent,
    after: &'a [ItemId],
    /// Could start now, as far as it is itself concerned.
    ready: bool,
}

/// How soon everybody shall be up: by its own priority, or by that of the most urgent one who waits for it, also through others.
pub(super) fn urgency(
    instances: &BTreeMap<InstanceIdent, Instance>,
) -> BTreeMap<InstanceIdent, u64> {
    let mut of_item: BTreeMap<&ItemId, Vec<&InstanceIdent>> = BTreeMap::new();
    for ident in instances.keys() {
        of_item.entry(&ident.item_id).or_default().push(ident);
    }
    let own = instances.iter();
    let mut urgency: BTreeMap<&InstanceIdent, u64> =
        own.map(|(ident, it)| (ident, it.priority())).collect();
    // Whoever has become more urgent hands that on. Urgency only grows, up to the highest priority there is: it ends.
    let mut to_tell: Vec<&InstanceIdent> = instances.keys().collect();
    while let Some(ident) = to_tell.pop() {
        let Some(instance) = instances.get(ident) else {
            continue;
        };
        let urgent = urgency.get(ident).copied().unwrap_or_default();
        let needed = instance.after().iter();
        for other in needed.filter_map(|item| of_item.get(item)).flatten() {
            if let Some(its) = urgency.get_mut(*other).filter(|its| **its < urgent) {
                *its = urgent;
                to_tell.push(other);
            }
        }
    }
    let owned = urgency.into_iter();
    owned.map(|(ident, it)| (ident.clone(), it)).collect()
}

/// How soon what there is of everybody shall be gone: as soon as the most urgent one shall be up that cannot start before, in its
/// place or with something that it has. Last come those that nobody waits for, which are not in it.
pub(super) fn stop_urgency(
    instances: &BTreeMap<InstanceIdent, Instance>,
) -> BTreeMap<InstanceIdent, u64> {
    let urgency = urgency(instances);
    let mut needed: BTreeMap<Sole<'_>, u64> = BTreeMap::new();
    for (ident, instance) in instances {
        let Some(want) = instance
            .want
            .as_ref()
            .filter(|_| !instance.has_what_it_wants())
        else {
            continue;
        };
        let urgent = urgency.get(ident).copied().unwrap_or_default();
        let scarce = instance.scarce().iter().map(|name| Sole::Resource(name));
        for sole in want.sole().chain(scarce) {
            let its = needed.entry(sole).or_insert(urgent);
            *its = urgent.max(*its);
        }
    }
    let gone_by = |instance: &Instance| {
        let (target, _) = instance.have.target()?;
        let holds = instance.holds.iter().map(|name| Sole::Resource(name));
        let has = target.sole().chain(holds);
        has.filter_map(|sole| needed.get(&sole)).copied().max()
    };
    instances
        .iter()
        .filter_map(|(ident, instance)| Some((ident.clone(), gone_by(instance)?)))
        .collect()
}

/// The instances that may start now, in order.
pub(super) fn ready(
    instances: &BTreeMap<InstanceIdent, Instance>,
    limits: &Limits,
    now: Now,
) -> Vec<InstanceIdent> {
    let climbers: Vec<Climber<'_>> = instances
        .iter()
        .filter_map(|(ident, instance)| climber(ident, instance, instances, limits, now))
        .collect();
    if climbers.is_empty() {
        return Vec::new();
    }
    let urgent = urgency(instances);
    let urgency = |climber: &Climber<'_>| urgent.get(climber.ident).copied();
    let top = climbers.iter().map(urgency).max();
    let wave: Vec<&Climber<'_>> = climbers
        .iter()
        .filter(|climber| Some(urgency(climber)) == top)
        .collect();
    let waits = |climber: &Climber<'_>| {
        wave.iter().any(|other| {
            other.ident.item_id != climber.ident.item_id
                && climber.after.contains(&other.ident.item_id)
        })
    };
    let able = || wave.iter().filter(|climber| climber.ready);
    let free: Vec<InstanceIdent> = able()
        .filter(|climber| !waits(climber))
        .map(|climber| climber.ident.clone())
        .collect();
    if free.is_empty() && wave.iter().all(|climber| climber.ready) {
        // They wait for each other in a circle. Somebody has to be first.
        return able().take(1).map(|it| it.ident.clone()).collect();
    }
    free
}

fn climber<'a>(
    ident: &'a InstanceIdent,
    instance: &'a Instance,
    all: &BTreeMap<InstanceIdent, Instance>,
    limits: &Limits,
    now: Now,
) -> Option<Climber<'a>> {
    let want = instance.want.as_ref()?;
    let ready = match &instance.have {
        Have::Starting { .. } | Have::Stopping { .. } | Have::Left { .. } => false,
        Have::Up(up) => {
            let rising = up.target == *want && up.pulse == Pulse::Starting;
            // It runs, or what shall replace it is not there yet: nobody has to wait for that. It is waited for when only a place
            // to be stopped is missing, as it is while it is being stopped.
            if !rising && !instance.must_stop(up) {
                return None;
            }
            false
        }
        Have::Stuck { retry, .. } => {
            if *retry > now.awake {
                return None;
            }
            false
        }
        Have::Nothing => match &instance.fetch {
            Fetch::Done { .. } => {
                if instance.not_before.is_some_and(|at| at > now.awake) {
                    return None;
                }
                !collides(ident, instance, all)
            }
            // Whoever waits for a free place is no less needed than who has one.
            Fetch::Waiting { since } | Fetch::Working { since, .. } => {
                if now.awake.saturating_sub(*since) >= limits.order_patience {
                    return None;
                }
                false
            }
            Fetch::Nothing | Fetch::Failed { .. } => return None,
        },
    };
    Some(Climber {
        ident,
        after: instance.after(),
        ready,
    })
}

/// Whether somebody who is on the way out still uses something that it needs.
fn collides(
    ident: &InstanceIdent,
    instance: &Instance,
    all: &BTreeMap<InstanceIdent, Instance>,
) -> bool {
    let Some(want) = &instance.want else {
        return false;
    };
    let scarce = instance.scarce();
    let needs = |name: &String| scarce.contains(name);
    all.iter()
        .filter(|(other, _)| *other != ident)
        .any(|(_, other)| {
            other.have.target().is_some_and(|(target, _)| {
                let is_going = other.want.as_ref() != Some(target);
                is_going && (target.shares_with(want) || other.holds.iter().any(needs))
            })
        })
}
