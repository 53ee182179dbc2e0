//! Commands of the configuration that run at a moment of provisioning.
//!
//! A hook is a program with arguments; no shell is involved. It gets
//! * the password of the request, and nothing else, on its standard input: arguments and environment
//!   are readable by other processes, a pipe is not;
//! * `PATH`, and `MUSTER_HOOK` with the hook's name; nothing else of the daemon's environment;
//! * `/` as its working directory and a process group of its own.
//!
//! It has to end with code 0 within the configured time. Otherwise the request fails, and the error
//! holds the end of what it printed, on both streams, up to [`SHOWN`] bytes. A hook that takes too
//! long is killed with all that it has started and that is still in its group.
//!
//! A hook may run again for the same moment, after a failure or a crash, and has to bear that.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// How much of a hook's output an error holds.
pub const SHOWN: usize = 2048;

/// How long the output of a hook that has ended is waited for: something that it left running may
/// hold the pipe open for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// A password on its way to a key store or a hook; wiped when dropped, never printed.
#[derive(Clone)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes the password; an empty one is none.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The password, for whoever has to have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "Password(empty)"
        } else {
            "Password(redacted)"
        })
    }
}

/// A program with its arguments; there is always a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl CommandLine {
    /// The words of a configuration; `None` when there are none.
    pub fn new(words: Vec<String>) -> Option<Self> {
        let mut words = words.into_iter();
        Some(Self {
            program: words.next()?,
            arguments: words.collect(),
        })
    }

    /// What is started.
    pub fn program(&self) -> &str {
        &self.program
    }
}

/// Why a hook did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It could not be started.
    #[error("cannot start {program:?}, the {hook}")]
    Start {
        /// Which hook.
        hook: &'static str,
        /// What was to be started.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended with another code than 0.
    #[error("the {hook} {program:?} failed with {status}{}", said(output))]
    Failed {
        /// Which hook.
        hook: &'static str,
        /// What was started.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
    /// It took too long, and was killed.
    #[error(
        "the {hook} {program:?} did not end within {limit:?} and was killed{}",
        said(output)
    )]
    TooLong {
        /// Which hook.
        hook: &'static str,
        /// What was started.
        program: String,
        /// The configured time.
        limit: Duration,
        /// The end of what it printed.
        output: String,
    },
    /// It cannot be waited for.
    #[error("cannot wait for {program:?}, the {hook}")]
    Wait {
        /// Which hook.
        hook: &'static str,
        /// What was started.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

impl HookError {
    /// The hook's exit code, if it ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Failed { status, .. } => status.code(),
            Self::Start { .. } | Self::TooLong { .. } | Self::Wait { .. } => None,
        }
    }
}

fn said(output: &str) -> String {
    match output {
        "" => " without a word".to_owned(),
        output => format!(" and said: {output}"),
    }
}

/// Runs a hook to its end.
///
/// # Errors
/// It could not be started, failed, or took longer than `limit`.
pub async fn run(
    hook: &'static str,
    command: &CommandLine,
    password: &Password,
    limit: Duration,
) -> Result<(), HookError> {
    let program = command.program.clone();
    let mut child = Command::new(&command.program)
        .args(&command.arguments)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("MUSTER_HOOK", hook)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| HookError::Start {
            hook,
            program: program.clone(),
            source,
        })?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut output = Tail::default();
    let ended = timeout(limit, attend(&mut child, password, &mut output)).await;
    // What it leaves behind in its group ends with it: the next try must not meet it.
    if let Some(group) = group {
        // An empty group is what is hoped for.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let output = output.text();
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(HookError::Failed {
            hook,
            program,
            status,
            output,
        }),
        Ok(Err(source)) => Err(HookError::Wait {
            hook,
            program,
            source,
        }),
        Err(_) => {
            // Reaped here, so that no zombie is left.
            let _ = child.wait().await;
            Err(HookError::TooLong {
                hook,
                program,
                limit,
                output,
            })
        }
    }
}

/// Feeds a hook its password, listens to it, and waits for its end.
async fn attend(
    child: &mut Child,
    password: &Password,
    output: &mut Tail,
) -> io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A hook that does not read its input is none the worse for it.
            let _ = stdin.write_all(password.reveal().as_bytes()).await;
        }
        std::future::pending::<()>().await
    };
    let listen = async {
        output.follow(stdout, stderr).await;
        std::future::pending::<()>().await
    };
    tokio::pin!(listen);
    let status = tokio::select! {
        status = child.wait() => status?,
        () = feed => unreachable!("feeding never ends"),
        () = &mut listen => unreachable!("listening never ends"),
    };
    // Whatever it printed last is still in the pipes.
    let _ = timeout(LAST_OUTPUT, &mut listen).await;
    Ok(status)
}

/// The end of what a hook printed, in the order of arrival.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    async fn follow(
        &mut self,
        mut stdout: Option<impl AsyncRead + Unpin>,
        mut stderr: Option<impl AsyncRead + Unpin>,
    ) {
        let (mut out, mut err) = ([0; 1024], [0; 1024]);
        while stdout.is_some() || stderr.is_some() {
            tokio::select! {
                read = read_some(&mut stdout, &mut out), if stdout.is_some() => match read {
                    0 => stdout = None,
                    read => self.take(&out[..read]),
                },
                read = read_some(&mut stderr, &mut err), if stderr.is_some() => match read {
                    0 => stderr = None,
                    read => self.take(&err[..read]),
                },
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if let Some(excess) = self.bytes.len().checked_sub(SHOWN).filter(|over| *over > 0) {
            self.bytes.drain(..excess);
            self.cut = true;
        }
    }

    /// One line without control characters: it goes into logs and answers.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut line = String::from(if self.cut { "..." } else { "" });
        for word in text.split(|c: char| c.is_control()) {
            let word = word.trim();
            if !word.is_empty() {
                if !line.is_empty() && line != "..." {
                    line.push_str(" | ");
                }
                line.push_str(word);
            }
        }
        line
    }
}

/// Bytes of an open pipe; 0 at its end, and when it fails.
async fn read_some(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests;
