//! Processes of this machine, each the leader of a group of its own.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Exit};
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::running::{Chunk, Driver, Running, running};
use crate::script::{Heading, NotStarted, READER, Script, Started};
use crate::signal::signal_name;

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// What a command left behind may hold its output open; after this much silence it is not waited for.
const LINGER: Duration = Duration::from_millis(500);

pub(super) async fn run(command: &Command) -> Result<Running, ExecutorError> {
    let script = Script::new(command)?;
    let class = FailureClass::NotStarted;
    let failed = |source: std::io::Error| {
        ExecutorError::new(Operation::Run, command.object(), class, source)
    };
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) = taken else {
        return Err(failed(std::io::Error::other("a pipe is missing")));
    };
    stdin.write_all(&script.line()).await.map_err(failed)?;
    let stdin = command.input.then_some(stdin);
    let not_started =
        |why: NotStarted| ExecutorError::new(Operation::Run, command.object(), why.class(), why);
    let rest = begun(&mut stdout, script.heading())
        .await
        .map_err(not_started)?;
    let (running, driver) = running(command.object(), command.input);
    let process = Process {
        object: command.object(),
        child,
        timeout: command.timeout,
    };
    driver.begin_with(rest);
    tokio::spawn(process.drive(stdin, stdout, Some(stderr), driver));
    Ok(running)
}

/// Waits for the answer of the script, and gives the first of the command's output.
pub(super) async fn begun(
    from: &mut (impl AsyncRead + Unpin),
    mut heading: Heading,
) -> Result<Bytes, NotStarted> {
    let mut buffer = BytesMut::with_capacity(PIECE);
    loop {
        buffer.clear();
        // A terminal whose shell has ended gives an error.
        if !matches!(from.read_buf(&mut buffer).await, Ok(1..)) {
            return Err(NotStarted::Answer);
        }
        match heading.take(&buffer) {
            Some((Started::Process(_), rest)) => return Ok(rest),
            Some((Started::Not(why), _)) => return Err(why),
            None => {}
        }
    }
}

/// A process that runs.
pub(super) struct Process {
    pub(super) object: String,
    pub(super) child: Child,
    pub(super) timeout: Option<Duration>,
}

impl Process {
    /// Carries input and output until the process has ended, and kills its group when it takes too long or is not wanted.
    pub(super) async fn drive(
        mut self,
        stdin: Option<impl AsyncWrite + Unpin>,
        stdout: impl AsyncRead + Unpin,
        stderr: Option<impl AsyncRead + Unpin>,
        driver: Driver,
    ) {
        let Driver {
            stdin: input,
            output,
            exit,
            unwanted,
            ..
        } = driver;
        let group = self.child.id();
        let ended = CancellationToken::new();
        let end = {
            let feed = feed(input, stdin);
            let out = pump(stdout, &output, Chunk::Stdout, &ended);
            let err = async {
                if let Some(stderr) = stderr {
                    pump(stderr, &output, Chunk::Stderr, &ended).await;
                }
            };
            let pumps = async { tokio::join!(out, err) };
            let status = async {
                let status = self.child.wait().await;
                ended.cancel();
                status
            };
            let whole = async { tokio::join!(status, pumps).0 };
            // Input may be left over when all else has ended.
            let fed = async {
                feed.await;
                std::future::pending().await
            };
            tokio::select! {
                biased;
                () = unwanted.cancelled() => End::Unwanted,
                () = late(self.timeout) => End::Late,
                status = whole => End::Status(status),
                never = fed => never,
            }
        };
        drop(output);
        let answer = match end {
            End::Status(status) => status.map(exit_of).map_err(|source| {
                let class = FailureClass::Interrupted;
                ExecutorError::new(Operation::Run, &self.object, class, source)
            }),
            End::Unwanted | End::Late => {
                kill_group(group);
                // It has been killed; there is nobody else to tell.
                let _ = self.child.wait().await;
                let (class, why) = (FailureClass::TimedOut, "it was killed with its group");
                Err(ExecutorError::new(Operation::Run, &self.object, class, why))
            }
        };
        // Nobody may be waiting.
        let _ = exit.send(answer);
    }
}

enum End {
    Unwanted,
    Late,
    Status(std::io::Result<ExitStatus>),
}

/// Comes when the time is over, if there is a limit.
pub(crate) async fn late(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Writes input until it ends, or nobody reads it.
async fn feed(mut input: mpsc::Receiver<Bytes>, stdin: Option<impl AsyncWrite + Unpin>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = input.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            break;
        }
    }
}

/// Reads output until it ends, or is silent for a while after the process has ended.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: &mpsc::Sender<Chunk>,
    wrap: fn(Bytes) -> Chunk,
    ended: &CancellationToken,
) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        let quiet = async {
            ended.cancelled().await;
            tokio::time::sleep(LINGER).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read_buf(&mut buffer) => read,
            () = quiet => break,
        };
        // A terminal that is closed gives an error.
        if !matches!(read, Ok(1..)) || to.send(wrap(buffer.split().freeze())).await.is_err() {
            break;
        }
    }
}

fn kill_group(leader: Option<u32>) {
    let leader = leader.and_then(|it| i32::try_from(it).ok());
    if let Some(leader) = leader.and_then(Pid::from_raw) {
        // Whoever has ended already need not be killed.
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(name_of(signal.unwrap_or(0))),
    }
}

/// A signal that has no name is called by its number.
fn name_of(signal: i32) -> String {
    signal_name(signal).map_or_else(|| signal.to_string(), ToOwned::to_owned)
}
