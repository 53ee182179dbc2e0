//! Commands over SSH.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::link::{Hold, Pool, Purpose, Session, WINDOW};
use crate::command::{Command, Exit, Size, Terminal};
use crate::error::{BoxError, ExecutorError, FailureClass, Operation};
use crate::linger::{Grant, Linger};
use crate::local::late;
use crate::running::{Attached, Chunk, Driver, Running, attached, running};
use crate::script::{self, Heading, LAUNCHER, NotStarted, Script, Started, quote};

/// Output that is still on its way when a command has ended comes sooner and faster than this over any connection that is worth
/// the name; and more than the windows at both ends is not on its way.
const LINGER: Grant = Grant {
    silence: Duration::from_secs(2),
    whole: Duration::from_secs(5),
    bytes_per_second: Some(16 * 1024),
    bytes: 2 * WINDOW as u64,
};

/// How long killing may take.
const KILLING: Duration = Duration::from_secs(10);

/// Why a command has timed out of which nothing was heard.
const NOT_STARTED: &str = "it had not even started";

/// The number that SSH gives to standard error.
const STDERR: u32 = 1;

pub(super) async fn run(pool: &Arc<Pool>, command: &Command) -> Result<Running, ExecutorError> {
    let script = Script::new(command)?;
    let failed = failure(Operation::Run, command);
    let open = async {
        let mut remote = Remote::open(pool, command).await?;
        let sent = remote.write.exec(true, LAUNCHER).await;
        sent.map_err(|source| failed(FailureClass::Interrupted, source.into()))?;
        accepted(&mut remote.read, &failed).await?;
        Ok::<_, ExecutorError>(remote)
    };
    let mut clock = Box::pin(late(command.timeout));
    let remote = tokio::select! {
        opened = open => opened?,
        () = &mut clock => return Err(failed(FailureClass::TimedOut, NOT_STARTED.into())),
    };
    let (running, driver) = running(command.object(), command.input);
    let (tell, told) = oneshot::channel();
    let gone = failed(FailureClass::Interrupted, "nobody drives it".into());
    let begin = Begin {
        script,
        failed,
        clock,
        tell,
        timeout: command.timeout,
    };
    tokio::spawn(remote.run(begin, driver));
    told.await.unwrap_or(Err(gone))?;
    Ok(running)
}

pub(super) async fn attach(
    pool: &Arc<Pool>,
    command: Option<&Command>,
    terminal: &Terminal,
) -> Result<Attached, ExecutorError> {
    let shell = Command::new("login shell");
    let failed = failure(Operation::Attach, command.unwrap_or(&shell));
    let script = command.map(Script::new).transpose()?;
    let mut remote = Remote::open(pool, command.unwrap_or(&shell)).await?;
    let Size { columns, rows } = terminal.size;
    let (columns, rows) = (columns.into(), rows.into());
    let asked = remote
        .write
        .request_pty(true, &terminal.kind, columns, rows, 0, 0, &[])
        .await;
    asked.map_err(|source| failed(FailureClass::Interrupted, source.into()))?;
    accepted(&mut remote.read, &failed).await?;
    let asked = match &script {
        Some(script) => {
            let words = script.words().map(|word| quote(&word));
            let line = [b"exec ".as_slice(), &words.join(&b' ')].concat();
            remote.write.exec(true, line).await
        }
        None => remote.write.request_shell(true).await,
    };
    asked.map_err(|source| failed(FailureClass::Interrupted, source.into()))?;
    accepted(&mut remote.read, &failed).await?;
    let rest = match &script {
        Some(script) => remote.begun(&mut script.heading(), &failed).await?,
        None => Bytes::new(),
    };
    let (attached, driver) = attached(remote.object.clone(), terminal.size);
    driver.begin_with(rest);
    let timeout = command.and_then(|it| it.timeout);
    tokio::spawn(remote.drive(driver, timeout));
    Ok(attached)
}

fn failure(
    operation: Operation,
    command: &Command,
) -> impl Fn(FailureClass, BoxError) -> ExecutorError + use<> {
    let object = command.object();
    move |class, source| ExecutorError::new(operation, &object, class, source)
}

/// Waits until the server has agreed to a request.
async fn accepted(
    read: &mut ChannelReadHalf,
    failed: impl Fn(FailureClass, BoxError) -> ExecutorError,
) -> Result<(), ExecutorError> {
    loop {
        match read.wait().await {
            Some(ChannelMsg::Success) => return Ok(()),
            Some(ChannelMsg::Failure) => {
                let why = "the server does not allow it";
                return Err(failed(FailureClass::Refused, why.into()));
            }
            Some(ChannelMsg::Close) | None => {
                let why = "the connection was closed";
                return Err(failed(FailureClass::Interrupted, why.into()));
            }
            Some(_) => {}
        }
    }
}

