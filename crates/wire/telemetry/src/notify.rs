//! sd_notify: telling the service manager how we are.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use crate::ErrorChain;

/// The longest status text; the datagram must fit a small socket buffer.
const MAX_STATUS: usize = 1024;

/// Why the service manager could not be told something.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// The address in `NOTIFY_SOCKET` is neither a path nor an abstract name.
    #[error("NOTIFY_SOCKET={address:?} is neither a path nor an abstract socket")]
    Address {
        /// What the variable says.
        address: OsString,
    },
    /// The datagram could not be sent.
    #[error("cannot send {message:?} to the service manager's socket {address:?}")]
    Send {
        /// What was to be said.
        message: String,
        /// To whom.
        address: OsString,
        /// What the system said.
        source: io::Error,
    },
}

/// Tells the service manager how the daemon is; does nothing where there is none.
///
/// Messages are single datagrams, sent without waiting: a manager that does not read loses them, and
/// that is logged as a warning.
#[derive(Debug, Clone)]
pub struct Notifier {
    socket: Option<Arc<OsString>>,
}

impl Notifier {
    /// The service manager that `NOTIFY_SOCKET` names, if any.
    pub fn from_environment() -> Self {
        Self::to(std::env::var_os("NOTIFY_SOCKET"))
    }

    /// The service manager at `address`: an absolute path, or `@` and an abstract name.
    pub fn to(address: Option<OsString>) -> Self {
        Self {
            socket: address.filter(|address| !address.is_empty()).map(Arc::new),
        }
    }

    /// Whether there is somebody to tell.
    pub fn is_active(&self) -> bool {
        self.socket.is_some()
    }

    /// The daemon is ready to serve.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// The daemon has begun to stop.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// The daemon reads its configuration again; [`Notifier::ready`] says that it is done.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// What the daemon is doing, in a few words for people.
    pub fn status(&self, text: &str) {
        // A line break would begin another assignment.
        let line: String = text.chars().filter(|c| !c.is_control()).collect();
        let cut = line.floor_char_boundary(MAX_STATUS);
        self.say(&format!("STATUS={}", &line[..cut]));
    }

    /// The daemon is alive.
    pub(crate) fn watchdog(&self) {
        self.say("WATCHDOG=1");
    }

    fn say(&self, message: &str) {
        if let Err(error) = self.send(message) {
            tracing::warn!(error = %ErrorChain(&error), "cannot notify the service manager");
        }
    }

    /// Sends assignments, one per line.
    ///
    /// # Errors
    /// An address that is none, or a datagram that cannot be sent at once.
    pub fn send(&self, message: &str) -> Result<(), NotifyError> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let address = socket_address(socket).ok_or_else(|| NotifyError::Address {
            address: OsString::clone(socket),
        })?;
        let sent = UnixDatagram::unbound().and_then(|datagram| {
            datagram.set_nonblocking(true)?;
            datagram.send_to_addr(message.as_bytes(), &address)
        });
        sent.map(drop).map_err(|source| NotifyError::Send {
            message: message.to_owned(),
            address: OsString::clone(socket),
            source,
        })
    }
}

fn socket_address(text: &OsString) -> Option<SocketAddr> {
    match text.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(text).ok(),
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn path_and_abstract_sockets_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        Notifier::to(Some(path.into())).ready();
        assert_eq!(receive(&by_path), "READY=1");

        let name = format!("muster-telemetry-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::to(Some(format!("@{name}").into()));
        notifier.status("two\nlines\nWATCHDOG=trigger");
        assert_eq!(receive(&by_name), "STATUS=twolinesWATCHDOG=trigger");
        notifier.status(&"é".repeat(2000));
        assert_eq!(receive(&by_name).len(), "STATUS=".len() + MAX_STATUS);
        notifier.reloading();
        let message = receive(&by_name);
        let micros = message
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .unwrap();
        assert!(micros.parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn nobody_to_tell_is_fine_and_a_wrong_address_is_named() {
        assert!(Notifier::to(None).send("READY=1").is_ok());
        assert!(!Notifier::to(Some("".into())).is_active());
        for address in ["vsock:2:1", "relative/path", "@"] {
            let error = Notifier::to(Some(address.into()))
                .send("READY=1")
                .unwrap_err();
            assert!(matches!(error, NotifyError::Address { .. }), "{error}");
        }
        let error = Notifier::to(Some("/nonexistent/notify".into()))
            .send("READY=1")
            .unwrap_err();
        assert!(matches!(error, NotifyError::Send { .. }), "{error}");
    }

    #[test]
    fn a_manager_that_does_not_read_never_blocks_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _unread = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(Some(path.into()));
        let full = (0..100_000).find_map(|_| notifier.send("WATCHDOG=1").err());
        assert!(
            matches!(full, Some(NotifyError::Send { .. })),
            "the socket takes no end of messages"
        );
    }
}
