//! Listening to the kernel, or to udev.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use thiserror::Error;

use super::uevent::{MAX_MESSAGE, Uevent, UeventAction};
use super::{Device, Properties};

/// Room for a storm of messages in the kernel; beyond it messages are lost, which is told.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Messages that are no business of ours, skipped in one go.
const SKIPPED_AT_MOST: usize = 1024;

/// Whose messages are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UeventSource {
    /// The kernel's own.
    Kernel,
    /// Those that udev sends on when it is done with a device.
    Udev,
}

impl UeventSource {
    /// The multicast group.
    fn group(self) -> u32 {
        match self {
            Self::Kernel => 1,
            Self::Udev => 2,
        }
    }
}

/// Nobody can be listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot listen to device messages")]
pub struct OpenMonitorError {
    /// Why.
    #[source]
    pub source: Errno,
}

/// A message cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot receive a device message")]
pub struct ReceiveUeventError {
    /// Why.
    #[source]
    pub source: Errno,
}

/// What happened to devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UeventNotice {
    /// This device is there, with these units.
    Present(Device),
    /// This device is gone, has no units (any more), or is not ready.
    Absent {
        /// Its place in sysfs.
        sysfs: Box<str>,
    },
    /// This device, perhaps without units, has moved from one place in sysfs to another.
    Moved {
        /// Where it was.
        from: Box<str>,
        /// What it is now; `None` if it has no units.
        to: Option<Device>,
    },
    /// Messages were lost: only a new [`DeviceScan`](super::DeviceScan) tells what is there.
    Overrun,
}

/// A socket on which devices are announced.
#[derive(Debug)]
pub struct UeventMonitor {
    socket: OwnedFd,
    source: UeventSource,
}

impl UeventMonitor {
    /// Starts listening.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open(source: UeventSource) -> Result<Self, OpenMonitorError> {
        let open = || {
            let socket = rustix::net::socket_with(
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                Some(KOBJECT_UEVENT),
            )?;
            let forced = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER);
            if forced.is_err() {
                sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
            }
            rustix::net::bind(&socket, &SocketAddrNetlink::new(0, source.group()))?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Self { socket, source }),
            Err(source) => Err(OpenMonitorError { source }),
        }
    }

    /// The next message about a device that has or had units, or `None` if none waits.
    ///
    /// Messages of other senders and those that cannot be read are skipped.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self) -> Result<Option<UeventNotice>, ReceiveUeventError> {
        let mut buffer = vec![MaybeUninit::uninit(); MAX_MESSAGE];
        for _ in 0..SKIPPED_AT_MOST {
            let received =
                rustix::net::recvfrom(&self.socket, buffer.as_mut_slice(), RecvFlags::TRUNC);
            let ((message, _), length, sender) = match received {
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(Errno::NOBUFS) => return Ok(Some(UeventNotice::Overrun)),
                Err(source) => return Err(ReceiveUeventError { source }),
            };
            let sender = sender.and_then(|any| SocketAddrNetlink::try_from(any).ok());
            // Only root may send to a group, and only the kernel is nobody.
            let genuine = sender.is_some_and(|sender| {
                sender.groups() == self.source.group()
                    && (self.source == UeventSource::Udev || sender.pid() == 0)
            });
            if !genuine || length > message.len() {
                continue;
            }
            if let Ok(event) = Uevent::parse(message) {
                return Ok(Some(self.interpret(&event)));
            }
        }
        Ok(None)
    }

    fn interpret(&self, event: &Uevent<'_>) -> UeventNotice {
        let sysfs = format!("/sys{}", event.device);
        let properties: Properties = event
            .properties
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect();
        let udev = self.source == UeventSource::Udev;
        let device = || Device::from_properties(&sysfs, &properties, udev);
        match (event.action, event.get("DEVPATH_OLD")) {
            (UeventAction::Remove, _) => UeventNotice::Absent {
                sysfs: sysfs.into(),
            },
            (UeventAction::Move, Some(old)) => UeventNotice::Moved {
                from: format!("/sys{old}").into(),
                to: device(),
            },
            _ => match device() {
                Some(device) => UeventNotice::Present(device),
                None => UeventNotice::Absent {
                    sysfs: sysfs.into(),
                },
            },
        }
    }
}

impl AsFd for UeventMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
