//! Reading the state of the machine as a set of sentences, one per thing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LeakError, Watch};
use crate::command::run_tool;
use crate::procs::{ProcessRow, descendants, environment_has, process_table};
use crate::program::spawner::{guardian_pid, owner_entry};

/// A folder with more files than this is none that a test has made.
const MAX_FILES: usize = 100_000;

pub(super) fn facts(watch: &Watch) -> Result<BTreeSet<String>, LeakError> {
    let mut facts = BTreeSet::new();
    facts.extend(processes()?);
    facts.extend(mounts(watch)?);
    if watch.machine_wide || namespace_is_own("net") {
        facts.extend(links()?);
        facts.extend(rules()?);
    }
    facts.extend(loop_devices(watch)?);
    for directory in &watch.cgroups {
        walk(directory, &mut |path, is_dir| {
            if is_dir {
                facts.insert(format!("control group {}", path.display()));
            }
        })?;
    }
    for folder in &watch.folders {
        walk(folder, &mut |path, is_dir| {
            let kind = if is_dir { "folder" } else { "file" };
            facts.insert(format!("{kind} {}", path.display()));
        })?;
    }
    Ok(facts)
}

fn processes() -> Result<Vec<String>, LeakError> {
    let table = process_table().map_err(reading("/proc"))?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let below: BTreeSet<i32> = descendants(&table, own).iter().map(|row| row.pid).collect();
    // What the guardian runs is its own affair, too.
    let guarding: BTreeSet<i32> = guardian_pid().map_or_else(BTreeSet::new, |guardian| {
        let runs = descendants(&table, guardian).into_iter().map(|row| row.pid);
        runs.chain([guardian]).collect()
    });
    let marker = owner_entry();
    let is_own = |row: &&ProcessRow| {
        !guarding.contains(&row.pid)
            && (below.contains(&row.pid) || environment_has(row.pid, &marker))
    };
    let describe = |row: &ProcessRow| {
        let state = if row.is_zombie() {
            ", dead but not reaped"
        } else {
            ""
        };
        format!(
            "process {} ({}, started at {}{state})",
            row.pid, row.name, row.start_time
        )
    };
    Ok(table.iter().filter(is_own).map(describe).collect())
}

fn mounts(watch: &Watch) -> Result<Vec<String>, LeakError> {
    let path = "/proc/thread-self/mountinfo";
    let table = fs::read_to_string(path).map_err(reading(path))?;
    let all = watch.machine_wide || namespace_is_own("mnt");
    Ok(table
        .lines()
        .filter_map(parse_mount)
        .filter(|(point, _)| all || is_watched(watch, Path::new(point)))
        .map(|(point, kind)| format!("mount {point} ({kind})"))
        .collect())
}

/// Mount point and type of a line of the table of mounts.
fn parse_mount(line: &str) -> Option<(String, &str)> {
    let (mount, source) = line.split_once(" - ")?;
    let point = mount.split(' ').nth(4)?;
    Some((unescape(point), source.split(' ').next()?))
}

/// The kernel writes blanks and backslashes in names as three octal digits.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn links() -> Result<Vec<String>, LeakError> {
    let path = "/proc/thread-self/net/dev";
    let table = fs::read_to_string(path).map_err(reading(path))?;
    Ok(table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| format!("link {}", name.trim()))
        .collect())
}

/// Without counters, which change by themselves.
fn rules() -> Result<Vec<String>, LeakError> {
    let listing = run_tool(
        Command::new("nft").args(["--stateless", "list", "ruleset"]),
        "",
    )
    .map_err(LeakError::Rules)?;
    let mut block = String::new();
    let mut facts = Vec::new();
    for line in listing.lines() {
        if line.starts_with("table ") {
            block = line.trim_end_matches(" {").to_owned();
            facts.push(format!("packet filter {block}"));
        } else if !matches!(line.trim(), "" | "}") {
            facts.push(format!("packet filter {block}: {}", line.trim()));
        }
    }
    Ok(facts)
}

fn loop_devices(watch: &Watch) -> Result<Vec<String>, LeakError> {
    let mut facts = Vec::new();
    for device in list(Path::new("/sys/block"))? {
        // Only a device in use has a file; one may be detached between the two reads.
        let Ok(file) = fs::read_to_string(device.join("loop/backing_file")) else {
            continue;
        };
        let file = file.trim_end();
        if watch.machine_wide || is_watched(watch, Path::new(file)) {
            let name = device
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            facts.push(format!("loop device {name} on {file}"));
        }
    }
    Ok(facts)
}

fn is_watched(watch: &Watch, path: &Path) -> bool {
    watch.folders.iter().any(|folder| path.starts_with(folder))
}

/// Whether the calling thread's namespace of that kind is not the one in which the test was started.
/// Where that cannot be told, it is taken for that one, which others use as well.
fn namespace_is_own(kind: &str) -> bool {
    let runner = std::os::unix::process::parent_id();
    let own = fs::read_link(format!("/proc/thread-self/ns/{kind}"));
    let shared = fs::read_link(format!("/proc/{runner}/ns/{kind}"));
    matches!((own, shared), (Ok(own), Ok(shared)) if own != shared)
}

/// Calls `visit` for everything below `top`, links not followed. What vanishes meanwhile is left out.
fn walk(top: &Path, visit: &mut dyn FnMut(&Path, bool)) -> Result<(), LeakError> {
    let mut folders = vec![top.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in list(&folder)? {
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            seen += 1;
            if seen > MAX_FILES {
                return Err(LeakError::TooManyFiles {
                    path: top.to_owned(),
                    limit: MAX_FILES,
                });
            }
            visit(&path, metadata.is_dir());
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// The entries of a folder; none when it does not exist.
fn list(folder: &Path) -> Result<Vec<PathBuf>, LeakError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(reading(folder)(error)),
    };
    entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(reading(folder)))
        .collect()
}

fn reading(path: impl AsRef<Path>) -> impl Fn(io::Error) -> LeakError {
    let path = path.as_ref().to_owned();
    move |source| LeakError::Read {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines_are_read_with_their_escapes() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 - ext4 /dev/root rw";
        assert_eq!(parse_mount(line), Some((r"/mnt 2\x".to_owned(), "ext4")));
        assert_eq!(parse_mount("36 35 98:0"), None);
        assert_eq!(unescape(r"a\9\04"), r"a\9\04");
    }

    #[test]
    fn walk_visits_all_levels() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), "").unwrap();
        walk(dir.path(), &mut |path, is_dir| {
            seen.push((path.to_owned(), is_dir))
        })
        .unwrap();
        assert_eq!(
            seen,
            [
                (dir.path().join("sub"), true),
                (dir.path().join("sub/file"), false)
            ]
        );
    }
}