/// A command that runs in the machine, or is about to.
struct Remote {
    pool: Arc<Pool>,
    hold: Hold,
    read: ChannelReadHalf,
    write: ChannelWriteHalf<Msg>,
    /// What it runs as; nothing when a login shell was asked for, which does not tell.
    process: Option<i32>,
    /// For whom it was started, if that is not who logged in.
    user: Option<String>,
    /// How it ended, if the server told that before its output: it waits for processes and reads their output on its own time.
    exit: Option<Exit>,
    object: String,
}

/// A command that is to begin in a machine whose shell waits for it.
struct Begin<F, C> {
    script: Script,
    failed: F,
    /// Ends when the command is late.
    clock: C,
    /// Whoever asked for it, and may give up.
    tell: oneshot::Sender<Result<(), ExecutorError>>,
    timeout: Option<Duration>,
}

enum End {
    Unwanted,
    Late,
    Closed(Option<Exit>),
}

impl Remote {
    /// A channel on which nothing has been asked for.
    async fn open(pool: &Arc<Pool>, command: &Command) -> Result<Self, ExecutorError> {
        let Session { channel, hold } = pool.session(Purpose::Commands).await?;
        let (read, write) = channel.split();
        Ok(Self {
            pool: Arc::clone(pool),
            hold,
            read,
            write,
            process: None,
            user: command.user.clone(),
            exit: None,
            object: command.object(),
        })
    }

    /// Waits for the answer of the script, and gives the first of the command's output.
    async fn begun(
        &mut self,
        heading: &mut Heading,
        failed: impl Fn(FailureClass, BoxError) -> ExecutorError,
    ) -> Result<Bytes, ExecutorError> {
        loop {
            let message = self.read.wait().await;
            if let Some(exit) = message.as_ref().and_then(exit_of) {
                self.exit = Some(exit);
                continue;
            }
            let data = match message {
                Some(ChannelMsg::Data { data }) => data,
                Some(ChannelMsg::Close) | None if self.exit.is_some() => {
                    let why = NotStarted::Answer;
                    return Err(failed(why.class(), why.into()));
                }
                Some(ChannelMsg::Close) | None => {
                    let why = "the connection was closed";
                    return Err(failed(FailureClass::Interrupted, why.into()));
                }
                Some(_) => continue,
            };
            match heading.take(&data) {
                Some((Started::Process(process), rest)) => {
                    self.process = Some(process);
                    return Ok(rest);
                }
                Some((Started::Not(why), _)) => {
                    return Err(failed(why.class(), why.into()));
                }
                None => {}
            }
        }
    }

    /// Sends the script, tells whether the command has begun, and sees it to its end. That is a task from here on: a machine may
    /// begin with what whoever asked for it has given up.
    async fn run<F, C>(mut self, begin: Begin<F, C>, driver: Driver)
    where
        F: Fn(FailureClass, BoxError) -> ExecutorError,
        C: Future<Output = ()>,
    {
        let Begin {
            script,
            failed,
            clock,
            mut tell,
            timeout,
        } = begin;
        let mut heading = script.heading();
        let begun = async {
            let sent = self.write.data_bytes(script.line()).await;
            sent.map_err(|source| failed(FailureClass::Interrupted, source.into()))?;
            self.begun(&mut heading, &failed).await
        };
        let begun = tokio::select! {
            begun = begun => begun,
            () = clock => {
                // Nobody may be waiting any more, here and below.
                let _ = tell.send(Err(failed(FailureClass::TimedOut, NOT_STARTED.into())));
                return self.give_up(heading, failed).await;
            }
            () = tell.closed() => return self.give_up(heading, failed).await,
        };
        match begun {
            Ok(rest) => {
                driver.begin_with(rest);
                let _ = tell.send(Ok(()));
                self.drive(driver, timeout).await;
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        }
    }

    /// Kills what may have begun, or is about to.
    async fn give_up(
        mut self,
        mut heading: Heading,
        failed: impl Fn(FailureClass, BoxError) -> ExecutorError,
    ) {
        let kill = async {
            // One that has not begun need not be killed: a shell without input ends.
            if self.begun(&mut heading, failed).await.is_ok() {
                self.kill().await?;
            }
            Ok::<_, ExecutorError>(())
        };
        let killed = tokio::time::timeout(KILLING, kill).await;
        if !matches!(killed, Ok(Ok(()))) {
            self.warn();
        }
        // The machine may be gone.
        let _ = self.write.close().await;
    }

    fn warn(&self) {
        tracing::warn!(command = %self.object, machine = %self.pool.object(),
            "cannot kill a command: the machine does not answer");
    }

    async fn drive(mut self, driver: Driver, timeout: Option<Duration>) {
        let Driver {
            stdin,
            output,
            exit,
            unwanted,
            size,
        } = driver;
        let end = {
            let write = &self.write;
            let feed = async {
                feed(stdin, write).await;
                std::future::pending().await
            };
            tokio::select! {
                biased;
                () = unwanted.cancelled() => End::Unwanted,
                () = late(timeout) => End::Late,
                exit = pump(&mut self.read, &output, self.exit.take()) => End::Closed(exit),
                never = feed => never,
                never = resize(size, write) => never,
            }
        };
        drop(output);
        let failed = |class, why: &'static str| {
            Err(ExecutorError::new(Operation::Run, &self.object, class, why))
        };
        let kill = matches!(end, End::Unwanted | End::Late);
        let answer = match end {
            End::Closed(Some(exit)) => Ok(exit),
            End::Closed(None) => {
                let why = "the machine closed the connection before it said how it ended";
                failed(FailureClass::Interrupted, why)
            }
            End::Unwanted | End::Late => {
                failed(FailureClass::TimedOut, "it was killed with its group")
            }
        };
        if kill {
            let killed = tokio::time::timeout(KILLING, self.kill()).await;
            if !matches!(killed, Ok(Ok(()))) {
                self.warn();
            }
        }
        // The machine may be gone, and nobody may be waiting.
        let _ = self.write.close().await;
        let _ = exit.send(answer);
    }

