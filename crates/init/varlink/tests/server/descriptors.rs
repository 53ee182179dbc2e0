//! Descriptors that travel with messages.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use muster_varlink::{CallError, ServerOptions};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use crate::rig::Daemon;

/// The other end of what was sent speaks through what came back.
fn assert_connected(mut near: UnixStream, far: OwnedFd) {
    let mut far = UnixStream::from(far);
    far.write_all(b"hello").expect("the near end is open");
    drop(far);
    let mut text = String::new();
    near.read_to_string(&mut text).expect("text");
    assert_eq!(text, "hello");
}

fn echo(n: u32) -> String {
    format!("{{\"method\":\"test.Echo\",\"parameters\":{{\"n\":{n}}}}}\0")
}

fn send(stream: &UnixStream, text: &str, fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let slices = [IoSlice::new(text.as_bytes())];
    let sent = sendmsg(stream, &slices, &mut control, SendFlags::empty()).expect("room");
    assert_eq!(sent, text.len());
}

#[test]
fn descriptors_go_to_the_daemon_and_back() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut client = daemon.client();
    for count in [1usize, 16] {
        let pairs: Vec<_> = (0..count).map(|_| UnixStream::pair().unwrap()).collect();
        let fds: Vec<_> = pairs.iter().map(|(_, far)| far.as_fd()).collect();
        let (_, back): (Value, _) = client.call_with_fds("test.Echo", &json!({}), &fds).unwrap();
        assert_eq!(back.len(), count);
        for ((near, far), back) in pairs.into_iter().zip(back) {
            drop(far);
            assert_connected(near, back);
        }
    }
}

#[test]
fn descriptors_belong_to_the_message_they_were_sent_with() {
    let daemon = Daemon::start(ServerOptions::default());
    let stream = daemon.stream();
    let (near, far) = UnixStream::pair().unwrap();
    // All of it waits in the socket before the daemon reads the first byte that matters.
    send(&stream, &echo(1), &[]);
    send(&stream, &echo(2)[..10], &[far.as_fd()]);
    send(&stream, &echo(2)[10..], &[]);
    send(&stream, &echo(3), &[]);
    drop(far);
    let mut client = Replies::new(stream);
    assert_eq!(client.next(), (1, 0));
    assert_eq!(client.next(), (2, 1));
    assert_eq!(client.next(), (3, 0));
    assert_connected(near, client.fds.pop().unwrap());
}

/// Reads replies one at a time, with what comes along.
struct Replies {
    stream: UnixStream,
    fds: Vec<OwnedFd>,
}

impl Replies {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            fds: Vec::new(),
        }
    }

    /// The number in the next reply, and how many descriptors came with it.
    fn next(&mut self) -> (u64, usize) {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let mut text = Vec::new();
        let before = self.fds.len();
        loop {
            let mut byte = [0];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [std::io::IoSliceMut::new(&mut byte)];
            let got = recvmsg(&self.stream, &mut slices, &mut control, RecvFlags::empty())
                .expect("a byte in time");
            assert_eq!(got.bytes, 1);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    self.fds.extend(rights);
                }
            }
            if byte == [0] {
                break;
            }
            text.push(byte[0]);
        }
        let reply: Value = serde_json::from_slice(&text).expect("a reply");
        let number = reply["parameters"]["n"].as_u64().expect("a number");
        (number, self.fds.len() - before)
    }
}

#[test]
fn too_many_descriptors_end_the_connection_and_none_stays_open() {
    let daemon = Daemon::start(ServerOptions::default());
    let (mut near, far) = UnixStream::pair().unwrap();
    let fds: Vec<_> = (0..17).map(|_| far.as_fd()).collect();
    let refused = daemon
        .client()
        .call_with_fds::<_, Value>("test.Echo", &json!({}), &fds)
        .unwrap_err();
    match refused {
        CallError::Refused { error, .. } => assert!(error.parameters.text().contains("16")),
        other => panic!("{other:?}"),
    }
    // The same in pieces, each within the limit.
    let stream = daemon.stream();
    for piece in ["{", "\"a\"", ":"] {
        send(&stream, piece, &fds[..6]);
    }
    let mut told = String::new();
    (&stream).read_to_string(&mut told).unwrap();
    assert!(told.contains("descriptors"), "{told}");
    drop(far);
    // The end of the stream comes only when every copy is closed.
    assert_eq!(near.read(&mut [0]).unwrap(), 0);
}
