//! The processes of Muster's instances in a [machine](crate::machine).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::machine::{Machine, MachineError};

/// Unit of an instance and its process, by its number inside the machine.
pub type Pids = BTreeMap<String, i32>;

/// Prints number, name and unit of every process in an instance's unit, also of those in PID namespaces of their own, which the
/// machine does not list. The first word of a name is enough.
const LIST: &str = r#"for group in $(grep -l 'muster-container-[^/]*service' /proc/[0-9]*/cgroup 2>/dev/null); do
    folder=${group%/cgroup}
    name=$(cut -d ' ' -f 1 "$folder/comm" 2>/dev/null)
    unit=$(grep -o 'muster-container-[^/]*service' "$group" 2>/dev/null | head -n 1)
    [ -n "$name" ] && [ -n "$unit" ] && echo "${folder#/proc/} $name $unit"
done; true"#;

/// Why instances' processes are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListInstancesError {
    /// The machine cannot be asked.
    #[error("cannot list the processes of instances")]
    Machine(#[source] MachineError),
    /// Some never became the program of their image.
    #[error("units without a process `{program}` after {within:?}: {units:?}")]
    OnTheirWay {
        /// What was waited for.
        program: String,
        /// For how long.
        within: Duration,
        /// Where.
        units: BTreeSet<String>,
    },
}

/// The processes of all container instances, whose images run `program`, as soon as none is on its way: a unit that is up already
/// has its process, but that may not have become the image's program yet.
pub fn instances(
    machine: &Machine,
    program: &str,
    within: Duration,
) -> Result<Pids, ListInstancesError> {
    let deadline = Instant::now() + within;
    loop {
        let listed = machine.run(["sh", "-c", LIST]);
        let listed = listed.map_err(ListInstancesError::Machine)?.stdout;
        let (pids, units) = sort(&listed, program);
        if units.is_empty() {
            return Ok(pids);
        }
        if Instant::now() > deadline {
            return Err(ListInstancesError::OnTheirWay {
                program: program.to_owned(),
                within,
                units,
            });
        }
    }
}

/// Units with such a process, and those that have others only.
fn sort(listed: &str, program: &str) -> (Pids, BTreeSet<String>) {
    let (mut pids, mut others) = (Pids::new(), BTreeSet::new());
    for line in listed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, name, unit] = words[..] else {
            continue;
        };
        match pid.parse() {
            Ok(pid) if name == program => drop(pids.insert(unit.to_owned(), pid)),
            _ => drop(others.insert(unit.to_owned())),
        }
    }
    others.retain(|unit| !pids.contains_key(unit));
    (pids, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_without_its_program_is_on_its_way() {
        let listed = "7 runc a.service\n9 sleep a.service\n12 runc:[2:INIT] b.service\n";
        let (pids, others) = sort(listed, "sleep");
        assert_eq!(pids, Pids::from([("a.service".to_owned(), 9)]));
        assert_eq!(others, BTreeSet::from(["b.service".to_owned()]));
        assert_eq!(sort("", "sleep"), Default::default());
    }
}
