//! Terminals, as the new process takes them.

#![expect(
    unsafe_code,
    reason = "terminals are set up by system calls of the new process"
)]

use std::ffi::{c_char, c_int};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;

use crate::child::streams::open_device;
use crate::child::{Failure, check};
use crate::context::{TakeControl, Terminal};
use crate::step::Step;

/// Frees a virtual console.
const VT_DISALLOCATE: libc::Ioctl = 0x5608;
/// A virtual console shows text again ...
const KDSETMODE: libc::Ioctl = 0x4b3a;
const KD_TEXT: c_int = 0;
/// ... and its keys are characters, of one byte or more.
const KDSKBMODE: libc::Ioctl = 0x4b45;
const K_XLATE: c_int = 1;
const K_UNICODE: c_int = 3;
const UTF8: &std::ffi::CStr = c"/sys/module/vt/parameters/default_utf8";
/// No setting is locked.
const TIOCSLCKTRMIOS: libc::Ioctl = 0x5457;
/// Those who may write to a terminal: its owner, and the group of those who send messages.
const MODE: libc::mode_t = 0o620;
/// Scroll region, cursor and screen as after switching on.
const CLEAR: &[u8] = b"\x1b[r\x1b[H\x1b[3J";

/// Opens the context's terminal; for standard input also as the controlling one, where that is wanted. The `first` stream
/// that it is opened for finds it as it is to be.
pub(crate) fn open(
    path: *const c_char,
    terminal: &Terminal,
    (is_input, first): (bool, bool),
    step: Step,
) -> Result<c_int, Failure> {
    if first && terminal.clear {
        deallocate(&terminal.path);
    }
    let mut file = open_device(path, libc::O_RDWR, step)?;
    if first && terminal.hang_up {
        // SAFETY: no addresses are involved. A terminal that cannot be hung up is used as it is.
        unsafe { libc::ioctl(file, libc::TIOCVHANGUP) };
        // SAFETY: opened above; after hanging up it is of no more use.
        unsafe { libc::close(file) };
        file = open_device(path, libc::O_RDWR, step)?;
    }
    if is_input {
        take_control(file, terminal.control, step)?;
    }
    if first {
        if terminal.reset {
            reset(file);
        }
        if terminal.clear {
            // SAFETY: a constant text and its own length. A screen that stays as it was is no reason to fail.
            unsafe { libc::write(file, CLEAR.as_ptr().cast(), CLEAR.len()) };
        }
    }
    if let Some((rows, columns)) = terminal.size {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the structure is the one that this request takes. Not every terminal has a size.
        unsafe { libc::ioctl(file, libc::TIOCSWINSZ, &raw const size) };
    }
    Ok(file)
}

/// Gives a virtual console back to the kernel, with all that it shows. One that somebody uses stays.
fn deallocate(path: &str) {
    let number = path.strip_prefix("/dev/tty").map(str::parse::<u8>);
    let Some(Ok(number @ 1..)) = number else {
        return;
    };
    let Ok(console) = open_device(c"/dev/tty0".as_ptr(), libc::O_RDWR, Step::Stdin) else {
        return;
    };
    // SAFETY: no addresses are involved; the descriptor was opened above and is not used again.
    unsafe {
        libc::ioctl(console, VT_DISALLOCATE, c_int::from(number));
        libc::close(console);
    }
}

/// Makes a terminal the controlling one of this process's session, if no other session has it.
pub(crate) fn control(file: &OwnedFd) -> Result<(), Errno> {
    let taken = take_control(file.as_raw_fd(), TakeControl::IfFree, Step::Stdin);
    taken.map_err(|failure| Errno::from_raw_os_error(failure.errno))
}

fn take_control(file: c_int, control: TakeControl, step: Step) -> Result<(), Failure> {
    let force = match control {
        TakeControl::No => return Ok(()),
        // Nobody can wait here.
        TakeControl::IfFree | TakeControl::Wait => 0,
        TakeControl::Force => 1,
    };
    // SAFETY: no addresses are involved.
    check(step, unsafe { libc::ioctl(file, libc::TIOCSCTTY, force) }).map(|_| ())
}

