//! The epoll instance that stands for a server's sockets.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::connection::Interest;

/// What is ready.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    Listener,
    MoreCalls,
    Connection(u64),
}

/// Connections are numbered from here.
pub(super) const FIRST_CONNECTION: u64 = 2;

const LISTENER: u64 = 0;
const MORE_CALLS: u64 = 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    pub(super) hung_up: bool,
}

#[derive(Debug)]
pub(super) struct Poll {
    epoll: OwnedFd,
    /// Readable while calls wait that no socket will announce again.
    more_calls: OwnedFd,
}

/// How many sockets one turn looks at. The kernel puts the others first next time.
const BATCH: usize = 64;

impl Poll {
    pub(super) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let more_calls = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let data = EventData::new_u64(MORE_CALLS);
        epoll::add(&epoll, &more_calls, data, EventFlags::IN)?;
        Ok(Self { epoll, more_calls })
    }

    pub(super) fn watch_listener(&self, listener: &OwnedFd) -> Result<(), Errno> {
        let data = EventData::new_u64(LISTENER);
        epoll::add(&self.epoll, listener, data, EventFlags::IN)
    }

    pub(super) fn ignore_listener(&self, listener: &OwnedFd) {
        // It can only fail if the listener is not watched, which is what is wanted.
        let _ = epoll::delete(&self.epoll, listener);
    }

    /// A hang-up is always watched.
    pub(super) fn watch(
        &self,
        socket: impl AsFd,
        id: u64,
        interest: Interest,
        first: bool,
    ) -> Result<(), Errno> {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, interest.read);
        flags.set(EventFlags::OUT, interest.write);
        let data = EventData::new_u64(id);
        if first {
            epoll::add(&self.epoll, socket, data, flags)
        } else {
            epoll::modify(&self.epoll, socket, data, flags)
        }
    }

    pub(super) fn ready(&self) -> Vec<Ready> {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; BATCH];
        // Interrupted is nothing ready yet; the loop comes again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut space, Some(&AT_ONCE)) else {
            return Vec::new();
        };
        let ready = events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: match event.data.u64() {
                    LISTENER => Token::Listener,
                    MORE_CALLS => Token::MoreCalls,
                    id => Token::Connection(id),
                },
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        });
        ready.collect()
    }

    /// Makes the server's descriptor readable.
    pub(super) fn wake(&self) {
        // A counter that is full is readable too.
        let _ = rustix::io::write(&self.more_calls, &1u64.to_ne_bytes());
    }

    /// Undoes [`wake`](Self::wake).
    pub(super) fn calm(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.more_calls, &mut count);
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