    /// Kills the command. What it writes meanwhile is read, since the answer comes over the same connection.
    async fn kill(&mut self) -> Result<(), ExecutorError> {
        let Some(process) = self.process else {
            // A terminal hangs up when its channel is closed.
            return Ok(());
        };
        let (pool, hold, user) = (&self.pool, &self.hold, self.user.as_deref());
        let kill = async {
            let mut channel = pool.spare_session(hold).await?;
            let words = script::kill(process, user);
            let words = std::iter::once(&words.program).chain(&words.args);
            let line: Vec<Vec<u8>> = words.map(|word| quote(word.as_encoded_bytes())).collect();
            let sent = channel.exec(true, line.join(&b' ')).await;
            let failed = |source| {
                let class = FailureClass::Interrupted;
                ExecutorError::new(Operation::Run, "kill", class, source)
            };
            sent.map_err(failed)?;
            while channel.wait().await.is_some() {}
            Ok(())
        };
        let drain = async {
            while self.read.wait().await.is_some() {}
            std::future::pending().await
        };
        tokio::select! {
            killed = kill => killed,
            never = drain => never,
        }
    }
}

async fn feed(mut stdin: mpsc::Receiver<Bytes>, write: &ChannelWriteHalf<Msg>) {
    while let Some(bytes) = stdin.recv().await {
        if write.data_bytes(bytes).await.is_err() {
            return;
        }
    }
    // A machine that is gone needs no end of input.
    let _ = write.eof().await;
}

async fn resize<T>(mut size: watch::Receiver<Size>, write: &ChannelWriteHalf<Msg>) -> T {
    while size.changed().await.is_ok() {
        let Size { columns, rows } = *size.borrow_and_update();
        // A terminal that is closed has no size.
        let _ = write.window_change(columns.into(), rows.into(), 0, 0).await;
    }
    std::future::pending().await
}

/// How a command ended, if a message says so.
fn exit_of(message: &ChannelMsg) -> Option<Exit> {
    match message {
        // Codes are bytes; what is none is as good as any other failure.
        ChannelMsg::ExitStatus { exit_status } => {
            Some(Exit::Code(i32::try_from(*exit_status).unwrap_or(255)))
        }
        ChannelMsg::ExitSignal { signal_name, .. } => Some(Exit::Signal(name_of(signal_name))),
        _ => None,
    }
}

/// Reads output until the channel is closed, or enough was waited for after the command has ended. Answers how it ended, which may
/// be known already.
async fn pump(
    read: &mut ChannelReadHalf,
    output: &mpsc::Sender<Chunk>,
    known: Option<Exit>,
) -> Option<Exit> {
    let mut exit = known;
    let mut linger = Linger::new(LINGER);
    loop {
        let (has_ended, since, most) = (exit.is_some(), Instant::now(), linger.next());
        let message = match has_ended {
            false => read.wait().await,
            true if most.is_zero() => return exit,
            true => match tokio::time::timeout(most, read.wait()).await {
                Ok(message) => message,
                Err(_) => return exit,
            },
        };
        if let Some(told) = message.as_ref().and_then(exit_of) {
            exit = Some(told);
            continue;
        }
        let chunk = match message {
            Some(ChannelMsg::Data { data }) => Chunk::Stdout(data),
            Some(ChannelMsg::ExtendedData { data, ext: STDERR }) => Chunk::Stderr(data),
            Some(ChannelMsg::Close) | None => return exit,
            Some(_) => continue,
        };
        if has_ended {
            linger.took(since.elapsed(), chunk.bytes().len());
        }
        // Whoever does not want the output any more wants the end of the command.
        let _ = output.send(chunk).await;
    }
}

fn name_of(signal: &Sig) -> String {
    let name = match signal {
        Sig::ABRT => "ABRT",
        Sig::ALRM => "ALRM",
        Sig::FPE => "FPE",
        Sig::HUP => "HUP",
        Sig::ILL => "ILL",
        Sig::INT => "INT",
        Sig::KILL => "KILL",
        Sig::PIPE => "PIPE",
        Sig::QUIT => "QUIT",
        Sig::SEGV => "SEGV",
        Sig::TERM => "TERM",
        Sig::USR1 => "USR1",
        Sig::Custom(name) => name,
    };
    name.to_owned()
}
