//! SFTP, version 3, as OpenSSH speaks it: many requests on their way at once.
//!
//! [`packet`] reads and writes packets and does nothing else; [`client`] sends requests over a channel and finds the answers
//! that belong to them; [`files`] is [`Files`](crate::files::Files) over that. A small client of our own: file names are bytes,
//! answers are bounded before they are believed, and reads and writes are pipelined.

mod client;
mod files;
mod packet;

pub(crate) use files::SftpFiles;
