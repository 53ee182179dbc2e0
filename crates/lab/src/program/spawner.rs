//! How programs are started so that none outlives the test process.
//!
//! A child asks the kernel to be killed when its parent dies. The kernel takes the *thread* that
//! forked for the parent, so all programs are started by one thread that lives as long as the process.
//! That reaches the children only. For what they start in turn there is a guardian: a shell in a
//! session of its own that waits for the end of a pipe whose other end only this process holds, and
//! then kills whatever carries this process's marker in its environment.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rustix::process::{Pid, Signal, getpid, getppid};

use crate::procs::process_row;

/// Names, in a program's environment, the test process and the run that it belongs to.
const MARKER_VARIABLE: &str = "MUSTER_LAB_PROGRAM";

/// Kills, without waiting for anything, until nothing with the marker in `$1` is left. The rounds are
/// for those that fork while the table is read.
const GUARDIAN_SCRIPT: &str = r#"
while read -r _; do :; done
for round in 1 2 3 4 5 6 7 8 9 10; do
    found=$(grep -lsaF -- "$1" /proc/[0-9]*/environ)
    [ -n "$found" ] || exit 0
    for file in $found; do
        pid=${file#/proc/}
        kill -9 "${pid%/environ}" 2>/dev/null
    done
done
"#;

struct Job {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

struct Spawner {
    jobs: SyncSender<Job>,
    guardian_pid: i32,
    /// Its end tells the guardian that this process is gone.
    _alive: ChildStdin,
}

/// The marker of a run that is about to start: an environment variable and its value.
pub(super) fn new_marker() -> (&'static str, String) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    (MARKER_VARIABLE, format!("{}{run}.", owner()))
}

/// How an environment entry begins that marks a program of this test process.
pub(crate) fn owner_entry() -> String {
    format!("{MARKER_VARIABLE}={}", owner())
}

/// The guardian, if one was started: a child of this process that is no leak.
pub(crate) fn guardian_pid() -> Option<i32> {
    SPAWNER
        .get()?
        .as_ref()
        .ok()
        .map(|spawner| spawner.guardian_pid)
}

/// A pid alone may be used again; with the start time it names this process for good.
fn owner() -> String {
    let pid = getpid().as_raw_nonzero().get();
    let start_time = process_row(pid).map_or(0, |row| row.start_time);
    format!("{pid}.{start_time}.")
}

/// Made once: a second guardian would take the end of its pipe for the end of this process.
static SPAWNER: OnceLock<io::Result<Spawner>> = OnceLock::new();

/// Starts `command` in a session of its own, to be killed when this process dies.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    let spawner = SPAWNER
        .get_or_init(Spawner::start)
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    die_with_parent(&mut command);
    let (reply, answer) = sync_channel(1);
    let ended = || io::Error::other("the thread that starts programs has ended");
    spawner
        .jobs
        .send(Job { command, reply })
        .map_err(|_| ended())?;
    answer.recv().map_err(|_| ended())?
}

impl Spawner {
    fn start() -> io::Result<Self> {
        let mut guardian = Command::new("/bin/sh");
        guardian
            .args(["-c", GUARDIAN_SCRIPT, "lab-guardian", &owner_entry()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        in_new_session(&mut guardian);
        let mut guardian = guardian.spawn()?;
        let alive = guardian
            .stdin
            .take()
            .ok_or_else(|| io::Error::other("no pipe to guardian"))?;
        let guardian_pid = Pid::from_child(&guardian).as_raw_nonzero().get();

        let (jobs, received) = sync_channel::<Job>(16);
        std::thread::Builder::new()
            .name("lab-spawner".to_owned())
            .spawn(move || {
                for mut job in received {
                    // Whoever asked may have given up; the child then dies with its handle's process.
                    let _ = job.reply.send(job.command.spawn());
                }
            })?;
        Ok(Self {
            jobs,
            guardian_pid,
            _alive: alive,
        })
    }
}

#[expect(unsafe_code, reason = "Command::pre_exec is unsafe by nature")]
fn in_new_session(command: &mut Command) {
    // SAFETY: the closure makes one system call and touches no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

#[expect(unsafe_code, reason = "Command::pre_exec is unsafe by nature")]
fn die_with_parent(command: &mut Command) {
    in_new_session(command);
    let parent = getpid();
    // SAFETY: the closure makes system calls only, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that died before the call above sends no signal any more.
            if getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::ErrorKind::NotConnected.into())
            }
        });
    }
}
