//! Where namespaces are kept that outlive the processes in them.
//!
//! A store is a pair of datagram sockets whose ends the manager holds. The first process that is given it makes the namespace
//! and sends a descriptor of it into the pair, where it stays: whoever comes later looks at it without taking it out, so that
//! nothing is lost by a process that ends halfway. A lock on the reading end keeps two from being the first.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::calls;
use super::outcome::{During, SetupError};
use crate::job::Job;
use crate::step::Step;

/// The stores that a process was given.
#[derive(Default)]
pub(super) struct Stores {
    pub(super) network: Option<Store>,
    pub(super) ipc: Option<Store>,
}

impl Stores {
    /// Takes the descriptors that the job names.
    pub(super) fn take(job: &Job) -> Result<Self, SetupError> {
        let take = |numbers: Option<[u16; 2]>| {
            let store = numbers.map(|[reads, writes]| {
                Ok::<_, Errno>(Store {
                    reads: calls::take(i32::from(reads))?,
                    writes: calls::take(i32::from(writes))?,
                })
            });
            store.transpose().during(Step::Fds, || {
                "cannot take what namespaces are kept in".to_owned()
            })
        };
        Ok(Self {
            network: take(job.network_store)?,
            ipc: take(job.ipc_store)?,
        })
    }

    /// The numbers of those descriptors.
    pub(super) fn numbers(job: &Job) -> impl Iterator<Item = i32> {
        let pairs = [job.network_store, job.ipc_store];
        pairs.into_iter().flatten().flatten().map(i32::from)
    }

    /// None of them, unless they can be used.
    pub(super) fn filter(self, usable: bool) -> Self {
        if usable { self } else { Self::default() }
    }
}

/// One place for one namespace.
pub(crate) struct Store {
    reads: OwnedFd,
    writes: OwnedFd,
}

impl Store {
    /// A store by its two ends: where it is read, and where it is written.
    pub(crate) fn new([reads, writes]: [OwnedFd; 2]) -> Self {
        Self { reads, writes }
    }

    /// Waits until nobody else has it. It is let go when this process closes its descriptors, or ends.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, Errno> {
        loop {
            match fcntl_lock(&self.reads, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                locked => return locked.map(|()| Locked(self)),
            }
        }
    }
}

/// A store that nobody else uses at the moment.
pub(crate) struct Locked<'a>(&'a Store);

impl Locked<'_> {
    /// The namespace that is kept here.
    pub(crate) fn kept(&self) -> Result<Option<OwnedFd>, Errno> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut data = [IoSliceMut::new(&mut byte)];
        match recvmsg(&self.0.reads, &mut data, &mut control, flags) {
            Err(Errno::AGAIN) => return Ok(None),
            received => received?,
        };
        let rights = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        // A message without a descriptor is none of ours.
        rights.map(Some).ok_or(Errno::BADMSG)
    }

    /// Keeps a namespace.
    pub(crate) fn keep(&self, namespace: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let rights = [namespace];
        control.push(SendAncillaryMessage::ScmRights(&rights));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let data = [IoSlice::new(b"n")];
        sendmsg(self.0.writes.as_fd(), &data, &mut control, flags).map(|_| ())
    }
}
