//! Where log messages come from. Each source owns its descriptor and is called when there is something to
//! read; it takes a bounded amount, so that no source starves another, and hands entries to the recorder.

mod datagram;
mod feed;
mod kernel;
mod native;
mod stream;
mod syslog;

pub use datagram::DatagramSocket;
pub use feed::{FeedEvent, FeedSource};
pub use kernel::KernelSource;
pub use native::NativeSource;
pub use stream::{StreamSource, StreamState, record_orphan};
pub use syslog::SyslogSource;

use std::io;

use thiserror::Error;

/// The most messages that a source takes before others get their turn.
const TURN_MAX: usize = 256;

/// Whether a source has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its turn is over; there may be more.
    Some,
    /// Everything that was there.
    All,
}

/// Why a source cannot be read.
#[derive(Debug, Error)]
#[error("cannot {operation} {source_name}")]
pub struct InputError {
    /// What was to be done.
    pub operation: &'static str,
    /// With which source.
    pub source_name: &'static str,
    /// What the system reported.
    #[source]
    pub source: io::Error,
}
