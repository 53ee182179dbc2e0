//! rsync through an executor: the program here talks to the one in the machine over a command that the executor runs, so that
//! there is one connection, one host key and one login for everything.
//!
//! rsync starts what it is told to be the remote shell. That is a line of shell here: it says on one pipe what rsync wants to
//! run, then joins rsync to both pipes. This side reads the line, runs it in the machine, and carries bytes.
//!
//! A download believes rsync here that nothing the machine says leads out of the target folder. Releases before 3.4 are known
//! not to keep that, so that they are not asked: then files are copied one by one, which the kernel watches.

mod said;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::command::Command;
use crate::error::{BoxError, ExecutorError, FailureClass, Operation};
use crate::executor::Executor;
use crate::running::{Chunk, Running, Stdin};
use crate::transfer::plan::{PART, PART_DIGITS, RSYNC_PARTS};
use crate::transfer::{Direction, Patience, Report, Transfer, WithoutRsync};

use self::said::Said;

/// What rsync takes for a remote shell. It has our pipes as 3 and 4; its first argument is the host's name. What a shell runs
/// in the background has no input unless it is given some.
const SHELL: &str = r#"sh -c 'printf "%s\n" "$*" >&4; exec 5<&0; cat <&5 >&4 & exec cat <&3'"#;

/// Moves our pipes where rsync leaves them alone. What it says and what it complains about come by one.
const STARTER: &str = r#"exec 3<&0 4>&1 </dev/null >&2; exec "$@""#;

/// The longest line by which rsync may say what it wants to run.
const MOST_LINE: u64 = 64 * 1024;

/// How much of what the machine's side complains about is kept.
const MOST_COMPLAINTS: usize = 4096;

/// So many bytes are more than what rsync needs to begin, so that something of files was among them.
const MUCH: u64 = 1 << 20;

/// How often in a row that is believed if rsync itself has not said that it got on: lists of files are long, too.
const MOST_UNSEEN: u32 = 20;

/// The first release that lets no machine write outside of the target.
const SAFE_TO_RECEIVE: (u32, u32) = (3, 4);

/// Makes two folders the same: with rsync if both sides have it, by copying otherwise.
pub(crate) async fn sync(
    executor: &dyn Executor,
    transfer: &Transfer,
) -> Result<Report, ExecutorError> {
    let without = match ways(executor, transfer).await? {
        Ways::Rsync => None,
        Ways::Copy(without) => Some(without),
    };
    if let Some(without_rsync) = without {
        let copied = executor.copy(transfer).await?;
        return Ok(Report {
            without_rsync,
            ..copied
        });
    }
    // A folder that is to be filled has to be there with all above it.
    match transfer.direction {
        Direction::Up => {
            let folder = executor.files(&transfer.remote).await?;
            let root = crate::files::Change::Folder(crate::files::RelPath::root());
            folder.change(&[root]).await?;
        }
        Direction::Down => {
            let made = tokio::fs::create_dir_all(&transfer.local).await;
            made.map_err(|source| failed(transfer, FailureClass::Io, source.into()))?;
        }
    }
    // What came over before a connection was lost is used again.
    let mut patience = Patience::new(transfer.patience);
    let mut unseen = 0;
    let mut report = Report {
        rsync: true,
        ..Report::default()
    };
    loop {
        let (mut said, carried) = (Said::default(), AtomicU64::new(0));
        let ended = run(executor, transfer, &mut said, &carried).await;
        let carried = carried.into_inner();
        report.bytes += carried;
        said.add_to(&mut report);
        match ended {
            Ok(()) => return Ok(report),
            Err(failure) => {
                // rsync says once in a second how far it is.
                unseen = match said.is_progress() {
                    true => 0,
                    false => unseen + 1,
                };
                let is_progress = unseen == 0 || (carried >= MUCH && unseen <= MOST_UNSEEN);
                // An rsync that dies of itself in the machine may do so for ever, however much it does before.
                if failure.is_connection && is_progress {
                    patience.renew();
                }
                patience.endure(failure.error).await?;
            }
        }
    }
}

/// Why an attempt failed.
struct Failure {
    error: ExecutorError,
    /// Whether it was the connection that failed, and not rsync.
    is_connection: bool,
}

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        let is_connection = error.class.is_retryable();
        Self {
            error,
            is_connection,
        }
    }
}

