//! The interface by which programs of one machine talk to each other.

#![expect(
    unsafe_code,
    reason = "reading and setting the flags of an interface are calls that no library has a safe function for"
)]

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

const IFF_UP: i16 = 1;
/// Bytes of the kernel's `struct ifreq`: a name, and a union whose first number are the flags.
const IFREQ: usize = 40;
const IFREQ_FLAGS: usize = 16;

/// Brings the loopback interface of this network namespace up, where it is down.
///
/// # Errors
/// There is none, or this process may not change it.
pub fn raise_loopback() -> io::Result<()> {
    let (datagrams, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, datagrams, flags, None)?;
    let mut request = [0u8; IFREQ];
    request[..2].copy_from_slice(b"lo");
    // SAFETY: the kernel reads and writes a structure of this size, name first.
    let got = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, request.as_mut_ptr()) };
    if got == -1 {
        return Err(io::Error::last_os_error());
    }
    let field = IFREQ_FLAGS..IFREQ_FLAGS + 2;
    let flags = i16::from_ne_bytes([request[field.start], request[field.start + 1]]);
    if flags & IFF_UP != 0 {
        return Ok(());
    }
    request[field].copy_from_slice(&(flags | IFF_UP).to_ne_bytes());
    // SAFETY: as above; nothing is written.
    let set = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, request.as_ptr()) };
    match set {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
