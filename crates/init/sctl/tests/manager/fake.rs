//! A manager that answers as a test says, over the real protocol.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use muster_control::manager::Failure;
use muster_varlink::{CallMode, Reply, Server, ServerOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

/// What becomes of a call.
pub(crate) enum Answer {
    /// Replies; all but the last say that more follow.
    Replies(Vec<Value>),
    /// The same, and then the manager is replaced: its connections are closed.
    ThenRestart(Vec<Value>),
    /// An error.
    Error(&'static str, &'static str),
}

/// A call as it came.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) parameters: Value,
    pub(crate) more: bool,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// The method without its interface.
impl Seen {
    pub(crate) fn name(&self) -> &str {
        self.method.rsplit('.').next().unwrap()
    }
}

type Script = dyn FnMut(&mut Seen) -> Answer + Send;

/// A running fake; ends when dropped.
pub(crate) struct Fake {
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// One that answers with what a script says.
    pub(crate) fn new(script: impl FnMut(&mut Seen) -> Answer + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let listener = UnixListener::bind(&path).unwrap();
        let thread = {
            let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
            let mut script: Box<Script> = Box::new(script);
            std::thread::spawn(move || serve(&listener, &stop, &calls, &mut script))
        };
        Self {
            folder,
            stop,
            calls,
            thread: Some(thread),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it was asked so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// The parameters of the calls of one method.
    pub(crate) fn calls_of(&self, method: &str) -> Vec<Value> {
        let calls = self.calls();
        let of_method = calls.into_iter().filter(|(name, _)| name == method);
        of_method.map(|(_, parameters)| parameters).collect()
    }

    /// `sctl` with words, about this manager.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sctl"));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("MUSTER_CONTROL", self.socket())
            .current_dir(self.folder())
            .stdin(Stdio::null());
        command
    }

    /// Runs it: exit code, answers, remarks.
    pub(crate) fn sctl(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.command(words).output().unwrap();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the fake manager's script panicked");
        }
    }
}

fn serve(
    listener: &UnixListener,
    stop: &AtomicBool,
    calls: &Mutex<Vec<(String, Value)>>,
    script: &mut Script,
) {
    let began = Instant::now();
    // Every turn of this loop is another manager behind the same socket.
    while !stop.load(Ordering::Relaxed) {
        let socket = listener.try_clone().unwrap();
        let mut server = Server::new(socket.into(), ServerOptions::default()).unwrap();
        let mut restart = false;
        while !restart && !stop.load(Ordering::Relaxed) {
            let short = Timespec {
                tv_sec: 0,
                tv_nsec: 20_000_000,
            };
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(server.as_fd(), PollFlags::IN)],
                Some(&short),
            );
            server.turn(began.elapsed());
            while let Some(mut call) = server.next_call(began.elapsed()) {
                let mut seen = Seen {
                    method: call.method.to_string(),
                    parameters: serde_json::from_str(call.parameters.text()).unwrap(),
                    more: call.mode == CallMode::More,
                    descriptors: std::mem::take(&mut call.call.fds),
                };
                let name = seen.name().to_owned();
                calls.lock().unwrap().push((name, seen.parameters.clone()));
                let (values, then) = match script(&mut seen) {
                    Answer::Replies(values) => (values, false),
                    Answer::ThenRestart(values) => (values, true),
                    Answer::Error(name, message) => {
                        let failure = Failure {
                            message: message.to_owned(),
                            ..Failure::default()
                        };
                        let name = format!("io.muster.Manager.{name}");
                        let _ = server.reply(call.id, Reply::failure(name, &failure));
                        continue;
                    }
                };
                let last = values.len().saturating_sub(1);
                for (n, value) in values.iter().enumerate() {
                    let reply = Reply::of(value);
                    let more = n < last || then;
                    let reply = if more { reply.and_more() } else { reply };
                    server.reply(call.id, reply).unwrap();
                }
                restart = then;
            }
            server.flush(began.elapsed());
        }
        // Dropped with all its connections.
        drop(server);
    }
}
