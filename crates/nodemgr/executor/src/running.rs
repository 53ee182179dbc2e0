//! A command that runs, seen from here; and the other end, that an executor drives.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::command::{Exit, Size};
use crate::error::{ExecutorError, FailureClass, Operation};

/// How many pieces of output or input wait before the machine, or whoever writes, is held up.
const QUEUE: usize = 16;

/// The longest piece of input that is queued as one.
const PIECE: usize = 64 * 1024;

/// A piece of what a command wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// To its standard output.
    Stdout(Bytes),
    /// To its standard error.
    Stderr(Bytes),
}

impl Chunk {
    /// The bytes, wherever they were written to.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        let (Self::Stdout(bytes) | Self::Stderr(bytes)) = self;
        bytes
    }
}

/// What a command wrote, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than was kept.
    pub cut: bool,
}

/// What a command reads. Dropping it, and every clone, is the end of its input.
#[derive(Debug, Clone)]
pub struct Stdin(mpsc::Sender<Bytes>);

/// A command has ended, or reads nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the command reads no more input")]
pub struct InputClosed;

impl Stdin {
    /// Hands bytes over, and waits while the command is slow to read.
    ///
    /// # Errors
    /// When the command reads no more.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), InputClosed> {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.0.send(piece).await.map_err(|_| InputClosed)?;
        }
        Ok(())
    }
}

/// A command that runs in a machine. Dropping it kills the command, with every process of its group.
///
/// Output waits in a bounded queue: whoever does not read it holds the command up.
#[derive(Debug)]
pub struct Running {
    object: String,
    stdin: Option<Stdin>,
    output: mpsc::Receiver<Chunk>,
    exit: oneshot::Receiver<Result<Exit, ExecutorError>>,
    _alive: DropGuard,
}

impl Running {
    /// Its input, once, if it was started with input. Unless it is taken, the command waits for input until it is killed.
    pub fn stdin(&mut self) -> Option<Stdin> {
        self.stdin.take()
    }

    /// The next piece of output, in the order in which it came; none when all has been read.
    pub async fn next(&mut self) -> Option<Chunk> {
        self.output.recv().await
    }

    /// Drops what is left of the output and waits for the end. Input that was not taken ends.
    ///
    /// # Errors
    /// When the command took too long or the connection was lost.
    pub async fn wait(mut self) -> Result<Exit, ExecutorError> {
        self.stdin = None;
        while self.output.recv().await.is_some() {}
        self.end().await
    }

    /// Reads all output and waits for the end. Of each stream at most `limit` bytes are kept. Input that was not taken ends.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn output(mut self, limit: usize) -> Result<Output, ExecutorError> {
        self.stdin = None;
        let (mut stdout, mut stderr, mut cut) = (Vec::new(), Vec::new(), false);
        while let Some(chunk) = self.output.recv().await {
            let kept = match chunk {
                Chunk::Stdout(_) => &mut stdout,
                Chunk::Stderr(_) => &mut stderr,
            };
            let bytes = chunk.bytes();
            let room = limit.saturating_sub(kept.len()).min(bytes.len());
            cut |= room < bytes.len();
            kept.extend_from_slice(&bytes[..room]);
        }
        let exit = self.end().await?;
        Ok(Output {
            exit,
            stdout,
            stderr,
            cut,
        })
    }

    /// Kills the command, with every process of its group, and waits until that is done. A program that is about to end uses
    /// this, since what is dropped is killed by a task that ends with it.
    pub async fn kill(self) {
        let Self {
            output,
            exit,
            _alive: alive,
            ..
        } = self;
        drop((output, alive));
        // However it ended, it has.
        let _ = exit.await;
    }

    async fn end(self) -> Result<Exit, ExecutorError> {
        let gone = |_| {
            let source = "its executor ended before it did";
            let class = FailureClass::Interrupted;
            Err(ExecutorError::new(
                Operation::Run,
                self.object,
                class,
                source,
            ))
        };
        self.exit.await.unwrap_or_else(gone)
    }
}

/// A terminal in a machine. Dropping it hangs up.
#[derive(Debug)]
pub struct Attached {
    running: Running,
    size: Resizer,
}

/// Changes the size of a terminal.
#[derive(Debug, Clone)]
pub struct Resizer(watch::Sender<Size>);

impl Resizer {
    /// Tells the terminal that it has another size now.
    pub fn resize(&self, size: Size) {
        self.0.send_replace(size);
    }
}

impl Attached {
    /// What is typed, once.
    pub fn stdin(&mut self) -> Option<Stdin> {
        self.running.stdin()
    }

    /// The next piece of what appears; none when the terminal is closed.
    pub async fn next(&mut self) -> Option<Bytes> {
        let chunk = self.running.next().await?;
        Some(chunk.bytes().clone())
    }

    /// Changes its size.
    #[must_use]
    pub fn resizer(&self) -> Resizer {
        self.size.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the connection was lost.
    pub async fn wait(self) -> Result<Exit, ExecutorError> {
        self.running.wait().await
    }

    /// Hangs up, and waits until that is done, as [`Running::kill`].
    pub async fn kill(self) {
        self.running.kill().await;
    }
}

/// The executor's end of a [`Running`]: a task of the executor holds it and does what it says.
#[derive(Debug)]
pub struct Driver {
    /// What the command is to read; it ends when nobody will write any more.
    pub stdin: mpsc::Receiver<Bytes>,
    /// Where output goes. It is dropped when all output has been sent.
    pub output: mpsc::Sender<Chunk>,
    /// How it ended. Sent after `output` was dropped.
    pub exit: oneshot::Sender<Result<Exit, ExecutorError>>,
    /// Cancelled when nobody wants the command any more: it is to be killed.
    pub unwanted: CancellationToken,
    /// The size that the terminal is to have; the first value is what it starts with.
    pub size: watch::Receiver<Size>,
}

impl Driver {
    /// Passes on what came along with the answer that the command has started, before any other output.
    pub(crate) fn begin_with(&self, output: Bytes) {
        if !output.is_empty() {
            // The queue is empty, so there is room.
            let _ = self.output.try_send(Chunk::Stdout(output));
        }
    }
}

/// Both ends of a command that runs. `object` names it in errors; without `input` its input has ended already.
#[must_use]
pub fn running(object: String, input: bool) -> (Running, Driver) {
    let none = Size {
        columns: 0,
        rows: 0,
    };
    let (attached, driver) = attached(object, none);
    let mut running = attached.running;
    if !input {
        running.stdin = None;
    }
    (running, driver)
}

/// Both ends of a terminal.
#[must_use]
pub fn attached(object: String, size: Size) -> (Attached, Driver) {
    let (stdin_in, stdin) = mpsc::channel(QUEUE);
    let (output, output_out) = mpsc::channel(QUEUE);
    let (exit, exit_out) = oneshot::channel();
    let (size_in, size) = watch::channel(size);
    let unwanted = CancellationToken::new();
    let running = Running {
        object,
        stdin: Some(Stdin(stdin_in)),
        output: output_out,
        exit: exit_out,
        _alive: unwanted.clone().drop_guard(),
    };
    let driver = Driver {
        stdin,
        output,
        exit,
        unwanted,
        size,
    };
    let size = Resizer(size_in);
    (Attached { running, size }, driver)
}
