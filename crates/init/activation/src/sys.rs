//! The system calls that rustix does not wrap, each behind a safe function.
#![expect(
    unsafe_code,
    reason = "socket options, vsock addresses and message queues have no safe wrapper"
)]

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, SocketAddrAny};

fn last_error() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(code.unwrap_or(libc::EIO))
}

/// Sets a socket option that takes an `int`.
pub(crate) fn set_socket_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> Result<(), Errno> {
    set_socket_option_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Sets a socket option that takes bytes.
pub(crate) fn set_socket_option_bytes(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &[u8],
) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    let start: *const c_void = value.as_ptr().cast();
    // SAFETY: `start` points at `length` initialised bytes that outlive the call; the kernel copies them.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, start, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// The process and user at the other end of a unix socket. The process is 0 if this namespace has no number for it, which
/// a type that cannot be 0 must not be read from.
pub(crate) fn peer_credentials(fd: BorrowedFd<'_>) -> Result<(i32, u32), Errno> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    const SIZE: usize = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(SIZE).expect("credentials are a few bytes long");
    // SAFETY: `found` has room for `length` bytes, and whatever the kernel writes there is a valid `ucred`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok((found.pid, found.uid))
    } else {
        Err(last_error())
    }
}

/// An address of a virtual machine socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VsockAddress {
    pub(crate) cid: u32,
    pub(crate) port: u32,
}

impl VsockAddress {
    pub(crate) const ANY: u32 = libc::VMADDR_CID_ANY;

    /// The address in `any`, if it is one of this family.
    pub(crate) fn read(any: &SocketAddrAny) -> Option<Self> {
        let length = usize::try_from(any.addr_len()).ok()?;
        if any.address_family() != AddressFamily::VSOCK || length < size_of::<libc::sockaddr_vm>() {
            return None;
        }
        // SAFETY: the storage holds at least `sockaddr_vm` initialised bytes, as just checked, and every bit pattern is
        // a valid `sockaddr_vm`.
        let raw = unsafe { any.as_ptr().cast::<libc::sockaddr_vm>().read_unaligned() };
        Some(Self {
            cid: raw.svm_cid,
            port: raw.svm_port,
        })
    }
}

// SAFETY: `with_sockaddr` passes a pointer to a whole, valid `sockaddr_vm` on its stack and that structure's length.
unsafe impl SocketAddrArg for VsockAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        // SAFETY: all-zero bytes are a valid `sockaddr_vm`.
        let mut raw: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
        raw.svm_family = AddressFamily::VSOCK.as_raw();
        raw.svm_cid = self.cid;
        raw.svm_port = self.port;
        const LENGTH: usize = size_of::<libc::sockaddr_vm>();
        let length = SocketAddrLen::try_from(LENGTH).expect("a socket address is a few bytes long");
        f((&raw const raw).cast(), length)
    }
}

/// What a new message queue can hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSize {
    pub(crate) messages: i64,
    pub(crate) message_size: i64,
}

/// Opens a POSIX message queue for reading, without waiting.
pub(crate) fn open_queue(
    name: &CStr,
    create: Option<(libc::mode_t, Option<QueueSize>)>,
) -> Result<OwnedFd, Errno> {
    let mut flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let mut mode = 0;
    let mut attributes = None;
    if let Some((wanted, size)) = create {
        flags |= libc::O_CREAT;
        mode = wanted;
        attributes = size.map(|size| {
            // SAFETY: all-zero bytes are a valid `mq_attr`.
            let mut raw: libc::mq_attr = unsafe { std::mem::zeroed() };
            raw.mq_maxmsg = size.messages;
            raw.mq_msgsize = size.message_size;
            raw
        });
    }
    let attributes = attributes
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the name ends in NUL, and `attributes` is null or points at a `mq_attr` that outlives the call.
    let fd = unsafe { libc::mq_open(name.as_ptr(), flags, mode, attributes) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns; on Linux a queue is a descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Removes a POSIX message queue.
pub(crate) fn remove_queue(name: &CStr) -> Result<(), Errno> {
    // SAFETY: the name ends in NUL.
    let result = unsafe { libc::mq_unlink(name.as_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}
