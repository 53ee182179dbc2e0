//! Telling the service manager how the daemon is.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager's end of `sd_notify`, if there is one.
#[derive(Debug)]
pub struct Notifier {
    target: Option<(UnixDatagram, SocketAddr)>,
    watchdog_us: Option<u64>,
}

impl Notifier {
    /// The manager that the environment names. One that cannot be reached is none: it will find out.
    #[must_use]
    pub fn from_environment() -> Self {
        let own_pid = std::process::id().to_string();
        let is_for_us = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == own_pid);
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| is_for_us);
        Self {
            target: std::env::var_os("NOTIFY_SOCKET").and_then(|address| target(&address).ok()),
            watchdog_us: watchdog
                .and_then(|text| text.parse().ok())
                .filter(|us| *us > 0),
        }
    }

    /// Says something, without waiting.
    pub fn say(&self, message: &str) {
        if let Some((socket, address)) = &self.target {
            // A manager that does not read is one that restarts us; there is nobody else to tell.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }

    /// How often the manager wants a sign of life, in microseconds.
    #[must_use]
    pub fn watchdog_us(&self) -> Option<u64> {
        self.watchdog_us
    }
}

fn target(address: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
