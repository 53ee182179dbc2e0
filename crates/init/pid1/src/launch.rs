//! Starting programs: fork, then exec with everything prepared beforehand.

use std::ffi::{CStr, CString, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use muster_handover::LINK_VARIABLE;
use rustix::process::Pid;

use crate::policy::EXIT_NOT_EXECUTED;
use crate::programs::Chosen;
use crate::report::{Level, say};
use crate::signals;

/// The number under which core finds its end of the link.
const LINK_NUMBER: RawFd = 3;

/// What core is started with, as the kernel wants it, so that starting allocates nothing.
#[derive(Debug)]
pub struct Launcher {
    normal: Strings,
    safe: Strings,
    environment: Strings,
}

impl Launcher {
    /// Core's arguments and the environment, both without what init adds.
    pub fn new(
        arguments: &[OsString],
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        let arguments = || {
            arguments
                .iter()
                .map(|argument| c_string(argument.as_bytes()))
        };
        let name = || std::iter::once(c"muster-core".to_owned());
        let safe = std::iter::once(c"--safe-mode".to_owned());
        let link = c_string(format!("{LINK_VARIABLE}={LINK_NUMBER}").as_bytes());
        let environment =
            environment
                .filter(|(name, _)| name != LINK_VARIABLE)
                .map(|(name, value)| {
                    let mut entry = name.into_vec();
                    entry.push(b'=');
                    entry.extend(value.as_bytes());
                    c_string(&entry)
                });
        Self {
            normal: Strings::new(name().chain(arguments())),
            safe: Strings::new(name().chain(safe).chain(arguments())),
            environment: Strings::new(environment.chain(std::iter::once(link))),
        }
    }

    /// Starts core with its end of the link. That the program cannot be executed is not known yet when this
    /// returns: the process then ends with [`EXIT_NOT_EXECUTED`].
    pub fn start(
        &self,
        program: &Chosen<'_>,
        safe_mode: bool,
        link: BorrowedFd<'_>,
    ) -> io::Result<Pid> {
        let arguments = if safe_mode { &self.safe } else { &self.normal };
        fork(&mut || {
            // A session of its own: keys that are typed at a terminal are for init, which passes them on.
            let _ = rustix::process::setsid();
            match pass_on(link, LINK_NUMBER) {
                Ok(()) => execute(program, arguments, &self.environment),
                Err(error) => error,
            }
        })
    }
}

/// Executes this program's own successor; returns only if that fails.
pub(crate) fn execute_in_place(path: &CStr, arguments: Vec<CString>) -> io::Error {
    let arguments = Strings::new(arguments.into_iter());
    let environment = Strings::new(own_environment());
    let program = Chosen {
        path,
        file: None,
        known_good: false,
    };
    execute(&program, &arguments, &environment)
}

/// Starts a helper with the descriptors of this process that are not close-on-exec.
pub(crate) fn start_helper(path: &CStr, arguments: Vec<CString>) -> io::Result<Pid> {
    let arguments = Strings::new(arguments.into_iter());
    let environment = Strings::new(own_environment());
    let program = Chosen {
        path,
        file: None,
        known_good: false,
    };
    fork(&mut || execute(&program, &arguments, &environment))
}

fn own_environment() -> impl Iterator<Item = CString> {
    std::env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        c_string(name.as_bytes())
    })
}

/// Makes a child that runs `program`, which returns only if nothing could be executed.
#[expect(
    unsafe_code,
    reason = "std's way to start programs allocates and waits"
)]
fn fork(program: &mut dyn FnMut() -> io::Error) -> io::Result<Pid> {
    // SAFETY: this process has one thread, so no lock is held by another one that the child lacks.
    let number = unsafe { libc::fork() };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(pid) = Pid::from_raw(number) {
        return Ok(pid);
    }
    signals::restore_for_exec();
    let error = program();
    say(Level::Error, format_args!("cannot execute: {error}"));
    // SAFETY: it ends the child without running anything that belongs to the parent.
    unsafe { libc::_exit(EXIT_NOT_EXECUTED) }
}

/// In a child: the descriptor under a number, not closed by exec.
#[expect(
    unsafe_code,
    reason = "rustix cannot duplicate to a number that may be in use"
)]
fn pass_on(descriptor: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    let result = if descriptor.as_raw_fd() == number {
        // SAFETY: no memory is involved.
        unsafe { libc::fcntl(number, libc::F_SETFD, 0) }
    } else {
        // SAFETY: whatever has the number is of no use to the program that is executed next.
        unsafe { libc::dup2(descriptor.as_raw_fd(), number) }
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Executes the program; returns only if that fails.
#[expect(unsafe_code, reason = "rustix has no stable exec")]
fn execute(program: &Chosen<'_>, arguments: &Strings, environment: &Strings) -> io::Error {
    let (arguments, environment) = (arguments.pointers(), environment.pointers());
    match program.file {
        // SAFETY: the arrays end with a null pointer, and what they point to lives as long as they do.
        Some(file) => unsafe {
            libc::syscall(
                libc::SYS_execveat,
                file.as_raw_fd(),
                c"".as_ptr(),
                arguments,
                environment,
                libc::AT_EMPTY_PATH,
            );
        },
        // SAFETY: as above.
        None => unsafe {
            libc::execve(program.path.as_ptr(), arguments, environment);
        },
    }
    io::Error::last_os_error()
}

/// Strings as exec wants them.
#[derive(Debug)]
struct Strings {
    /// Owns what the pointers point to; moving this does not move the strings.
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = CString>) -> Self {
        let strings: Vec<CString> = strings.collect();
        let ends = std::iter::once(std::ptr::null());
        let pointers = strings
            .iter()
            .map(|string| string.as_ptr())
            .chain(ends)
            .collect();
        Self {
            _strings: strings,
            pointers,
        }
    }

    fn pointers(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// Strings of the operating system hold no NUL byte; what follows one would not be seen anyway.
pub(crate) fn c_string(bytes: &[u8]) -> CString {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}
