//! What the loop waits for.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::state::SlotIndex;

/// How many sources are served between two looks at the time.
const BATCH: usize = 64;
/// Tokens from here on are control sockets, and then streams.
const FIRST_CONTROL: u64 = 16;
const FIRST_STREAM: u64 = 64;
/// And then connections that are not streams yet.
const FIRST_GREETING: u64 = 1 << 63;
/// The longest wait, so that the clock's jumps matter little.
const WAIT_MAX_US: u64 = 60_000_000;

/// Something that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    Feed,
    Syslog,
    Native,
    Kernel,
    Listener,
    Control(usize),
    Stream(SlotIndex),
    Greeting(u64),
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Self::Signals => 0,
            Self::Feed => 1,
            Self::Syslog => 2,
            Self::Native => 3,
            Self::Kernel => 4,
            Self::Listener => 5,
            Self::Control(index) => FIRST_CONTROL + index as u64,
            Self::Stream(slot) => FIRST_STREAM + slot.number() as u64,
            Self::Greeting(number) => FIRST_GREETING + number,
        }
    }

    fn of(token: u64) -> Option<Self> {
        Some(match token {
            0 => Self::Signals,
            1 => Self::Feed,
            2 => Self::Syslog,
            3 => Self::Native,
            4 => Self::Kernel,
            5 => Self::Listener,
            FIRST_CONTROL..FIRST_STREAM => {
                Self::Control(usize::try_from(token - FIRST_CONTROL).ok()?)
            }
            FIRST_GREETING.. => Self::Greeting(token - FIRST_GREETING),
            FIRST_STREAM.. => {
                Self::Stream(SlotIndex::of(usize::try_from(token - FIRST_STREAM).ok()?))
            }
            _ => return None,
        })
    }
}

/// The kernel's list of what can be read. It goes round: who was served waits behind the others.
#[derive(Debug)]
pub(super) struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    pub(super) fn add(&self, descriptor: BorrowedFd<'_>, source: Source) -> io::Result<()> {
        let data = EventData::new_u64(source.token());
        Ok(epoll::add(&self.epoll, descriptor, data, EventFlags::IN)?)
    }

    /// Forgets a descriptor. Closing it would not do: others hold the same socket.
    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // It can only fail for one that is not there.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Waits for at most `timeout` microseconds.
    pub(super) fn wait(&self, timeout: Option<u64>) -> io::Result<Vec<Source>> {
        let micros = timeout.map(|timeout| {
            // In whole milliseconds, rounded up: the kernel's older call knows no others.
            timeout.min(WAIT_MAX_US).next_multiple_of(1000)
        });
        let timeout = micros.map(|micros| Timespec {
            tv_sec: i64::try_from(micros / 1_000_000).unwrap_or(0),
            tv_nsec: i64::try_from(micros % 1_000_000 * 1000).unwrap_or(0),
        });
        let mut events: Vec<Event> = Vec::with_capacity(BATCH);
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events
            .iter()
            .filter_map(|event| Source::of(event.data.u64()))
            .collect())
    }
}
