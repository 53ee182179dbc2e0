//! The nodes with what has been put on them so far.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use muster_api::domain::RuntimeInfo;

use crate::demand::Amounts;
use crate::request::{Capacity, Node, Standing};

/// A place in the working state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) node: usize,
    pub(crate) runtime: usize,
    pub(crate) image: usize,
}

/// What an instance takes of the place where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'r> {
    pub(crate) amounts: Amounts,
    pub(crate) resources: &'r BTreeSet<String>,
}

/// What would be free besides, were some of the node's instances gone. Seen from one runtime.
#[derive(Debug, Default)]
pub(crate) struct Freed<'r> {
    node: Amounts,
    runtime: Amounts,
    slots: u64,
    resources: BTreeMap<&'r str, u64>,
}

impl<'r> Freed<'r> {
    pub(crate) fn add(&mut self, load: Load<'r>, same_runtime: bool) {
        self.node = self.node.plus(load.amounts);
        if same_runtime {
            self.runtime = self.runtime.plus(load.amounts);
            self.slots += 1;
        }
        for resource in load.resources {
            *self.resources.entry(resource).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, load: Load<'r>, same_runtime: bool) {
        self.node = self.node.minus(load.amounts);
        if same_runtime {
            self.runtime = self.runtime.minus(load.amounts);
            self.slots -= 1;
        }
        for resource in load.resources {
            if let Some(count) = self.resources.get_mut(resource.as_str()) {
                *count -= 1;
            }
        }
    }
}

/// Why there is no room, and whether that is the whole node's or one runtime's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack<'r> {
    Resource { name: &'r str, count: u64 },
    NodeRam { need: u64, free: u64 },
    NodeCpu { need: u64, free: u64 },
    Instances { max: u64 },
    RuntimeRam { need: u64, free: u64 },
    RuntimeCpu { need: u64, free: u64 },
}

/// For whom room is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is there already: the node's own use does not count against it.
    Stays,
    /// It comes anew.
    Comes,
}

#[derive(Debug)]
struct RuntimeState {
    limit: Capacity,
    max_instances: Option<NonZeroU64>,
    used: Amounts,
    count: u64,
}

impl RuntimeState {
    fn new(info: &RuntimeInfo) -> Self {
        let limit = Capacity {
            cpu: info.allowed_dmips.map(NonZeroU64::get),
            ram: info.allowed_ram.map(NonZeroU64::get),
        };
        Self {
            limit,
            max_instances: NonZeroU64::new(info.max_instances),
            used: Amounts::default(),
            count: 0,
        }
    }
}

#[derive(Debug)]
struct Supply {
    /// Any number if absent.
    count: Option<NonZeroU64>,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct NodeState<'r> {
    pub(crate) node: &'r Node,
    pub(crate) standing: Standing,
    /// It raised a quota alert.
    pub(crate) relieved: bool,
    /// Numbers of the instances on it, in no order.
    pub(crate) tenants: Vec<usize>,
    used: Amounts,
    runtimes: Vec<RuntimeState>,
    resources: BTreeMap<&'r str, Supply>,
}

/// What is left of a limit; the largest number if there is none.
fn left(limit: Option<u64>, used: u64) -> u64 {
    limit.map_or(u64::MAX, |limit| limit.saturating_sub(used))
}

/// Better nodes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) relieved: bool,
    /// Nobody can come. With thousands of full nodes, whoever is placed need not look at them.
    full: bool,
    pub(crate) priority: Reverse<u64>,
    pub(crate) free_cpu: Reverse<u64>,
    pub(crate) free_ram: Reverse<u64>,
    pub(crate) node: usize,
}

