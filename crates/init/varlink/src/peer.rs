//! Who is at the other end of a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The process that connected, as the kernel noted it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number here; 0 for a process of another pid namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Peer {
    /// Asks the kernel (SO_PEERCRED).
    ///
    /// # Errors
    /// If this is not a connected unix socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        // Not by rustix: its pid cannot be zero, and that of a peer outside this pid namespace is.
        let mut found = libc::ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
        #[expect(unsafe_code, reason = "no safe call gives a pid that may be zero")]
        // SAFETY: the kernel writes at most `length` bytes to `found`, a plain structure of that size that lives here.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pid: u32::try_from(found.pid).unwrap_or(0),
            uid: found.uid,
            gid: found.gid,
        })
    }

    /// Root, or the user that the service runs as.
    #[must_use]
    pub fn is_privileged(&self, owner: u32) -> bool {
        self.uid == 0 || self.uid == owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_pair_is_connected_to_oneself() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert!(peer.is_privileged(peer.uid));
    }

    #[test]
    fn others_are_not_privileged() {
        let peer = Peer {
            pid: 1,
            uid: 1000,
            gid: 0,
        };
        assert!(peer.is_privileged(1000));
        assert!(!peer.is_privileged(0));
        assert!(!peer.is_privileged(1001));
    }
}
