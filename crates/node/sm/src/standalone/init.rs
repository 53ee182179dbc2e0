//! The init that instances are units of: a supervisor of our own, beside whatever the machine has.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::{Settings, StandaloneError, claim};

/// It is up within this time, or something is wrong.
const START_TIME: Duration = Duration::from_secs(20);
/// Nothing runs any more when it is asked to end.
const END_TIME: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

const PROGRAM: &str = "muster-init";
const SOCKET: &str = "io.muster.Manager";
const TARGET: &str = "standalone.target";
/// What every service waits for and conflicts with, where there is no boot and nothing to shut down.
const TARGETS: [&str; 4] = [TARGET, "sysinit.target", "basic.target", "shutdown.target"];
const TARGET_TEXT: &str = "[Unit]\nDefaultDependencies=no\n";

/// Why there is no init.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// Its program is not there.
    #[error("{} is not there: install Muster, or say where its programs are", path.display())]
    NoProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// A file of it cannot be made.
    #[error("cannot make {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be run.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended.
    #[error("it ended at once ({status}); {} says why", log.display())]
    Ended {
        /// How.
        status: ExitStatus,
        /// What it said.
        log: PathBuf,
    },
    /// It does not answer.
    #[error("it does not answer at {} within {:?}; {} says more", socket.display(), START_TIME, log.display())]
    Silent {
        /// Its socket.
        socket: PathBuf,
        /// What it said.
        log: PathBuf,
    },
    /// It cannot be noted whose instances it runs.
    #[error(transparent)]
    Note(Box<StandaloneError>),
    /// It does not end.
    #[error("it (process {pid}) does not end")]
    Survives {
        /// Its process.
        pid: i32,
    },
}

/// An init of our own that answers.
#[derive(Debug)]
pub(super) struct PrivateInit {
    folder: PathBuf,
    socket: PathBuf,
    /// `None` for one that was found.
    child: Option<Child>,
}

/// The program, which has to be there.
pub(super) fn program(settings: &Settings) -> Result<PathBuf, InitError> {
    let path = settings.program_dir.join(PROGRAM);
    match path.is_file() {
        true => Ok(path),
        false => Err(InitError::NoProgram { path }),
    }
}

/// What is its own.
pub(super) fn folder(settings: &Settings) -> PathBuf {
    settings.runtime_dir.join("init")
}

/// Where it is spoken to.
pub(super) fn socket(settings: &Settings) -> PathBuf {
    folder(settings).join(SOCKET)
}

/// Whether there is one that listens.
pub(super) fn answers(settings: &Settings) -> bool {
    UnixStream::connect(socket(settings)).is_ok()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> InitError + '_ {
    move |source| InitError::File {
        path: path.to_owned(),
        source,
    }
}

impl PrivateInit {
    /// The one that an earlier run left, or a new one; none if `stop` comes first. A new one that is not up by then, or does not
    /// get there, is ended.
    pub(super) async fn find_or_start(
        settings: &Settings,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Self>, InitError> {
        let folder = folder(settings);
        let socket = socket(settings);
        let mut init = Self {
            folder,
            socket,
            child: None,
        };
        if init.answers() {
            return Ok(Some(init));
        }
        init.spawn(settings)?;
        let up = tokio::select! {
            up = init.wait_until_up() => up.map(|()| true),
            () = stop => Ok(false),
        };
        match up {
            Ok(true) => Ok(Some(init)),
            Ok(false) => init.end().await.map(|()| None),
            Err(error) => {
                // What it said stays where the error says it is.
                let _ = init.end_process().await;
                Err(error)
            }
        }
    }

    fn answers(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    fn spawn(&mut self, settings: &Settings) -> Result<(), InitError> {
        let program = program(settings)?;
        let (units, state) = (self.folder.join("units"), settings.state_dir.join("init"));
        for folder in [&units, &state] {
            fs::create_dir_all(folder).map_err(failed(folder))?;
        }
        for target in TARGETS {
            let file = units.join(target);
            fs::write(&file, TARGET_TEXT).map_err(failed(&file))?;
        }
        claim::note(settings).map_err(|error| InitError::Note(Box::new(error)))?;
        let log = self.log();
        let said = File::create(&log).map_err(failed(&log))?;
        let said_too = said.try_clone().map_err(failed(&log))?;
        let mut command = Command::new(&program);
        command
            .args([
                "--supervise",
                "--log-target",
                "stderr",
                "--",
                "--unit",
                TARGET,
            ])
            .arg("--unit-path")
            .arg(&units)
            .arg("--runtime-dir")
            .arg(&self.folder)
            .arg("--state-dir")
            .arg(&state)
            .arg("--no-kernel-units")
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(said_too);
        // Ctrl-C is for whoever started this, who ends the instances in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command
            .spawn()
            .map_err(|source| InitError::Run { program, source })?;
        let pid = child.id();
        self.child = Some(child);
        let pid_file = self.pid_file();
        let noted = fs::write(&pid_file, pid.to_string()).map_err(failed(&pid_file));
        if noted.is_err() {
            // Nobody would find it again. It has started nothing yet.
            self.kill();
        }
        noted
    }

    /// Ends a new one at once.
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }

    async fn wait_until_up(&mut self) -> Result<(), InitError> {
        let deadline = Instant::now() + START_TIME;
        while !self.answers() {
            let ended = self.child.as_mut().and_then(|it| it.try_wait().ok()?);
            if let Some(status) = ended {
                let log = self.log();
                return Err(InitError::Ended { status, log });
            }
            if Instant::now() >= deadline {
                return Err(InitError::Silent {
                    socket: self.socket.clone(),
                    log: self.log(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Its process: ours, or as it was noted, of the one that answers here, whoever started it.
    fn pid(&self) -> Option<Pid> {
        if let Some(child) = &self.child {
            return Pid::from_raw(child.id().try_into().ok()?);
        }
        let noted = fs::read_to_string(self.pid_file()).ok()?;
        Pid::from_raw(noted.trim().parse().ok()?)
    }

    /// Ends it if it was started for nothing.
    pub(super) async fn end_if_new(self) {
        if self.child.is_some() {
            // What led here is the failure to tell of.
            let _ = self.end().await;
        }
    }

    /// Asks it to end, with all that it runs, and waits for that.
    pub(super) async fn end(mut self) -> Result<(), InitError> {
        if self.pid().is_none() {
            return Ok(());
        }
        self.end_process().await?;
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }

    async fn end_process(&mut self) -> Result<(), InitError> {
        let Some(pid) = self.pid().filter(|pid| self.runs(*pid)) else {
            return Ok(());
        };
        // One that is gone by now has ended.
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + END_TIME;
        while self.runs(pid) {
            if Instant::now() >= deadline {
                let pid = pid.as_raw_nonzero().get();
                return Err(InitError::Survives { pid });
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn runs(&mut self, pid: Pid) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => rustix::process::test_kill_process(pid).is_ok(),
        }
    }
}
