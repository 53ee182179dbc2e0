//! The processes of instances in a machine, for tests whose images sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_lab::machine::Machine;

/// Unit of an instance and its process.
pub(crate) type Pids = BTreeMap<String, i32>;

/// Prints number, name and unit of every process in an instance's unit, also of those in namespaces of their own. The first word
/// of a name is enough.
const LIST: &str = r#"for group in $(grep -l 'muster-container-[^/]*service' /proc/[0-9]*/cgroup 2>/dev/null); do
    folder=${group%/cgroup}
    name=$(cut -d ' ' -f 1 "$folder/comm" 2>/dev/null)
    unit=$(grep -o 'muster-container-[^/]*service' "$group" 2>/dev/null | head -n 1)
    [ -n "$name" ] && [ -n "$unit" ] && echo "${folder#/proc/} $name $unit"
done; true"#;

/// All of them, as soon as none is on its way: a unit that is up already has its process, but that may not have become the
/// image's program yet.
pub(crate) fn processes(machine: &Machine, within: Duration) -> Pids {
    let deadline = Instant::now() + within;
    loop {
        let listed = machine.run(["sh", "-c", LIST]).expect("a list").stdout;
        let (mut units, mut pids) = (BTreeSet::new(), Pids::new());
        for line in listed.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("three words").to_owned();
            let (pid, name, unit) = (word(), word(), word());
            units.insert(unit.clone());
            if name == "sleep" {
                pids.insert(unit, pid.parse().expect("a number"));
            }
        }
        if pids.keys().eq(&units) {
            return pids;
        }
        assert!(Instant::now() < deadline, "on their way: {listed}");
    }
}
