//! A terminal for the service, joined with the one that this process is on.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

use super::RunError;

/// `^]`, three times within a second, leaves the terminal.
const LEAVE: u8 = 0x1d;
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// How often the size of the window is looked at: no signal handler is needed for that.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

fn failed(what: &'static str) -> impl Fn(Errno) -> RunError {
    move |errno| RunError::Terminal {
        what,
        source: errno.into(),
    }
}

/// A new terminal: this process's side of it, and the name of the other side.
#[derive(Debug)]
pub(super) struct Pair {
    ours: OwnedFd,
    name: String,
}

impl Pair {
    /// Opens one.
    pub(super) fn open() -> Result<Self, RunError> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).map_err(failed("open"))?;
        grantpt(&ours).map_err(failed("grant"))?;
        unlockpt(&ours).map_err(failed("unlock"))?;
        let name = ptsname(&ours, Vec::new()).map_err(failed("name"))?;
        Ok(Self {
            ours,
            name: name.to_string_lossy().into_owned(),
        })
    }

    /// What makes a service use it.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("Service.StandardInput", "tty".to_owned()),
            ("Service.StandardOutput", "tty".to_owned()),
            ("Service.StandardError", "tty".to_owned()),
            ("Service.TTYPath", self.name.clone()),
        ];
        if let Ok(term) = std::env::var("TERM")
            && term.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            settings.push(("Service.Environment", format!("TERM={term}")));
        }
        settings
    }
}

/// That the service has ended, for whoever carries bytes.
#[derive(Debug, Clone)]
pub(super) struct Over(Arc<OwnedFd>);

impl Over {
    pub(super) fn new() -> Result<Self, RunError> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed("wait beside"))?;
        Ok(Self(Arc::new(fd)))
    }

    /// It has.
    pub(super) fn tell(&self) {
        // A counter that is not near its end takes one more.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// This process's terminal, as it was, when dropped.
struct Raw {
    old: Option<Termios>,
}

impl Raw {
    fn new() -> Result<Self, RunError> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self { old: None });
        }
        let old = tcgetattr(&stdin).map_err(failed("read the settings of"))?;
        let mut raw = old.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Drain, &raw)
            .map_err(failed("change the settings of"))?;
        Ok(Self { old: Some(old) })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(old) = &self.old {
            // There is nothing left to do about a terminal that is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, old);
        }
    }
}

/// Carries bytes between both terminals until the service has ended, or the user leaves.
pub(super) fn carry(pair: Pair, over: &Over) -> Result<(), RunError> {
    let _raw = Raw::new()?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut typing = true;
    let mut leaving = Leaving::default();
    loop {
        if let Ok(size) = tcgetwinsize(&stdout) {
            // A terminal without a size is as good as one with.
            let _ = tcsetwinsize(&pair.ours, size);
        }
        let mut waited = vec![
            PollFd::new(&pair.ours, PollFlags::IN),
            PollFd::new(&*over.0, PollFlags::IN),
        ];
        if typing {
            waited.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut waited, Some(&LOOK_EVERY)) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(failed("wait for")(errno)),
        }
        let ready = |n: usize| waited.get(n).is_some_and(|fd| !fd.revents().is_empty());
        let (printed, ended, typed) = (ready(0), ready(1), ready(2));
        let mut hung_up = false;
        if printed {
            hung_up = !pass(&pair.ours, &stdout, |_| {})?;
        }
        if ended && (!printed || hung_up) {
            return Ok(());
        }
        if hung_up {
            // Nobody has it open at the moment: before the start, or after the end. The manager knows which.
            let mut end = [PollFd::new(&*over.0, PollFlags::IN)];
            let _ = poll(&mut end, Some(&LOOK_EVERY));
        }
        if typed {
            typing = pass(&stdin, &pair.ours, |bytes| leaving.see(bytes))?;
            if leaving.wanted() {
                return Ok(());
            }
        }
    }
}

/// Whether the user wants to leave.
#[derive(Debug, Default)]
struct Leaving {
    pressed: Vec<Instant>,
}

impl Leaving {
    fn see(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == LEAVE {
                self.pressed.push(Instant::now());
            } else {
                self.pressed.clear();
            }
        }
    }

    fn wanted(&self) -> bool {
        let last = self.pressed.iter().rev().nth(2);
        last.is_some_and(|first| first.elapsed() <= LEAVE_WITHIN)
    }
}

/// Passes on what is there; `false` at the end.
fn pass(from: impl AsFd, to: impl AsFd, mut see: impl FnMut(&[u8])) -> Result<bool, RunError> {
    let mut chunk = [0; 4096];
    let length = match rustix::io::read(&from, &mut chunk) {
        // A terminal whose other side is closed says EIO.
        Ok(0) | Err(Errno::IO) => return Ok(false),
        Ok(length) => length,
        Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
        Err(errno) => return Err(failed("read from")(errno)),
    };
    see(&chunk[..length]);
    let mut rest = &chunk[..length];
    while !rest.is_empty() {
        match rustix::io::write(&to, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::IO) => return Ok(false),
            Err(errno) => return Err(failed("write to")(errno)),
        }
    }
    Ok(true)
}
