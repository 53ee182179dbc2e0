//! Who is who: instances by unit and by filter.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use muster_api::domain::{InstanceFilter, InstanceIdent};
use muster_runtime::RunId;

/// So many instances that are gone are still known: lines about their end arrive after it, and logs are asked for later.
const GONE: usize = 256;

/// An instance that runs, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// Which instance.
    pub instance: InstanceIdent,
    /// In which version.
    pub version: String,
    /// Which start of it.
    pub run: RunId,
    /// Its unit, as the journal calls it.
    pub unit: Option<String>,
    /// What of its sandbox could not be had, one sentence each.
    pub lacks: Vec<String>,
}

#[derive(Debug, Default)]
struct Shelf {
    here: BTreeMap<InstanceIdent, Arc<Resident>>,
    /// The last to go is at the end.
    gone: VecDeque<Arc<Resident>>,
    by_unit: HashMap<String, Arc<Resident>>,
}

/// Who runs, and who did last. A cheap handle; every call answers at once.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    shelf: Arc<RwLock<Shelf>>,
}

impl Directory {
    /// Whose unit this is, also shortly after its end.
    #[must_use]
    pub fn by_unit(&self, unit: &str) -> Option<Arc<Resident>> {
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner);
        shelf.by_unit.get(unit).cloned()
    }

    /// What of its sandbox an instance that runs could not have.
    #[must_use]
    pub fn lacks(&self, instance: &InstanceIdent) -> Vec<String> {
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner);
        let resident = shelf.here.get(instance);
        resident.map_or_else(Vec::new, |it| it.lacks.clone())
    }

    /// Who runs and is meant, in order.
    #[must_use]
    pub fn running(&self, filter: &InstanceFilter) -> Vec<Arc<Resident>> {
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner);
        let meant = |(ident, it): (&InstanceIdent, &Arc<Resident>)| {
            filter.matches(ident).then(|| Arc::clone(it))
        };
        shelf.here.iter().filter_map(meant).collect()
    }

    /// Who runs or did last, and is meant; those who run come first, then the last to go.
    #[must_use]
    pub fn known(&self, filter: &InstanceFilter) -> Vec<Arc<Resident>> {
        let mut known = self.running(filter);
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner);
        let gone = shelf.gone.iter().rev();
        known.extend(gone.filter(|it| filter.matches(&it.instance)).cloned());
        known
    }

    pub(super) fn enter(&self, resident: Resident) {
        let resident = Arc::new(resident);
        let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = resident.unit.clone() {
            shelf.by_unit.insert(unit, Arc::clone(&resident));
        }
        let ident = resident.instance.clone();
        if let Some(before) = shelf.here.insert(ident, resident) {
            shelf.retire(before);
        }
    }

    /// Whether it was here.
    pub(super) fn leave(&self, instance: &InstanceIdent) -> bool {
        let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        let left = shelf.here.remove(instance);
        let was_here = left.is_some();
        left.into_iter().for_each(|it| shelf.retire(it));
        was_here
    }
}

impl Shelf {
    fn retire(&mut self, resident: Arc<Resident>) {
        self.gone.push_back(resident);
        while self.gone.len() > GONE {
            let forgotten = self.gone.pop_front();
            if let Some(unit) = forgotten.and_then(|it| it.unit.clone()) {
                self.by_unit.remove(&unit);
            }
        }
    }
}
