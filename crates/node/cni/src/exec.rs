//! One run of one plugin.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::attachment::Attachment;
use crate::error::{CniCommand, PluginFault};

/// The longest answer.
pub(crate) const MAX_ANSWER: usize = 64 * 1024;
/// So much of what a plugin complains about is kept.
const MAX_COMPLAINT: usize = 4 * 1024;
/// Between two looks whether an earlier run has ended: the kernel does not tell.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Plugins call tools of the system.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a plugin is run with.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) folders: &'a [PathBuf],
    pub(crate) plugin: &'a str,
    pub(crate) command: CniCommand,
    pub(crate) attachment: &'a Attachment,
    /// Empty when the namespace is gone, as the specification has it for DEL.
    pub(crate) namespace: &'a Path,
    pub(crate) input: Vec<u8>,
    /// What it reads its configuration from. It is locked as long as the plugin or a process of its has it open: so nobody
    /// meets a plugin that has outlived whoever started it.
    pub(crate) input_file: &'a Path,
    pub(crate) limit: Duration,
}

/// What a failed plugin prints.
#[derive(Deserialize)]
struct ErrorObject {
    code: u64,
    msg: String,
    #[serde(default)]
    details: String,
}

/// Ends whatever the plugin has started when its run is given up, and only then: while it is not waited for, its number is
/// nobody else's.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself in this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Call<'_> {
    /// Runs the plugin and answers what it wrote.
    pub(crate) async fn run(self) -> Result<Vec<u8>, PluginFault> {
        let program = self.find()?;
        let input = self.prepare_input().await?;
        let mut command = Command::new(&program);
        command
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("CNI_COMMAND", self.command.to_string())
            .env("CNI_CONTAINERID", self.attachment.container())
            .env("CNI_NETNS", self.namespace)
            .env("CNI_IFNAME", self.attachment.interface())
            .env("CNI_ARGS", self.attachment.args_text())
            .env(
                "CNI_PATH",
                std::env::join_paths(self.folders).unwrap_or_default(),
            )
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(input))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|source| PluginFault::Start { program, source })?;
        // With it goes the own descriptor of the input, and with that the own part of its lock.
        drop(command);
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let mut group = Group(pid);
        let ended = timeout(self.limit, attend(&mut child)).await;
        let (status, answer, complaint) = match ended {
            Ok(Ok(ended)) => {
                group.0 = None;
                ended
            }
            gone_wrong => {
                drop(group);
                // Reaped here, so that no zombie is left; it has been killed, so that takes no time.
                let _ = child.wait().await;
                return Err(match gone_wrong {
                    Err(_) => PluginFault::Hang { limit: self.limit },
                    Ok(Err(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
                        PluginFault::TooMuch { limit: MAX_ANSWER }
                    }
                    Ok(Err(error)) => PluginFault::Follow(error),
                    Ok(Ok(_)) => unreachable!("matched above"),
                });
            }
        };
        judge(status, answer, &complaint)
    }

    /// Waits until no plugin works for this attachment any more, and writes the configuration.
    async fn prepare_input(&self) -> Result<File, PluginFault> {
        let open = || {
            let mut options = OpenOptions::new();
            options
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .mode(0o600);
            options.open(self.input_file)
        };
        let unwritten = |source| PluginFault::Input {
            path: self.input_file.to_owned(),
            source,
        };
        let mut file = open().map_err(unwritten)?;
        let lock = async {
            loop {
                match file.try_lock() {
                    Err(TryLockError::WouldBlock) => sleep(LOOK_AGAIN).await,
                    Err(TryLockError::Error(error)) => return Err(unwritten(error)),
                    Ok(()) => return Ok(()),
                }
            }
        };
        let locked = timeout(self.limit, lock).await;
        locked.map_err(|_| PluginFault::Busy { limit: self.limit })??;
        let mut write = || {
            file.set_len(0)?;
            file.write_all(&self.input)?;
            file.rewind()
        };
        write().map_err(unwritten)?;
        Ok(file)
    }

    fn find(&self) -> Result<PathBuf, PluginFault> {
        let mut places = self.folders.iter().map(|folder| folder.join(self.plugin));
        places
            .find(|place| place.is_file())
            .ok_or_else(|| PluginFault::NotFound {
                folders: self.folders.to_vec(),
            })
    }
}

/// Listens to a plugin, and waits for its end.
async fn attend(child: &mut Child) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async {
        let mut answer = Vec::new();
        let most = u64::try_from(MAX_ANSWER).unwrap_or(u64::MAX) + 1;
        if let Some(stdout) = stdout {
            stdout.take(most).read_to_end(&mut answer).await?;
        }
        if answer.len() > MAX_ANSWER {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(answer)
    };
    let complaint = async {
        match stderr {
            Some(stderr) => read_start(stderr).await,
            None => Ok(Vec::new()),
        }
    };
    let (answer, complaint) = tokio::try_join!(answer, complaint)?;
    Ok((child.wait().await?, answer, complaint))
}

/// Reads all and keeps the beginning, so that a talkative plugin does not wait for ever.
async fn read_start(mut from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(kept);
        }
        let room = MAX_COMPLAINT - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

fn judge(status: ExitStatus, answer: Vec<u8>, complaint: &[u8]) -> Result<Vec<u8>, PluginFault> {
    // An error counts as one also from a plugin that forgets to fail.
    if let Ok(error) = serde_json::from_slice::<ErrorObject>(&answer) {
        return Err(PluginFault::Refused {
            code: error.code,
            message: printable(error.msg.as_bytes()),
            more: printable(error.details.as_bytes()),
        });
    }
    if status.success() {
        return Ok(answer);
    }
    let said = if complaint.is_empty() {
        &answer
    } else {
        complaint
    };
    Err(PluginFault::Died {
        status,
        said: printable(said),
    })
}

/// What goes into a message: one line, no control characters, not too long.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.trim().chars().take(1024).collect();
    text.replace(char::is_control, " ")
}
