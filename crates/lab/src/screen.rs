//! A terminal as a person has one: the program on it is in a session of its own, which the terminal controls, so that keys
//! become signals and a change of size is told.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::time::{poll_for, try_poll_for};

/// How long anything on a terminal may take.
const TIME: Duration = Duration::from_secs(60);

/// Columns and rows.
pub type Size = (u16, u16);

/// A program on a terminal; it ends with the value.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    keys: File,
    /// The program's end, kept so that the terminal can be looked at when the program is gone.
    line: Option<File>,
    modes: String,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts a program on a terminal of this size. Its environment is what the command sets and `TERM`, nothing else.
    pub fn start(command: &Command, size: Size) -> io::Result<Self> {
        let (keys, line) = terminal()?;
        resize(&keys, size)?;
        let modes = modes(&line)?;
        let child = on_terminal(command, &line)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (screen, shared) = (keys.try_clone()?, Arc::clone(&seen));
        let reader = thread::spawn(move || watch(screen, &shared));
        Ok(Self {
            child,
            keys,
            line: Some(line),
            modes,
            seen,
            reader: Some(reader),
        })
    }

    /// Types.
    pub fn press(&mut self, keys: &[u8]) -> io::Result<()> {
        self.keys.write_all(keys)
    }

    /// Gives the terminal another size.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        resize(&self.keys, size)
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Everything that was written on it.
    pub fn seen(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Waits until a text was written.
    ///
    /// # Panics
    /// When it is not, for too long.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let found = try_poll_for(TIME, || self.seen().contains(text).then_some(()));
        assert!(found.is_some(), "no {text:?} in {:?}", self.seen());
    }

    /// Whether the terminal edits lines and echoes as it did before the program.
    pub fn is_as_before(&self) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| modes(line).is_ok_and(|modes| modes == self.modes))
    }

    /// How the program ended, and all that was seen.
    ///
    /// # Panics
    /// When it does not end, or leaves the terminal in another mode than it found it in.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = poll_for(TIME, "the program ends", || {
            self.child.try_wait().unwrap_or_default()
        });
        assert!(
            self.is_as_before(),
            "the terminal is not as it was: {:?}",
            self.seen()
        );
        self.read_rest();
        (status, self.seen())
    }

    /// Reads what a program that has ended left on the way.
    fn read_rest(&mut self) {
        // The reader ends with the last descriptor of the program's side.
        self.line = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.read_rest();
    }
}

/// Both ends of a new terminal: the person's and the program's.
fn terminal() -> io::Result<(File, File)> {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&keys)?;
    unlockpt(&keys)?;
    let name = ptsname(&keys, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let line = rustix::fs::open(name, flags, Mode::empty())?;
    Ok((File::from(keys), File::from(line)))
}

/// Starts a command with a terminal that controls it: only those are told of keys and sizes.
fn on_terminal(command: &Command, line: &File) -> io::Result<Child> {
    let mut program = Command::new("setsid");
    program
        .arg("--ctty")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .env("TERM", "xterm")
        .stdin(line.try_clone()?)
        .stdout(line.try_clone()?)
        .stderr(line.try_clone()?);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            program.env(name, value);
        }
    }
    if let Some(folder) = command.get_current_dir() {
        program.current_dir(folder);
    }
    program.spawn()
}

/// Reads until nobody is on the terminal any more.
fn watch(mut screen: File, seen: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        match screen.read(&mut buffer) {
            Ok(count @ 1..) => {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend_from_slice(buffer.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

fn resize(terminal: &File, (columns, rows): Size) -> io::Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}

/// How it edits, echoes and signals, for comparison.
fn modes(terminal: &File) -> io::Result<String> {
    let modes = tcgetattr(terminal)?;
    Ok(format!(
        "{:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.local_modes, modes.control_modes
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env("WORD", "said");
        command
    }

    #[test]
    fn keys_sizes_and_signals_arrive_and_the_last_words_are_seen() {
        let script = "trap 'stty size; exit 3' INT; echo $WORD; while :; do sleep 0.01; done";
        let mut screen = Screen::start(&shell(script), (80, 24)).unwrap();
        screen.wait_for("said");
        screen.resize((120, 40)).unwrap();
        screen.press(b"\x03").unwrap();
        let (status, seen) = screen.end();
        assert_eq!(status.code(), Some(3));
        assert!(seen.ends_with("40 120\r\n"), "{seen:?}");
    }

    #[test]
    #[should_panic(expected = "the terminal is not as it was")]
    fn a_terminal_that_is_left_raw_is_noticed() {
        let screen = Screen::start(&shell("stty raw"), (80, 24)).unwrap();
        screen.end();
    }
}
