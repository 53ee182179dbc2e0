//! What the three standard streams are connected to.

use std::ffi::{c_char, c_int};

use super::{Birth, Failure, StreamPlan, check, duplicate, moved, set_blocking};
use crate::step::Step;
use crate::terminal;

/// The family of sockets with paths, in the size that addresses have it.
const UNIX: libc::sa_family_t = 1;

/// Connects the three streams, in their order.
pub(super) fn connect(birth: &Birth<'_>) -> Result<(), Failure> {
    let steps = [Step::Stdin, Step::Stdout, Step::Stderr];
    for ((number, stream), step) in (0..).zip(&birth.plan.streams).zip(steps) {
        match *stream {
            StreamPlan::Null => duplicate(birth.null, number, step)?,
            StreamPlan::Fd(index) => duplicate(moved(birth.plan, index), number, step)?,
            StreamPlan::Same(other) => duplicate(c_int::from(other), number, step)?,
            StreamPlan::File { path, flags } => {
                let file = open(path, flags, birth.plan.context.stream_mode, step)?;
                place(file, number, step)?;
            }
            StreamPlan::Terminal => {
                let Some((path, settings)) = birth
                    .plan
                    .terminal
                    .zip(birth.plan.context.terminal.as_ref())
                else {
                    continue;
                };
                let before = usize::try_from(number).unwrap_or(0);
                let mut before = birth.plan.streams.iter().take(before);
                let first = !before.any(|stream| matches!(stream, StreamPlan::Terminal));
                let file = terminal::open(path, settings, (number == 0, first), step)?;
                place(file, number, step)?;
            }
        }
    }
    Ok(())
}

/// Puts a descriptor that was just opened into its place.
fn place(file: c_int, number: c_int, step: Step) -> Result<(), Failure> {
    duplicate(file, number, step)?;
    if file != number {
        // SAFETY: the descriptor was opened above and is not used again.
        unsafe { libc::close(file) };
    }
    Ok(())
}

/// Opens a file for a stream. A socket cannot be opened: whoever listens there is connected to.
pub(crate) fn open(
    path: *const c_char,
    flags: c_int,
    mode: u16,
    step: Step,
) -> Result<c_int, Failure> {
    match make(path, flags, mode, step) {
        // A queue that nobody reads says the same.
        Err(refused) if refused.errno == libc::ENXIO && is_socket(path) => {
            connect_to(path, flags, step)
        }
        other => other,
    }
}

fn is_socket(path: *const c_char) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a prepared text, and a structure that the call fills in where it says so.
    unsafe {
        libc::stat(path, stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// Connects to a socket without waiting for room in its queue: the parent would wait, too. What the stream is not for is shut.
fn connect_to(path: *const c_char, flags: c_int, step: Step) -> Result<c_int, Failure> {
    // SAFETY: a prepared text.
    let length = unsafe { libc::strlen(path) };
    // SAFETY: all zeros are an address without a name.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if length >= size_of_val(&address.sun_path) {
        let errno = libc::ENAMETOOLONG;
        let index = 0;
        return Err(Failure { step, errno, index });
    }
    address.sun_family = UNIX;
    // SAFETY: the text is shorter than its place, as was just seen, and does not overlap it.
    unsafe { std::ptr::copy_nonoverlapping(path, address.sun_path.as_mut_ptr(), length) };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no addresses are involved.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    check(step, socket)?;
    let size = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: the address is as large as is said.
    let connected = unsafe { libc::connect(socket, (&raw const address).cast(), size) };
    check(step, connected)?;
    let unused = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Some(libc::SHUT_WR),
        libc::O_WRONLY => Some(libc::SHUT_RD),
        _ => None,
    };
    if let Some(unused) = unused {
        // SAFETY: no addresses are involved.
        check(step, unsafe { libc::shutdown(socket, unused) })?;
    }
    set_blocking(socket, true, step)?;
    Ok(socket)
}

/// Opens a device, which is there already.
pub(crate) fn open_device(path: *const c_char, flags: c_int, step: Step) -> Result<c_int, Failure> {
    make(path, flags, 0, step)
}

/// Opens a file without waiting: a queue without a partner or a terminal without a line must not hold the parent up. One that
/// is missing gets exactly this mode, where the flags say that it is to be made.
fn make(path: *const c_char, flags: c_int, mode: u16, step: Step) -> Result<c_int, Failure> {
    let quick = libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: a prepared text; the mask is this process's own.
    let file = unsafe {
        let mask = libc::umask(0);
        let file = libc::open(path, flags | quick, libc::c_uint::from(mode));
        libc::umask(mask);
        file
    };
    check(step, file)?;
    set_blocking(file, true, step)?;
    Ok(file)
}
