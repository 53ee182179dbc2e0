//! What a user leaves behind in the kernel: queues, semaphores and shared memory outlive their processes.

#![expect(
    unsafe_code,
    reason = "the C library's calls for System V objects have no safe form"
)]

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Removes a row of a table of the kernel's.
type Remove = fn(i32) -> i32;

/// The kernel's tables, and what removes a row of them.
const TABLES: [(&str, Remove); 3] = [
    ("/proc/sysvipc/shm", remove_memory),
    ("/proc/sysvipc/sem", remove_semaphores),
    ("/proc/sysvipc/msg", remove_queue),
];
/// Where the names of POSIX memory and queues are.
const FOLDERS: [&str; 2] = ["/dev/shm", "/dev/mqueue"];

/// Removes all of a user's queues, semaphores and shared memory that this process can see, and gives what would not go.
/// The superuser's are everybody's: they stay.
#[must_use]
pub fn remove_ipc(uid: u32) -> Vec<String> {
    let mut left = Vec::new();
    if uid == 0 {
        return left;
    }
    for (table, remove) in TABLES {
        // A kernel without them has no table.
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for id in owned(&text, uid) {
            if remove(id) != 0 {
                left.push(format!("{table} {id}: {}", io::Error::last_os_error()));
            }
        }
    }
    for folder in FOLDERS {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            if let Err(error) = remove_file(&entry.path(), uid) {
                left.push(format!("{}: {error}", entry.path().display()));
            }
        }
    }
    left
}

/// Numbers of the rows whose owner or maker a user is. Columns are found by their names in the first line.
fn owned(table: &str, uid: u32) -> Vec<i32> {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let column = |wanted: &str| names.iter().position(|name| *name == wanted);
    let id = names.iter().position(|name| name.ends_with("id"));
    let (Some(id), Some(owner), Some(maker)) = (id, column("uid"), column("cuid")) else {
        return Vec::new();
    };
    let uid = uid.to_string();
    lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is = |at: usize| fields.get(at).is_some_and(|field| *field == uid);
            fields
                .get(id)?
                .parse()
                .ok()
                .filter(|_| is(owner) || is(maker))
        })
        .collect()
}

fn remove_file(path: &Path, uid: u32) -> io::Result<()> {
    let stat = match std::fs::symlink_metadata(path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if stat.uid() != uid {
        return Ok(());
    }
    match stat.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    }
}

fn remove_memory(id: i32) -> i32 {
    // SAFETY: to remove needs no buffer, and a number that means nothing is refused.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }
}

fn remove_semaphores(id: i32) -> i32 {
    // SAFETY: to remove takes no further argument, and a number that means nothing is refused.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) }
}

fn remove_queue(id: i32) -> i32 {
    // SAFETY: to remove needs no buffer, and a number that means nothing is refused.
    unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_the_names_of_their_columns() {
        let queues = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid\n\
                      0          3   666           0          0     0     0  4711     0     0     0\n\
                      0          4   666           0          0     0     0     0     0  4711     0\n\
                      0          5   666           0          0     0     0     1  4711     1     0\n";
        assert_eq!(owned(queues, 4711), [3, 4]);
        assert_eq!(owned("", 4711), [0; 0]);
        assert_eq!(owned("key\nx", 4711), [0; 0]);
    }

    #[test]
    fn what_a_user_left_goes_and_what_others_have_stays() {
        const NAME: &str = "what_a_user_left_goes_and_what_others_have_stays";
        if !rustix::process::geteuid().is_root() {
            println!("{NAME}: skipped, it needs root");
            return;
        }
        // A number that nobody else on this machine has.
        let uid = 0x4d55_0000 + std::process::id();
        // SAFETY: both calls take plain numbers.
        let (theirs, ours) = unsafe {
            (
                libc::msgget(libc::IPC_PRIVATE, 0o600),
                libc::msgget(libc::IPC_PRIVATE, 0o600),
            )
        };
        assert!(theirs >= 0 && ours >= 0);
        // SAFETY: an all-zero record is one; the kernel fills it in.
        let mut record: libc::msqid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the record lives for both calls.
        unsafe {
            assert_eq!(libc::msgctl(theirs, libc::IPC_STAT, &raw mut record), 0);
            record.msg_perm.uid = uid;
            assert_eq!(libc::msgctl(theirs, libc::IPC_SET, &raw mut record), 0);
        }
        let left = remove_ipc(uid);
        assert!(left.is_empty(), "{left:?}");
        assert_ne!(remove_queue(theirs), 0, "it is gone already");
        assert_eq!(remove_queue(ours), 0, "it was not touched");
        assert!(remove_ipc(0).is_empty());
    }
}
