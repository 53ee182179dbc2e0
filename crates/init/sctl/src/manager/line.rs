//! The way to a manager on another machine, and the other end of that way.
//!
//! `sctl -H HOST` starts `ssh HOST sctl stdio-bridge`; there, `sctl` joins its standard streams with the control socket. No
//! word of the user's becomes part of a command line for the remote shell, but for the socket's path, which is quoted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use muster_varlink::Client;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use thiserror::Error;

use super::ManagerError;

/// A connection, and the process that carries it if it leads elsewhere.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    pub(super) helper: Option<Helper>,
}

/// The process that carries a connection. It ends when the connection does.
#[derive(Debug)]
pub(super) struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        // The connection may still be open on our side; ssh has nothing to finish.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects to the manager of another machine.
pub(super) fn by_ssh(host: &str, socket: Option<&Path>) -> Result<Line, ManagerError> {
    let mut words = vec![b"sctl".to_vec()];
    if let Some(socket) = socket {
        words.push(b"--socket".to_vec());
        words.push(socket.as_os_str().as_bytes().to_vec());
    }
    words.push(b"stdio-bridge".to_vec());
    let failed = |source| ManagerError::Ssh {
        host: host.to_owned(),
        source,
    };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let input = OwnedFd::from(theirs.try_clone().map_err(failed)?);
    let child = remote_command(host, &words)?
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(failed)?;
    Ok(Line {
        client: Client::over(ours.into()),
        helper: Some(Helper(child)),
    })
}

/// `ssh` running words on another machine, as they are.
pub(crate) fn remote_command(host: &str, words: &[Vec<u8>]) -> Result<Command, ManagerError> {
    if host.is_empty() || host.starts_with('-') {
        return Err(ManagerError::Host {
            host: host.to_owned(),
        });
    }
    let mut line = Vec::new();
    for word in words {
        if !line.is_empty() {
            line.push(b' ');
        }
        line.extend(quoted(word));
    }
    let mut command = Command::new("ssh");
    command
        .args(["-xT", "--", host])
        .arg(std::ffi::OsStr::from_bytes(&line));
    Ok(command)
}

/// A word that a POSIX shell takes as it is.
fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut text = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

/// Why bytes are no longer carried.
#[derive(Debug, Error)]
pub(crate) enum Bridge {
    /// The socket.
    #[error("Failed to connect to '{path}'")]
    Connect {
        /// Where it is.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Waiting, reading or writing.
    #[error("Failed to {what}")]
    Carry {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Joins standard input and output with a socket, until both are done.
pub(crate) fn bridge(path: &Path) -> Result<(), Bridge> {
    let socket = UnixStream::connect(path).map_err(|source| Bridge::Connect {
        path: path.display().to_string(),
        source,
    })?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut asks = true;
    loop {
        // Without more questions only answers are waited for.
        let mut waited = vec![PollFd::new(&socket, PollFlags::IN)];
        if asks {
            waited.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(carry("wait", errno)),
        }
        let ready = |n: usize| waited.get(n).is_some_and(|fd| !fd.revents().is_empty());
        let (answer, question) = (ready(0), ready(1));
        if answer && !copy(&socket, &stdout)? {
            return Ok(());
        }
        if question && !copy(&stdin, &socket)? {
            asks = false;
            // A manager that has closed already needs no telling.
            let _ = shutdown(&socket, Shutdown::Write);
        }
    }
}

/// Copies what is there; `false` at the end.
fn copy(from: impl AsFd, to: impl AsFd) -> Result<bool, Bridge> {
    let mut chunk = [0; 16 * 1024];
    let length = match rustix::io::read(&from, &mut chunk) {
        Ok(0) | Err(Errno::CONNRESET) => return Ok(false),
        Ok(length) => length,
        Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
        Err(errno) => return Err(carry("read", errno)),
    };
    let mut rest = &chunk[..length];
    while !rest.is_empty() {
        match rustix::io::write(&to, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // The other side is gone, and that is the end.
            Err(Errno::PIPE) => return Ok(false),
            Err(errno) => return Err(carry("write", errno)),
        }
    }
    Ok(true)
}

fn carry(what: &'static str, errno: Errno) -> Bridge {
    Bridge::Carry {
        what,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_is_never_an_option() {
        for host in ["", "-oProxyCommand=x", "-"] {
            let refused = remote_command(host, &[b"sctl".to_vec()]);
            assert!(matches!(refused, Err(ManagerError::Host { .. })), "{host}");
        }
    }

    proptest! {
        /// Whatever a word is, a shell gives it back.
        #[test]
        fn quoted_words_come_back_from_a_shell(word in "[ -~\u{e9}\n\t]{0,24}") {
            let mut line = b"printf %s ".to_vec();
            line.extend(quoted(word.as_bytes()));
            let line = std::ffi::OsStr::from_bytes(&line).to_owned();
            let output = Command::new("sh").arg("-c").arg(line).output().expect("sh runs");
            prop_assert_eq!(output.stdout, word.into_bytes());
        }
    }
}
