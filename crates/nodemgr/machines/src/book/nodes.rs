//! Machines that are nodes of a Unit. Whoever makes one a node says so here, and whoever takes it out of the Unit, too.

use muster_lifecycle::Moment;
use muster_provider::MachineId;

use super::Book;
use crate::error::AskError;
use crate::event::Happened;

impl Book {
    /// Records that a machine is a node of a Unit, or with `None` that it is none any more; also of one that is gone.
    pub(crate) fn set_unit(
        &mut self,
        id: &MachineId,
        unit: Option<String>,
        now: Moment,
    ) -> Result<(), AskError> {
        let Some(record) = self.record(id) else {
            return Err(AskError::Unknown(id.clone()));
        };
        if record.unit == unit {
            return Ok(());
        }
        if unit.is_some() && record.state().is_ending() {
            return Err(AskError::Ending(id.clone()));
        }
        let was = record.unit.clone();
        self.change(id, |record| {
            record.unit.clone_from(&unit);
            record.untouched = false;
        });
        if let Some(entry) = self.entries.get(id) {
            // What the Unit did with it was work until now.
            entry.load.touch(now);
        }
        if let Some(unit) = was {
            self.tell(id, Happened::Left { unit }, now);
        }
        if let Some(unit) = unit {
            self.tell(id, Happened::Joined { unit }, now);
        }
        self.settle_machine(id, now);
        Ok(())
    }

    /// A machine is gone, and nobody has taken its node out of the Unit.
    pub(super) fn tell_of_node_that_stays(&mut self, id: &MachineId, now: Moment) {
        let unit = self.record(id).and_then(|record| record.unit.clone());
        if let Some(unit) = unit {
            self.tell(id, Happened::NodeStays { unit }, now);
        }
    }
}
