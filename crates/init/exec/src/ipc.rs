//! What a user leaves behind in the kernel: queues, semaphores and shared memory outlive their processes.

#![expect(
    unsafe_code,
    reason = "the C library's calls for System V objects have no safe form"
)]

use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::context::{ExecContext, Stream};

/// The word by which `muster-exec` is told to remove what it reads from its standard input.
pub const REMOVE_IPC: &str = "--remove-ipc";
/// Room for as many numbers as the kernel has of all kinds.
const MAX_REMAINS: u64 = 16 << 20;

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

/// A user's queues, semaphores and shared memory, as they are at one moment.
///
/// To remove them may take long: memory is freed, and there may be any number of files, in folders of folders. So the manager only
/// notes what there is, in tables of a size that the kernel limits, and has a process do the rest; meanwhile the user may be
/// another unit's, or have the same unit once more, whose own objects stay. Numbers of objects do not come again soon; files are
/// told apart by when they were changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct IpcRemains {
    uid: u32,
    /// Seconds and nanoseconds of the time that files are marked with.
    until: (i64, i64),
    /// Numbers, by table.
    numbers: [Vec<i32>; 3],
}

impl IpcRemains {
    /// What a user has that this process can see. The superuser's is everybody's: nothing of it remains.
    ///
    /// # Errors
    /// There is no memory to look at the time of.
    pub fn of(uid: u32) -> io::Result<Option<Self>> {
        if uid == 0 {
            return Ok(None);
        }
        let numbers = TABLES.map(|(table, _)| {
            // A kernel without them has no table.
            let text = std::fs::read_to_string(table).unwrap_or_default();
            owned(&text, uid)
        });
        Ok(Some(Self {
            uid,
            until: moment_of_files()?,
            numbers,
        }))
    }

    /// A process of `muster-exec`, at the path `helper`, that removes them, and what is at place 0 of its descriptors. It writes
    /// a line for whatever would not go to the one at place 1, if it `reports`.
    ///
    /// # Errors
    /// There is no memory to write them down.
    pub fn remover(&self, helper: &str, reports: bool) -> io::Result<(ExecContext, OwnedFd)> {
        let memory = rustix::fs::memfd_create("ipc", MemfdFlags::CLOEXEC)?;
        let mut memory = std::fs::File::from(memory);
        memory.write_all(&serde_json::to_vec(self)?)?;
        memory.rewind()?;
        let context = ExecContext {
            program: helper.into(),
            argv: vec!["muster-exec".into(), REMOVE_IPC.into()],
            stdin: Stream::Fd(0),
            stderr: if reports { Stream::Fd(1) } else { Stream::Null },
            ..ExecContext::default()
        };
        Ok((context, memory.into()))
    }

    /// Reads what a process is to remove.
    ///
    /// # Errors
    /// It is nothing of the kind.
    pub fn read(from: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.take(MAX_REMAINS).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Removes them, and gives what would not go.
    #[must_use]
    pub fn remove(&self) -> Vec<String> {
        let mut left = Vec::new();
        for ((table, remove), numbers) in TABLES.iter().zip(&self.numbers) {
            for id in numbers {
                if remove(*id) != 0 {
                    left.push(format!("{table} {id}: {}", io::Error::last_os_error()));
                }
            }
        }
        for folder in FOLDERS {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries {
                if let Err(error) = self.remove_file(&entry.path()) {
                    left.push(format!("{}: {error}", entry.path().display()));
                }
            }
        }
        left
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let stat = match std::fs::symlink_metadata(path) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if stat.uid() != self.uid || (stat.ctime(), stat.ctime_nsec()) > self.until {
            return Ok(());
        }
        match stat.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        }
    }
}

/// What a file that is changed now is marked with. No clock tells: the coarse one, which most files get, is behind the marks that
/// kernels since 6.13 give to files that somebody watches, and the fine one is ahead of most.
fn moment_of_files() -> io::Result<(i64, i64)> {
    let file = rustix::fs::memfd_create("now", MemfdFlags::CLOEXEC)?;
    let stat = rustix::fs::fstat(file)?;
    #[expect(clippy::cast_possible_wrap, reason = "less than a second")]
    Ok((stat.st_ctime, stat.st_ctime_nsec as i64))
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
    fn no_mark_of_a_file_is_ahead_of_the_moment() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        for round in 0..1000 {
            // Whoever was looked at gets a mark of its own at the next change.
            let permissions = file.as_file().metadata().unwrap().permissions();
            file.as_file().set_permissions(permissions).unwrap();
            let now = moment_of_files().unwrap();
            let stat = file.as_file().metadata().unwrap();
            let mark = (stat.ctime(), stat.ctime_nsec());
            assert!(mark <= now, "{round}: {mark:?} {now:?}");
        }
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
        let file = |name: &str| {
            let path = format!("/dev/shm/{NAME}-{}-{name}", std::process::id());
            std::fs::create_dir_all(format!("{path}/inner")).unwrap();
            std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
            path
        };
        let before = file("before");
        let remains = IpcRemains::of(uid).unwrap().unwrap();
        while moment_of_files().unwrap() <= remains.until {
            std::thread::yield_now();
        }
        let after = file("after");
        let (context, memory) = remains.remover("/helper", false).unwrap();
        assert_eq!(context.stdin, Stream::Fd(0));
        let read = IpcRemains::read(std::fs::File::from(memory)).unwrap();
        let left = read.remove();
        let is_there = |path: &str| std::fs::exists(path).unwrap();
        let found = (is_there(&before), is_there(&after));
        std::fs::remove_dir_all(&after).unwrap();
        assert_eq!(found, (false, true), "the next run's stay");
        assert!(left.is_empty(), "{left:?}");
        assert_ne!(remove_queue(theirs), 0, "it is gone already");
        assert_eq!(remove_queue(ours), 0, "it was not touched");
        assert!(IpcRemains::of(0).unwrap().is_none());
    }
}
