//! System calls that no library has a safe function for.

#![expect(
    unsafe_code,
    reason = "each function is one system call on memory that it owns"
)]

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong};

use muster_seccomp::Program;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::Pid;

/// `set_mempolicy` takes nodes as a mask of this many bits per word.
const WORD_BITS: usize = c_ulong::BITS as usize;

/// The process that is returned to.
pub(super) enum Forked {
    /// The new one.
    Child,
    /// The one that was there, with the number of the new one.
    Parent(Pid),
}

fn result(result: c_long) -> Result<c_long, Errno> {
    if result == -1 {
        // SAFETY: the address of this thread's errno is always valid.
        return Err(Errno::from_raw_os_error(unsafe {
            *libc::__errno_location()
        }));
    }
    Ok(result)
}

/// Divides the process. There is one thread, so the new one may do all that the old one may.
pub(super) fn fork() -> Result<Forked, Errno> {
    // SAFETY: no other thread holds a lock that the new process would wait for.
    let pid = result(c_long::from(unsafe { libc::fork() }))?;
    let pid = c_int::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(pid.map_or(Forked::Child, Forked::Parent))
}

/// Ends this process without running anything that the process it was made from has registered for its end.
pub(super) fn end(code: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// Takes a descriptor that this process was started with, if it has it.
pub(super) fn take(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: no addresses are involved.
    let flags = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    result(c_long::from(flags))?;
    // SAFETY: it is open, as was just seen, and the caller names each number once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Puts a descriptor into a place that the program finds it at.
pub(super) fn duplicate(from: &OwnedFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: no addresses are involved; the caller names the place of a stream, which nobody owns.
    result(c_long::from(unsafe { libc::dup2(from.as_raw_fd(), to) })).map(|_| ())
}

/// Closes all descriptors from a number on.
pub(super) fn close_from(first: RawFd) -> Result<(), Errno> {
    close_range(first, 0)
}

/// Closes all descriptors from a number on at the moment when the program is executed.
pub(super) fn close_at_execution(first: RawFd) -> Result<(), Errno> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: RawFd, flags: u32) -> Result<(), Errno> {
    // SAFETY: no addresses are involved. Callers own what they close: they execute or end, and use none of it again.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
    result(closed).map(|_| ())
}

/// What the kernel says the machine is.
pub(super) fn set_personality(personality: u32) -> Result<(), Errno> {
    // SAFETY: no addresses are involved.
    let set = unsafe { libc::personality(c_ulong::from(personality)) };
    result(c_long::from(set)).map(|_| ())
}

/// Where memory comes from.
pub(super) fn set_memory_policy(policy: u32, nodes: &[u16]) -> Result<(), Errno> {
    let highest = nodes.iter().max().map_or(0, |node| usize::from(*node) + 1);
    let mut mask: Vec<c_ulong> = vec![0; highest.div_ceil(WORD_BITS)];
    for node in nodes.iter().map(|node| usize::from(*node)) {
        if let Some(word) = mask.get_mut(node / WORD_BITS) {
            *word |= 1 << (node % WORD_BITS);
        }
    }
    // The kernel takes one bit less than it is told.
    let bits = if mask.is_empty() {
        0
    } else {
        mask.len() * WORD_BITS + 1
    };
    let mask = if mask.is_empty() {
        std::ptr::null()
    } else {
        mask.as_ptr()
    };
    // SAFETY: the mask has as many bits as is said, but for the one that the kernel subtracts.
    let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, mask, bits) };
    result(set).map(|_| ())
}

/// Joins a new keyring of the session.
pub(super) fn new_session_keyring() -> Result<(), Errno> {
    const JOIN_SESSION_KEYRING: c_int = 1;
    let unnamed = std::ptr::null::<c_char>();
    // SAFETY: a null name is one of no name.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, unnamed) };
    result(joined).map(|_| ())
}

/// Links the user's keyring into that of the session.
pub(super) fn link_user_keyring() -> Result<(), Errno> {
    const LINK: c_int = 8;
    const USER_KEYRING: c_int = -4;
    const SESSION_KEYRING: c_int = -3;
    // SAFETY: no addresses are involved.
    let linked = unsafe { libc::syscall(libc::SYS_keyctl, LINK, USER_KEYRING, SESSION_KEYRING) };
    result(linked).map(|_| ())
}

