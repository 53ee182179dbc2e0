//! A terminal that another session has: whoever wants it waits until it is free.

use std::ffi::CString;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::calls;
use super::outcome::{During, SetupError};
use crate::context::{Identity, TakeControl, Terminal};
use crate::job::{AwaitedTerminal, Job};
use crate::step::Step;
use crate::terminal;

/// A session that had closed the terminal before it ended is noticed after this time.
const LONGEST: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Takes the terminal that the process is to control, as soon as it can be had, and connects its streams.
pub(super) fn take(job: &Job) -> Result<(), SetupError> {
    let Some(AwaitedTerminal { terminal, streams }) = &job.terminal else {
        return Ok(());
    };
    let what = || format!("cannot use the terminal {}", terminal.path);
    let taken = wait(terminal).during(Step::Stdin, what)?;
    for number in streams {
        calls::duplicate(&taken, i32::from(*number)).during(Step::Stdin, what)?;
    }
    Ok(())
}

/// Whoever reads from a terminal as somebody else owns it for that time.
pub(super) fn give(job: &Job, identity: Option<&Identity>) -> Result<(), SetupError> {
    let Some(identity) = identity.filter(|_| job.gives_terminal) else {
        return Ok(());
    };
    let given = terminal::give(0, identity.uid, Step::Stdin);
    let given = given.map_err(|failure| Errno::from_raw_os_error(failure.errno));
    given.during(Step::Stdin, || {
        format!("cannot give its terminal to user {}", identity.uid)
    })
}

fn wait(terminal: &Terminal) -> Result<OwnedFd, Errno> {
    let path = CString::new(&*terminal.path).map_err(|_| Errno::INVAL)?;
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // Whoever closes it may be the one who had it. Without that, it is looked at from time to time.
    let _ = inotify::add_watch(
        &watch,
        &*path,
        WatchFlags::CLOSE_WRITE | WatchFlags::CLOSE_NOWRITE,
    );
    let mut wanted = Terminal {
        control: TakeControl::No,
        ..terminal.clone()
    };
    loop {
        forget_events(&watch);
        let opened = terminal::open(path.as_ptr(), &wanted, (true, true), Step::Stdin);
        let opened = opened.map_err(|failure| Errno::from_raw_os_error(failure.errno))?;
        let opened = calls::take(opened)?;
        match terminal::control(&opened) {
            Ok(()) => return Ok(opened),
            Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        // Once is enough to disconnect the others.
        wanted.hang_up = false;
        // It is open while this waits: closing it is an event too.
        match poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&LONGEST)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn forget_events(watch: &OwnedFd) {
    let mut room = [0u8; 4096];
    while rustix::io::read(watch, &mut room).is_ok_and(|count| count > 0) {}
}
