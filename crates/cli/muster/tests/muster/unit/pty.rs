//! A terminal, for programs that behave differently on one.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::rig::until;

/// A program on a terminal of 100 columns and 30 lines; it ends with the value.
pub(crate) struct OnTerminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    pub(crate) fn new(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
        let slave = File::from(slave.expect("opened"));
        let child = command
            .env("TERM", "xterm")
            .stdin(slave.try_clone().expect("copied"))
            .stdout(slave.try_clone().expect("copied"))
            .stderr(slave)
            .spawn()
            .expect("started");
        // The command holds the other end, and the reader waits for its last one to be closed.
        drop(command);
        let keys = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, shared) = (keys.try_clone().expect("copied"), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match screen.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => {
                        let mut seen = shared.lock().expect("not poisoned");
                        seen.extend_from_slice(&buffer[..count]);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Nobody is on the terminal any more.
                    Err(_) => return,
                }
            }
        });
        Self {
            child,
            keys,
            seen,
            reader: Some(reader),
        }
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("written");
    }

    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("not poisoned")).into_owned()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        until(text, || self.seen().contains(text));
    }

    /// What was seen when it had ended.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("ended");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("read");
        }
        (status, self.seen())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