/// Puts a key into the keyring of the session that its holders and root may find and read.
pub(super) fn add_session_key(name: &CStr, content: &[u8]) -> Result<(), Errno> {
    const SESSION_KEYRING: c_int = -3;
    const SET_PERMISSIONS: c_int = 5;
    const READ_ONLY: c_int = 0x0b0b_0000;
    // SAFETY: two texts that end in zero, and as many bytes as is said.
    let key = result(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            name.as_ptr(),
            content.as_ptr(),
            content.len(),
            SESSION_KEYRING,
        )
    })?;
    // SAFETY: no addresses are involved.
    result(unsafe { libc::syscall(libc::SYS_keyctl, SET_PERMISSIONS, key, READ_ONLY) }).map(|_| ())
}

/// Whether a name fits a pattern of the shell's.
pub(super) fn matches(pattern: &CStr, name: &CStr) -> bool {
    // SAFETY: two texts that end in zero.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), libc::FNM_PERIOD) == 0 }
}

/// Installs a filter of system calls for this process and all that come from it.
pub(super) fn install_filter(program: &Program) -> Result<(), Errno> {
    let instructions = program.instructions();
    let filter = libc::sock_fprog {
        len: program.length(),
        filter: instructions.as_ptr().cast_mut().cast(),
    };
    let (mode, none) = (libc::SECCOMP_SET_MODE_FILTER, 0);
    // SAFETY: the instructions have the kernel's layout and as many as is said; the kernel only reads them.
    let installed = unsafe { libc::syscall(libc::SYS_seccomp, mode, none, &raw const filter) };
    result(installed).map(|_| ())
}

/// Executes the program; returns only if that fails.
pub(super) fn execute(program: &CStr, argv: &Table<'_>, environment: &Table<'_>) -> Errno {
    let (argv, environment) = (argv.0.as_ptr(), environment.0.as_ptr());
    // SAFETY: a text and two lists of texts that end in null, which outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv, environment) };
    // SAFETY: the address of this thread's errno is always valid.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Addresses of texts, with a null behind them.
pub(super) struct Table<'a>(Vec<*const c_char>, std::marker::PhantomData<&'a CStr>);

impl<'a> Table<'a> {
    pub(super) fn new(texts: impl Iterator<Item = &'a CStr>) -> Self {
        let addresses = texts.map(CStr::as_ptr);
        let addresses = addresses.chain([std::ptr::null()]).collect();
        Self(addresses, std::marker::PhantomData)
    }
}

/// Signals, all of them blocked, which come when they are asked for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks every signal that can be.
    pub(super) fn block() -> Result<Self, Errno> {
        let mut all = std::mem::MaybeUninit::uninit();
        // SAFETY: the call fills the set.
        let all = unsafe {
            result(c_long::from(libc::sigfillset(all.as_mut_ptr())))?;
            all.assume_init()
        };
        // SAFETY: a set that was just made.
        let blocked =
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
        result(c_long::from(blocked))?;
        Ok(Self(all))
    }

    /// Lets all of them through.
    pub(super) fn unblock() -> Result<(), Errno> {
        let mut none = std::mem::MaybeUninit::uninit();
        // SAFETY: the first call fills the set that the second reads.
        let set = unsafe {
            result(c_long::from(libc::sigemptyset(none.as_mut_ptr())))?;
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
        };
        result(c_long::from(set)).map(|_| ())
    }

    /// Waits for the next.
    pub(super) fn next(&self) -> Result<c_int, Errno> {
        // SAFETY: a set that was filled, and no place for details.
        let signal = unsafe { libc::sigwaitinfo(&raw const self.0, std::ptr::null_mut()) };
        result(c_long::from(signal))?;
        Ok(signal)
    }
}

/// Lets a broken pipe end the process, as the kernel does by default and the standard library does not.
pub(super) fn heed_broken_pipes() -> Result<(), Errno> {
    // SAFETY: the default is restored for a signal of a valid number.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if before == libc::SIG_ERR {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Passes a signal on to another process.
pub(super) fn send(pid: Pid, signal: c_int) {
    // A process that has just ended needs no signal.
    // SAFETY: no addresses are involved.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// Ends this process the way another one has ended: by this signal, without a second core dump.
pub(super) fn end_by(signal: c_int) -> ! {
    // SAFETY: no addresses are involved; the default is restored for a signal of a valid number.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    // It comes now, unless it is one that does not end processes.
    let _ = Signals::unblock();
    end(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
