//! A node's `muster-init`: starting it, finding it, ending it.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};

use crate::error::FileError;
use crate::files::NodePlan;
use crate::layout::{NodePlace, SECOND};

/// It answers within this time, or something is wrong.
const START_TIME: Duration = Duration::from_secs(20);
/// Units are given 10 s to end, two after each other at most.
const END_TIME: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits for a word before it becomes the init, so that what the node needs can be put into its namespaces.
const SCRIPT: &str = r#"set -eu
group=$1 name=$2
shift 2
# Zero stands for the writer.
[ "$group" = - ] || echo 0 >"$group/cgroup.procs"
[ "$name" = - ] || hostname "$name"
echo ready
read -r go
exec "$@" </dev/null >&2
"#;

/// How a node is started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) plan: NodePlan<'a>,
    /// Its cgroup, where the machine has such.
    pub(crate) group: Option<PathBuf>,
    /// What it boots.
    pub(crate) unit: &'static str,
}

/// Why an init is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A file for it, or its first process, cannot be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// It ended, or does not answer.
    #[error("it does not answer")]
    Silent,
}

/// A process that becomes the node's init as soon as it is told to.
#[derive(Debug)]
pub(crate) struct Waiting {
    child: Child,
    socket: PathBuf,
}

impl Start<'_> {
    /// Makes the process, and for the second node its namespaces.
    pub(crate) fn begin(&self) -> Result<Waiting, StartError> {
        let place = self.plan.place;
        let log = place.init_log();
        let said = File::create(&log).map_err(FileError::of("make", &log))?;
        let is_second = place.name == SECOND;
        // A session of its own: what is typed at, or happens to, the terminal is not for it.
        let mut command = Command::new("setsid");
        if is_second {
            // A slave of the machine's mounts: what is mounted in the node stays there, and what the machine unmounts is let go.
            command.args([
                "unshare",
                "--mount",
                "--net",
                "--uts",
                "--propagation",
                "slave",
                "--",
            ]);
        }
        command
            .args(["/bin/sh", "-c", SCRIPT, "muster-up"])
            .arg(self.group.as_deref().unwrap_or(Path::new("-")))
            .arg(if is_second { place.name } else { "-" })
            .args(place.init_command(self.plan.programs, self.unit, self.group.as_deref()))
            .current_dir("/")
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .envs(std::env::var_os("HOME").map(|home| ("HOME", home)))
            .envs(std::env::var_os("XDG_RUNTIME_DIR").map(|it| ("XDG_RUNTIME_DIR", it)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said);
        let failed = FileError::of("run a node from", &place.dir);
        let mut child = command.spawn().map_err(failed)?;
        let mut word = String::new();
        if let Some(output) = child.stdout.take() {
            // One that ended says so by an empty word.
            let _ = BufReader::new(output).read_line(&mut word);
        }
        let mut waiting = Waiting {
            child,
            socket: place.manager_socket(),
        };
        if word.trim() != "ready" {
            waiting.give_up();
            return Err(StartError::Silent);
        }
        let pid = place.init_pid();
        if let Err(error) = fs::write(&pid, waiting.process().to_string()) {
            waiting.give_up();
            return Err(FileError::of("write", &pid)(error).into());
        }
        Ok(waiting)
    }
}

impl Waiting {
    /// It, and later the init that it becomes.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Lets it become the init, and waits until that answers.
    pub(crate) fn go(mut self) -> Result<(), StartError> {
        let told = self.child.stdin.take().map(|mut it| it.write_all(b"go\n"));
        if !matches!(told, Some(Ok(()))) {
            return Err(StartError::Silent);
        }
        let deadline = Instant::now() + START_TIME;
        while UnixStream::connect(&self.socket).is_err() {
            let has_ended = !matches!(self.child.try_wait(), Ok(None));
            if has_ended || Instant::now() >= deadline {
                return Err(StartError::Silent);
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends it before it becomes anything.
    pub(crate) fn give_up(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a node's init answers. Its socket outlives `muster-core`, not the init.
pub(crate) fn is_up(place: &NodePlace) -> bool {
    UnixStream::connect(place.manager_socket()).is_ok()
}

/// The process that a node's init was noted to be, if it still is that one.
fn init_of(place: &NodePlace) -> Option<Pid> {
    let noted = fs::read_to_string(place.init_pid()).ok()?;
    let pid = Pid::from_raw(noted.trim().parse().ok()?)?;
    is_init_of(pid, place).then_some(pid)
}

/// Numbers of processes are used again; what this one was started with tells.
fn is_init_of(pid: Pid, place: &NodePlace) -> bool {
    let command_line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let own = place.run.as_os_str().as_encoded_bytes();
    command_line.is_ok_and(|words| words.split(|byte| *byte == 0).any(|word| word == own))
}

/// Asks a node's init to stop everything in order.
pub(crate) fn ask_to_end(place: &NodePlace) {
    let Some(pid) = init_of(place) else {
        return;
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    // The descriptor is of whoever has the number now.
    if is_init_of(pid, place) {
        // One that is gone has ended.
        let _ = pidfd_send_signal(&process, Signal::TERM);
    }
}

/// Waits until a node's init has ended; one that does not is for the sweep.
pub(crate) fn wait_for_end(place: &NodePlace) {
    let deadline = Instant::now() + END_TIME;
    while let Some(pid) = init_of(place)
        && test_kill_process(pid).is_ok()
        && Instant::now() < deadline
    {
        thread::sleep(LOOK_EVERY);
    }
}

/// Folders that the node's programs expect.
pub(crate) fn make_folders(place: &NodePlace) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt as _;
    for folder in place.folders() {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&folder);
        made.map_err(FileError::of("make", &folder))?;
    }
    Ok(())
}

/// Writes a file if it says something else; so a second `up` changes nothing.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> Result<(), FileError> {
    match fs::read(path) {
        Ok(there) if there == text.as_bytes() => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::of("read", path)(error));
        }
        _ => {}
    }
    let beside = path.with_extension("new");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(FileError::of("write", path))
}