/// Makes somebody the owner of a terminal: who reads from it may open it again and say who else may write to it. What is no
/// terminal stays whose it is.
pub(crate) fn give(file: c_int, uid: u32, step: Step) -> Result<(), Failure> {
    let mut settings = std::mem::MaybeUninit::<libc::termios2>::uninit();
    // SAFETY: the request fills the structure.
    if unsafe { libc::ioctl(file, libc::TCGETS2, settings.as_mut_ptr()) } != 0 {
        return Ok(());
    }
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call fills the structure.
    check(step, unsafe { libc::fstat(file, stat.as_mut_ptr()) })?;
    // SAFETY: filled above.
    let stat = unsafe { stat.assume_init() };
    if stat.st_mode & !libc::S_IFMT != MODE {
        // SAFETY: no addresses are involved.
        check(step, unsafe { libc::fchmod(file, MODE) })?;
    }
    if stat.st_uid != uid {
        // SAFETY: no addresses are involved; the group stays.
        check(step, unsafe { libc::fchown(file, uid, libc::gid_t::MAX) })?;
    }
    Ok(())
}

/// What only virtual consoles have, and what no terminal keeps for the next: who else may open it, which settings may change.
fn unlock(file: c_int) {
    // SAFETY: all zeros lock nothing.
    let unlocked: libc::termios2 = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is at least as large as the one that this request reads. Only root may ask for it.
    unsafe { libc::ioctl(file, TIOCSLCKTRMIOS, &raw const unlocked) };
    // SAFETY: no addresses are involved. Not every terminal has these, and none has to.
    unsafe {
        libc::ioctl(file, libc::TIOCNXCL);
        libc::ioctl(file, KDSETMODE, KD_TEXT);
        libc::ioctl(file, KDSKBMODE, keyboard_mode());
    }
}

/// What the kernel was told keys to be.
fn keyboard_mode() -> c_int {
    let Ok(file) = open_device(UTF8.as_ptr(), libc::O_RDONLY, Step::Stdin) else {
        return K_UNICODE;
    };
    let mut said = 0u8;
    // SAFETY: the byte is as large as is said; the descriptor was opened above and is not used again.
    unsafe {
        libc::read(file, (&raw mut said).cast(), 1);
        libc::close(file);
    }
    match said {
        b'0' | b'N' => K_XLATE,
        _ => K_UNICODE,
    }
}

/// Settings with which a person can type, whatever the last program left behind.
fn reset(file: c_int) {
    unlock(file);
    let mut settings = std::mem::MaybeUninit::<libc::termios2>::uninit();
    // SAFETY: the request fills the structure.
    if unsafe { libc::ioctl(file, libc::TCGETS2, settings.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled above.
    let mut settings = unsafe { settings.assume_init() };
    settings.c_iflag &=
        !(libc::IGNBRK | libc::BRKINT | libc::ISTRIP | libc::INLCR | libc::IGNCR | libc::IUCLC);
    settings.c_iflag |= libc::ICRNL | libc::IMAXBEL | libc::IUTF8;
    settings.c_oflag |= libc::ONLCR | libc::OPOST;
    settings.c_cflag |= libc::CREAD;
    settings.c_lflag = libc::ISIG
        | libc::ICANON
        | libc::IEXTEN
        | libc::ECHO
        | libc::ECHOE
        | libc::ECHOK
        | libc::ECHOCTL
        | libc::ECHOKE;
    let characters = [
        (libc::VINTR, 3),
        (libc::VQUIT, 28),
        (libc::VERASE, 127),
        (libc::VKILL, 21),
        (libc::VEOF, 4),
        (libc::VSTART, 17),
        (libc::VSTOP, 19),
        (libc::VSUSP, 26),
        (libc::VLNEXT, 22),
        (libc::VWERASE, 23),
        (libc::VREPRINT, 18),
        (libc::VEOL, 0),
        (libc::VEOL2, 0),
        (libc::VTIME, 0),
        (libc::VMIN, 1),
    ];
    for (place, character) in characters {
        if let Some(cell) = settings.c_cc.get_mut(place) {
            *cell = character;
        }
    }
    // SAFETY: the structure is the one that this request takes.
    unsafe { libc::ioctl(file, libc::TCSETS2, &raw const settings) };
    // SAFETY: no addresses are involved. What nobody has read or shown yet was meant for the last program.
    unsafe { libc::ioctl(file, libc::TCFLSH, libc::TCIOFLUSH) };
}
