//! Reading the process table.

use std::fs;
use std::io;

/// One row of the process table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    pub(crate) state: char,
    /// Clock ticks after boot; with the pid it names a process for good.
    pub(crate) start_time: u64,
    pub(crate) name: String,
}

impl ProcessRow {
    /// Dead, and only waiting for its parent to ask how it ended.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// All processes this one can see. Those that end while the table is read are left out.
pub(crate) fn process_table() -> io::Result<Vec<ProcessRow>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        rows.extend(process_row(pid));
    }
    Ok(rows)
}

/// The row of one process, if it still exists.
pub(crate) fn process_row(pid: i32) -> Option<ProcessRow> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether the environment that the process was started with holds an entry beginning with `prefix`.
pub(crate) fn environment_has(pid: i32, prefix: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry.starts_with(prefix.as_bytes()))
    })
}

/// The processes below `ancestor`, without it, parents before their children.
pub(crate) fn descendants(table: &[ProcessRow], ancestor: i32) -> Vec<&ProcessRow> {
    let mut found: Vec<&ProcessRow> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        // The kernel's idle task is its own parent in the eyes of a naive walk.
        for row in table
            .iter()
            .filter(|row| row.parent == parent && row.pid != parent)
        {
            found.push(row);
            parents.push(row.pid);
        }
    }
    found
}

/// The name stands in parentheses and may itself hold parentheses and spaces, so it ends at the last.
fn parse_stat(stat: &str) -> Option<ProcessRow> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(ProcessRow {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_row_is_found_in_the_table() {
        let own = i32::try_from(std::process::id()).unwrap();
        let table = process_table().unwrap();
        let row = table.iter().find(|row| row.pid == own).unwrap();
        assert_eq!(
            row.parent,
            i32::try_from(std::os::unix::process::parent_id()).unwrap()
        );
        assert!(!row.is_zombie());
        assert!(
            descendants(&table, row.parent)
                .iter()
                .any(|row| row.pid == own)
        );
    }

    #[test]
    fn name_may_hold_anything() {
        let stat = "7 (a) R (b c) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 1 1";
        let row = parse_stat(stat).unwrap();
        assert_eq!((row.name.as_str(), row.state), ("a) R (b c", 'S'));
        assert_eq!((row.parent, row.session, row.start_time), (1, 3, 99));
        assert_eq!(parse_stat("7 (cut"), None);
    }

    #[test]
    fn environment_is_matched_by_whole_entries() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(environment_has(own, "PATH="));
        assert!(!environment_has(own, "ATH="));
        assert!(!environment_has(i32::MAX, "PATH="));
    }
}
