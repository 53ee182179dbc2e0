//! Processes of this machine, each the leader of a group of its own.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Exit};
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::linger::{Grant, Linger};
use crate::running::{Chunk, Driver, Running, running};
use crate::script::{self, Heading, NotStarted, READER, Script, Started};
use crate::signal::signal_name;

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// What the command itself wrote is in a pipe already when it has ended, and no pipe holds so much.
const LINGER: Grant = Grant {
    silence: Duration::from_millis(500),
    whole: Duration::from_secs(2),
    bytes_per_second: None,
    bytes: 8 * 1024 * 1024,
};

/// How long killing may take. What `sudo` made belongs to others, and whether they may be killed is theirs to say.
const KILLING: Duration = Duration::from_secs(10);

pub(super) async fn run(command: &Command) -> Result<Running, ExecutorError> {
    let script = Script::new(command)?;
    let failed = |source: std::io::Error| {
        let class = FailureClass::NotStarted;
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
    let process = Process::new(Operation::Run, command, child);
    let (running, driver) = running(command.object(), command.input);
    let input = command.input;
    process
        .start(async move |process, begin| {
            let heading = async {
                // A shell that does not read it does not answer either.
                let _ = stdin.write_all(&script.line()).await;
                begun(&mut stdout, script.heading()).await
            };
            let Some((process, rest)) = process.begin(heading, begin).await else {
                return;
            };
            driver.begin_with(rest);
            let stdin = input.then_some(stdin);
            process.drive(stdin, stdout, Some(stderr), driver).await;
        })
        .await?;
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

/// Whoever asked for a process, and may give up.
pub(super) type Tell = oneshot::Sender<Result<(), ExecutorError>>;

/// A process that runs, or is about to.
pub(super) struct Process {
    operation: Operation,
    object: String,
    child: Child,
    /// The group that it leads, also when it has ended.
    group: Option<i32>,
    /// For whom it was started, if that is not who started it.
    user: Option<String>,
    timeout: Option<Duration>,
}

impl Process {
    pub(super) fn new(operation: Operation, command: &Command, child: Child) -> Self {
        let group = child.id().and_then(|it| i32::try_from(it).ok());
        Self {
            operation,
            object: command.object(),
            child,
            group,
            user: command.user.clone(),
            timeout: command.timeout,
        }
    }

    fn error(&self, class: FailureClass, source: impl Into<crate::BoxError>) -> ExecutorError {
        ExecutorError::new(self.operation, &self.object, class, source)
    }

    /// Has a task see to the process from here on, and waits until it tells that the command has begun. Whoever gives up waiting
    /// leaves no command behind: one of another user's does not end with this value.
    pub(super) async fn start<F>(
        self,
        see_to: impl FnOnce(Self, Tell) -> F,
    ) -> Result<(), ExecutorError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let gone = self.error(FailureClass::Interrupted, "nobody drives it");
        let (tell, told) = oneshot::channel();
        tokio::spawn(see_to(self, tell));
        told.await.unwrap_or(Err(gone))
    }

    /// Tells whether the command has begun. Gives nothing back when it has not, or nobody wants it any more.
    pub(super) async fn begin(
        mut self,
        heading: impl Future<Output = Result<Bytes, NotStarted>>,
        mut tell: Tell,
    ) -> Option<(Self, Bytes)> {
        let answer = tokio::select! {
            biased;
            () = tell.closed() => None,
            () = late(self.timeout) => {
                Some(Err(self.error(FailureClass::TimedOut, "it had not even started")))
            }
            begun = heading => Some(begun.map_err(|why| self.error(why.class(), why))),
        };
        let (told, rest) = match answer {
            Some(Ok(rest)) => (tell.send(Ok(())).is_ok(), rest),
            Some(Err(error)) => {
                // Whoever has given up meanwhile cannot be told.
                let _ = tell.send(Err(error));
                (false, Bytes::new())
            }
            None => (false, Bytes::new()),
        };
        if told {
            return Some((self, rest));
        }
        self.end().await;
        None
    }

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
            End::Status(status) => status
                .map(exit_of)
                .map_err(|source| self.error(FailureClass::Interrupted, source)),
            End::Unwanted | End::Late => {
                let why = match self.end().await {
                    true => "it was killed with its group",
                    false => "it could not be killed, and may still run",
                };
                Err(self.error(FailureClass::TimedOut, why))
            }
        };
        // Nobody may be waiting.
        let _ = exit.send(answer);
    }

    /// Kills the process with its group, and answers whether it has ended. One that cannot be killed is left alone.
    async fn end(&mut self) -> bool {
        kill_group(self.group);
        let end = async {
            // Killing succeeds when one of a group may be killed, and says nothing of those whom `sudo` made.
            if let Some(group) = self.group
                && !rustix::process::geteuid().is_root()
            {
                kill_others(group, self.user.as_deref()).await;
            }
            // It has been killed; there is nobody else to tell.
            let _ = self.child.wait().await;
        };
        let ended = tokio::time::timeout(KILLING, end).await.is_ok();
        if !ended {
            tracing::warn!(command = %self.object, process = ?self.group,
                "cannot kill a command: it belongs to a user who is out of reach");
        }
        ended
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

/// Reads output until it ends, or enough was waited for after the process has ended.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: &mpsc::Sender<Chunk>,
    wrap: fn(Bytes) -> Chunk,
    ended: &CancellationToken,
) {
    let mut buffer = BytesMut::new();
    let mut linger = Linger::new(LINGER);
    loop {
        buffer.reserve(PIECE);
        let has_ended = ended.is_cancelled();
        let (since, most) = (Instant::now(), linger.next());
        if has_ended && most.is_zero() {
            break;
        }
        let quiet = async {
            ended.cancelled().await;
            tokio::time::sleep(most).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read_buf(&mut buffer) => read,
            () = quiet => break,
        };
        if has_ended {
            linger.took(since.elapsed(), buffer.len());
        }
        // A terminal that is closed gives an error.
        if !matches!(read, Ok(1..)) || to.send(wrap(buffer.split().freeze())).await.is_err() {
            break;
        }
    }
}

fn kill_group(leader: Option<i32>) {
    if let Some(leader) = leader.and_then(Pid::from_raw) {
        // Whoever has ended already need not be killed.
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// Kills those of a group who belong to somebody else.
async fn kill_others(group: i32, user: Option<&str>) {
    let Command { program, args, .. } = script::kill(group, user);
    let killed = tokio::process::Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .status();
    if let Err(error) = killed.await {
        tracing::warn!(%error, "cannot start what kills a command");
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