/// The release of an rsync, of what it answers to `--version`.
fn release(answer: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(answer.split(|&byte| byte == b'\n').next()?).ok()?;
    let mut words = text.split_ascii_whitespace();
    words.find(|&it| it == "version")?;
    // Some builds have a `v` before the number.
    let mut numbers = words.next()?.trim_start_matches('v').split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// How two folders can be made the same.
enum Ways {
    Rsync,
    /// Without it, and why, unless rsync is not for that at all.
    Copy(Option<WithoutRsync>),
}

/// rsync is for folders; both sides must have it.
async fn ways(executor: &dyn Executor, transfer: &Transfer) -> Result<Ways, ExecutorError> {
    let is_folder = match transfer.direction {
        Direction::Up => transfer.local.is_dir(),
        Direction::Down => {
            let files = executor.files(&transfer.remote).await?;
            let root = files.look(&crate::files::RelPath::root()).await?;
            root.is_some_and(|it| it.is_folder())
        }
    };
    if !is_folder {
        return Ok(Ways::Copy(None));
    }
    let here = tokio::process::Command::new("rsync")
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .await;
    let here = here.ok().filter(|it| it.status.success());
    if let Some(without) = unfit(here.as_ref().map(|it| &*it.stdout), transfer.direction) {
        return Ok(Ways::Copy(Some(without)));
    }
    let there = match executor.run(&Command::new("rsync").arg("--version")).await {
        Ok(running) => running.wait().await?.is_success(),
        Err(error) if error.class.is_not_started() => false,
        Err(error) => return Err(error),
    };
    Ok(match there {
        true => Ways::Rsync,
        false => Ways::Copy(Some(WithoutRsync::There)),
    })
}

/// Why the rsync here is not asked, of what it answers to `--version` if there is one.
fn unfit(answer: Option<&[u8]>, direction: Direction) -> Option<WithoutRsync> {
    let Some(answer) = answer else {
        return Some(WithoutRsync::Here);
    };
    let is_safe = release(answer).is_some_and(|it| it >= SAFE_TO_RECEIVE);
    (direction == Direction::Down && !is_safe).then_some(WithoutRsync::Unsafe)
}

fn failed(transfer: &Transfer, class: FailureClass, source: BoxError) -> ExecutorError {
    let object = transfer.remote.display().to_string();
    ExecutorError::new(Operation::Copy, object, class, source)
}

/// A folder whose contents are meant, and nothing that looks like an option or a host.
fn folder(path: &Path) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    let start: &[u8] = if path.starts_with(b"/") { b"" } else { b"./" };
    [start, path, b"/"].concat()
}

