//! The variables of a process while they come together: from files, out of a list, into arguments.
//!
//! Whoever knows all of them puts them together. That is the manager where nothing else has a say; where name services or a
//! session add some, or a file has to be waited for, it is `muster-exec`. Both do it by these functions.

mod expand;
mod files;

use std::collections::BTreeMap;

pub use expand::arguments;
pub(crate) use files::load;
pub use files::{EnvironmentFile, is_pattern, matching, read};

/// Names and values.
pub type Variables = BTreeMap<Box<str>, Box<str>>;

/// Takes variables away that a unit does not want (`UnsetEnvironment=`): a name stands for the variable, an assignment for the
/// variable where it has that value. `pids` are those whose value, the process's number, is not known yet.
pub fn unset<'e>(
    variables: &mut Variables,
    pids: &mut Vec<Box<str>>,
    entries: impl Iterator<Item = &'e str>,
) {
    for entry in entries {
        match entry.split_once('=') {
            None => {
                variables.remove(entry);
                pids.retain(|name| &**name != entry);
            }
            Some((name, value)) => {
                if variables.get(name).is_some_and(|known| &**known == value) {
                    variables.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_a_variable_away_and_an_assignment_only_with_its_value() {
        let mut variables: Variables = [("A", "1"), ("B", "2"), ("C", "3")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let mut pids = vec!["P".into(), "Q".into()];
        let entries = ["A", "B=2", "C=2", "P", "Q=1", "D"];
        unset(&mut variables, &mut pids, entries.into_iter());
        let left: Vec<&str> = variables.keys().map(|name| &**name).collect();
        assert_eq!(left, ["C"]);
        assert_eq!(pids, ["Q".into()]);
    }
}
