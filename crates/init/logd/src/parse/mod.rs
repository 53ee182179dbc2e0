//! What clients and the kernel send, taken apart without I/O.
//!
//! Everything here reads bytes that nobody vouches for: no function panics, none allocates more than
//! a small multiple of its input, and none lets a client name a field that begins with `_`, for those
//! are logd's own word about who wrote an entry.

pub mod greeting;
pub mod kmsg;
pub mod lines;
pub mod native;
pub mod priority;
pub mod syslog;