fn start(transfer: &Transfer) -> std::io::Result<Child> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let remote = [b"machine:".as_slice(), &folder(&transfer.remote)].concat();
    let (remote, local) = (
        OsString::from_vec(remote),
        OsString::from_vec(folder(&transfer.local)),
    );
    let (from, to) = match transfer.direction {
        Direction::Up => (local, remote),
        Direction::Down => (remote, local),
    };
    let mut rsync = tokio::process::Command::new("sh");
    rsync.args(["-c", STARTER, "sh", "rsync", "-rlpt", "--secluded-args"]);
    // Nobody becomes somebody else by a copied file.
    rsync.args(["--chmod=ug-s", "--rsh", SHELL]);
    // What is cut never has the name of the file that it is to be, and nothing of that kind is anybody's file. In a folder that
    // goes it goes too.
    rsync.arg(format!("--partial-dir={RSYNC_PARTS}"));
    // rsync itself leaves only folders of that name out: a link of that name would lead what is cut elsewhere.
    rsync.arg(format!("--filter=-p {RSYNC_PARTS}"));
    rsync.arg(format!(
        "--filter=-p {PART}{}",
        "[0-9a-f]".repeat(PART_DIGITS)
    ));
    // Without this the output of the shell does not block, and a program in it fails when rsync is slower than the machine.
    rsync.arg("--blocking-io");
    // A file that changed twice within a second changed too: times are compared to the nanosecond.
    rsync.arg("--modify-window=-1");
    rsync.args(transfer.delete.then_some("--delete"));
    rsync.args(transfer.checksum.then_some("--checksum"));
    // What it says can be read by a program.
    rsync.args(["--info=progress2,nonreg1", "--no-human-readable"]);
    rsync.args(["--outbuf=L", said::FORMAT]).env("LC_ALL", "C");
    rsync
        .arg("--")
        .args([from, to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

async fn run(
    executor: &dyn Executor,
    transfer: &Transfer,
    said: &mut Said,
    carried: &AtomicU64,
) -> Result<(), Failure> {
    let io = |source: std::io::Error| failed(transfer, FailureClass::Io, source.into());
    let mut rsync = start(transfer).map_err(io)?;
    let pipes = (rsync.stdin.take(), rsync.stdout.take(), rsync.stderr.take());
    let (Some(to_rsync), Some(from_rsync), Some(mut words)) = pipes else {
        return Err(io(std::io::Error::other("a pipe is missing")).into());
    };
    let mut from_rsync = BufReader::with_capacity(64 * 1024, from_rsync);
    let listen = async {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = words.read(&mut buffer).await {
            said.hear(&buffer[..length]);
            said.show(transfer.progress.as_ref());
        }
        said.end();
        said.show(transfer.progress.as_ref());
    };
    let carry = async {
        let mut line = Vec::new();
        let mut limited = (&mut from_rsync).take(MOST_LINE);
        let read = limited.read_until(b'\n', &mut line).await;
        read.map_err(io)?;
        // rsync may have failed before it wanted anything.
        if line.pop() != Some(b'\n') {
            return Ok(Vec::new());
        }
        let script = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&line);
        let mut running = executor.run(&Command::shell(script).input()).await?;
        let stdin = running.stdin();
        carry(running, stdin, from_rsync, to_rsync, carried).await
    };
    let (theirs, ()) = tokio::join!(carry, listen);
    let theirs = theirs?;
    let status = rsync.wait().await.map_err(io)?;
    if status.success() {
        return Ok(());
    }
    let words = [said.complaints.as_slice(), &theirs].concat();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    // These say that the other side went away, or that this side will not have what it says.
    let class = match status.code() {
        Some(10 | 12 | 30 | 35) => FailureClass::Interrupted,
        Some(2 | 4) => FailureClass::Refused,
        _ => FailureClass::Io,
    };
    let why = format!("rsync ended with {status}: {words}");
    Err(Failure {
        error: failed(transfer, class, why.into()),
        is_connection: false,
    })
}

/// Carries bytes both ways until the machine's side has ended, and counts them. Answers what it complained about.
async fn carry(
    mut running: Running,
    stdin: Option<Stdin>,
    mut from_rsync: BufReader<ChildStdout>,
    mut to_rsync: ChildStdin,
    carried: &AtomicU64,
) -> Result<Vec<u8>, ExecutorError> {
    let up = async {
        let mut buffer = BytesMut::new();
        while let Some(stdin) = &stdin {
            buffer.reserve(64 * 1024);
            match from_rsync.read_buf(&mut buffer).await {
                Ok(length @ 1..) => carried.fetch_add(length as u64, Ordering::Relaxed),
                _ => break,
            };
            if stdin.write(buffer.split().freeze()).await.is_err() {
                break;
            }
        }
        // The machine's side ends when it has nothing more to read.
        drop(stdin);
        std::future::pending::<()>().await;
    };
    let mut complaints = Vec::new();
    let down = async {
        while let Some(chunk) = running.next().await {
            match chunk {
                Chunk::Stdout(bytes) => {
                    carried.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    // rsync may have ended; the machine's side will.
                    let _ = to_rsync.write_all(&bytes).await;
                }
                Chunk::Stderr(bytes) => {
                    let room = MOST_COMPLAINTS.saturating_sub(complaints.len());
                    complaints.extend_from_slice(&bytes[..room.min(bytes.len())]);
                }
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    drop(to_rsync);
    running.wait().await?;
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_an_rsync_is_read_from_its_answer() {
        let known: &[(&[u8], _)] = &[
            (
                b"rsync  version 3.5.0  protocol version 32\nCopyright",
                Some((3, 5)),
            ),
            (
                b"rsync  version v3.4.1-3  protocol version 32",
                Some((3, 4)),
            ),
            (b"rsync  version 3.2.7  protocol version 31", Some((3, 2))),
            (b"openrsync: protocol version 29", None),
            (b"", None),
            (b"\xff\xfe", None),
        ];
        for (answer, expected) in known {
            assert_eq!(release(answer), *expected, "{answer:?}");
        }
    }

    #[test]
    fn an_rsync_that_believes_machines_is_asked_for_uploads_only() {
        let (old, new): (&[u8], &[u8]) = (b"rsync  version 3.2.7  x", b"rsync  version 3.4.0  x");
        assert_eq!(unfit(Some(old), Direction::Up), None);
        assert_eq!(
            unfit(Some(old), Direction::Down),
            Some(WithoutRsync::Unsafe)
        );
        assert_eq!(unfit(Some(new), Direction::Down), None);
        for direction in [Direction::Up, Direction::Down] {
            assert_eq!(unfit(None, direction), Some(WithoutRsync::Here));
        }
    }
}