impl<'r> NodeState<'r> {
    pub(crate) fn new(node: &'r Node, standing: Standing, relieved: bool) -> Self {
        let supply = |resource: &'r muster_api::domain::ResourceInfo| {
            let count = resource.shared_count();
            (resource.name(), Supply { count, used: 0 })
        };
        Self {
            node,
            standing,
            relieved,
            tenants: Vec::new(),
            used: Amounts::default(),
            runtimes: node.runtimes.iter().map(RuntimeState::new).collect(),
            resources: node.resources.iter().map(supply).collect(),
        }
    }

    pub(crate) fn rank(&self, index: usize) -> Rank {
        let free = self.free(Arrival::Comes);
        Rank {
            relieved: self.relieved,
            full: self.is_full(),
            priority: Reverse(self.node.priority),
            free_cpu: Reverse(free.cpu),
            free_ram: Reverse(free.ram),
            node: index,
        }
    }

    /// Every runtime runs as many instances as it may.
    fn is_full(&self) -> bool {
        let is_full = |runtime: &RuntimeState| {
            let max = runtime.max_instances.map(NonZeroU64::get);
            max.is_some_and(|max| runtime.count >= max)
        };
        self.runtimes.iter().all(is_full)
    }

    fn free(&self, arrival: Arrival) -> Amounts {
        let used = match arrival {
            Arrival::Stays => self.used,
            Arrival::Comes => self.used.plus(self.node.system_use),
        };
        Amounts {
            cpu: left(self.node.capacity.cpu, used.cpu),
            ram: left(self.node.capacity.ram, used.ram),
        }
    }

    /// Whether the node has room, leaving its runtimes aside.
    pub(crate) fn room<'w>(
        &self,
        load: Load<'w>,
        freed: &Freed<'_>,
        arrival: Arrival,
    ) -> Result<(), Lack<'w>> {
        for name in load.resources {
            let Some(supply) = self.resources.get(name.as_str()) else {
                return Err(Lack::Resource { name, count: 0 });
            };
            let freed = freed.resources.get(name.as_str()).copied().unwrap_or(0);
            match supply.count.map(NonZeroU64::get) {
                Some(count) if supply.used.saturating_sub(freed) >= count => {
                    return Err(Lack::Resource { name, count });
                }
                Some(_) | None => {}
            }
        }
        // What is freed was used, so it is subtracted there: a node that is used beyond its limit frees less.
        let used = match arrival {
            Arrival::Stays => self.used.minus(freed.node),
            Arrival::Comes => self.used.minus(freed.node).plus(self.node.system_use),
        };
        let (need, free) = (load.amounts.ram, left(self.node.capacity.ram, used.ram));
        if need > free {
            return Err(Lack::NodeRam { need, free });
        }
        let (need, free) = (load.amounts.cpu, left(self.node.capacity.cpu, used.cpu));
        if need > free {
            return Err(Lack::NodeCpu { need, free });
        }
        Ok(())
    }

    /// Whether one of its runtimes has room.
    pub(crate) fn runtime_room(
        &self,
        runtime: usize,
        amounts: Amounts,
        freed: &Freed<'_>,
    ) -> Result<(), Lack<'static>> {
        let state = &self.runtimes[runtime];
        let count = state.count.saturating_sub(freed.slots);
        if let Some(max) = state.max_instances.map(NonZeroU64::get)
            && count >= max
        {
            return Err(Lack::Instances { max });
        }
        let used = state.used.minus(freed.runtime);
        let (need, free) = (amounts.ram, left(state.limit.ram, used.ram));
        if need > free {
            return Err(Lack::RuntimeRam { need, free });
        }
        let (need, free) = (amounts.cpu, left(state.limit.cpu, used.cpu));
        if need > free {
            return Err(Lack::RuntimeCpu { need, free });
        }
        Ok(())
    }

    /// How much of the node an amount is: the larger of its two shares, as parts of a million.
    pub(crate) fn share(&self, amounts: Amounts) -> u128 {
        let part = |amount: u64, limit: Option<u64>| match limit {
            Some(limit) => u128::from(amount) * 1_000_000 / u128::from(limit.max(1)),
            None => 0,
        };
        let capacity = &self.node.capacity;
        part(amounts.cpu, capacity.cpu).max(part(amounts.ram, capacity.ram))
    }

    pub(crate) fn enter(&mut self, tenant: usize, runtime: usize, load: Load<'_>) {
        self.tenants.push(tenant);
        self.used = self.used.plus(load.amounts);
        let state = &mut self.runtimes[runtime];
        state.used = state.used.plus(load.amounts);
        state.count += 1;
        for name in load.resources {
            if let Some(supply) = self.resources.get_mut(name.as_str()) {
                supply.used += 1;
            }
        }
    }

    pub(crate) fn leave(&mut self, tenant: usize, runtime: usize, load: Load<'_>) {
        self.tenants.retain(|own| *own != tenant);
        self.used = self.used.minus(load.amounts);
        let state = &mut self.runtimes[runtime];
        state.used = state.used.minus(load.amounts);
        state.count -= 1;
        for name in load.resources {
            if let Some(supply) = self.resources.get_mut(name.as_str()) {
                supply.used -= 1;
            }
        }
    }
}
