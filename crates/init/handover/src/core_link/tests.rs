use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::thread;

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;
use crate::to_core::Outcome;
use crate::to_init::ToInit;
use crate::{Inbox, InitLink, Progress, Received};

const BEGIN: Begin = Begin {
    init_version: PROTOCOL_VERSION,
    cause: Cause::FirstBoot,
    crashes: 0,
    safe_mode: false,
    supervised: true,
};

fn exit(seq: u64) -> Exit {
    Exit {
        seq,
        pid: 42,
        outcome: Outcome { raw: 0 },
    }
}

fn file_with(text: &str) -> OwnedFd {
    let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(text.as_bytes()).unwrap();
    file.into()
}

fn text_of(descriptor: OwnedFd) -> String {
    let mut file = File::from(descriptor);
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// A link on which the handover has been done with nothing kept.
fn linked() -> (InitLink, CoreLink) {
    let (init, socket) = InitLink::pair().unwrap();
    assert_eq!(init.begin(&BEGIN).unwrap(), Progress::Sent);
    assert_eq!(init.end().unwrap(), Progress::Sent);
    let (core, _) = CoreLink::take(socket).unwrap();
    let mut inbox = Inbox::new();
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Message(
            ToInit::Hello {
                version: PROTOCOL_VERSION
            },
            _
        )
    ));
    (init, core)
}

#[test]
fn everything_kept_is_handed_over_by_name() {
    let (init, socket) = InitLink::pair().unwrap();
    let files: Vec<(String, OwnedFd)> = (0..600)
        .map(|n| {
            (
                format!("fds:unit-{n}.service:x:0"),
                file_with(&n.to_string()),
            )
        })
        .collect();
    let core = thread::spawn(move || CoreLink::take(socket).unwrap());

    let begin = Begin {
        cause: Cause::Crash {
            outcome: Outcome { raw: 9 },
        },
        crashes: 2,
        safe_mode: true,
        ..BEGIN
    };
    assert_eq!(init.begin(&begin).unwrap(), Progress::Sent);
    let mut sent = 0;
    while sent < files.len() {
        let rest = files[sent..].iter();
        let named = rest.map(|(name, file)| (name.as_str(), file.as_fd()));
        match init.stored(named).unwrap() {
            Some(taken) => sent += taken,
            None => thread::yield_now(),
        }
    }
    assert_eq!(init.exits([exit(8), exit(9)].into_iter()), Ok(Some(2)));
    assert_eq!(init.end().unwrap(), Progress::Sent);

    let (_link, mut begun) = core.join().unwrap();
    assert_eq!(begun.cause, begin.cause);
    assert_eq!((begun.crashes, begun.safe_mode), (2, true));
    assert_eq!(begun.exits, [exit(8), exit(9)]);
    assert_eq!(begun.kept.len(), 600);
    let one = begun.kept.remove("fds:unit-577.service:x:0").unwrap();
    assert!(
        rustix::io::fcntl_getfd(&one)
            .unwrap()
            .contains(rustix::io::FdFlags::CLOEXEC)
    );
    assert_eq!(text_of(one), "577");
}

#[test]
fn stored_descriptors_arrive_even_if_core_is_gone() {
    let (init, core) = linked();
    let files: Vec<(String, OwnedFd)> = (0..300)
        .map(|n| (format!("sock:{n}"), file_with(&n.to_string())))
        .collect();
    let named: Vec<(&str, BorrowedFd<'_>)> = files
        .iter()
        .map(|(name, file)| (name.as_str(), file.as_fd()))
        .collect();
    core.store(&named).unwrap();
    core.ack(5).unwrap();
    // What core has not read makes the kernel report a reset before anything else.
    assert_eq!(init.ping().unwrap(), Progress::Sent);
    drop(core);

    let mut inbox = Inbox::new();
    let mut kept = Vec::new();
    loop {
        match init.receive(&mut inbox).unwrap() {
            Received::Message(ToInit::Store(names), descriptors) => {
                kept.extend(names.iter().map(str::to_owned).zip(descriptors));
            }
            Received::Message(message, _) => {
                assert_eq!(message, ToInit::Ack { seq: 5 });
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kept.len(), 300);
    let (name, descriptor) = kept.pop().unwrap();
    assert_eq!(
        (name.as_str(), text_of(descriptor).as_str()),
        ("sock:299", "299")
    );
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Closed
    ));
    assert_eq!(init.ping(), Err(Errno::PIPE));
}

#[test]
fn what_init_says_is_received_in_order() {
    let (init, mut core) = linked();
    let signal = Signal {
        number: 15,
        sender: 1,
    };
    let _ = init.exits([exit(1), exit(2)].into_iter()).unwrap();
    let _ = init.signal(signal).unwrap();
    let _ = init.ping().unwrap();
    let _ = init.refused(4).unwrap();
    let mut received = Vec::new();
    core.receive(&mut |message| received.push(message)).unwrap();
    assert_eq!(
        received,
        [
            FromInit::Exit(exit(1)),
            FromInit::Exit(exit(2)),
            FromInit::Signal(signal),
            FromInit::Ping,
            FromInit::Refused(4),
        ]
    );
    drop(init);
    assert!(matches!(core.receive(&mut |_| {}), Err(TakeError::Closed)));
}

#[test]
fn init_never_blocks_on_a_core_that_does_not_read() {
    let (init, mut core) = linked();
    let mut pings = 0;
    while init.ping().unwrap() == Progress::Sent {
        pings += 1;
    }
    let mut received = 0;
    while received < pings {
        core.receive(&mut |_| received += 1).unwrap();
    }
    assert_eq!(init.ping().unwrap(), Progress::Sent);
}

#[test]
fn messages_of_a_newer_side_are_skipped() {
    let (init, socket) = InitLink::pair().unwrap();
    let unknown = Payload::new(999);
    channel::send(init.as_fd(), &unknown, &[], SendFlags::empty()).unwrap();
    let _ = init.begin(&BEGIN).unwrap();
    let _ = init.end().unwrap();
    let (core, _) = CoreLink::take(socket).unwrap();
    let file = file_with("");
    channel::send(core.as_fd(), &unknown, &[file.as_fd()], SendFlags::empty()).unwrap();
    let mut inbox = Inbox::new();
    let _ = init.receive(&mut inbox).unwrap();
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Unknown
    ));
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Nothing
    ));
}

#[test]
fn descriptors_that_nobody_takes_are_closed() {
    let (init, core) = linked();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    core.store(&[("log:a", writer.as_fd())]).unwrap();
    drop(writer);
    let mut inbox = Inbox::new();
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Message(ToInit::Store(_), _)
    ));
    assert!(matches!(
        init.receive(&mut inbox).unwrap(),
        Received::Nothing
    ));
    // The end of the pipe is reported only when no writing end is left.
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
}

#[test]
fn names_and_texts_out_of_bounds_are_not_sent() {
    let (init, core) = linked();
    let file = file_with("");
    let long = "n".repeat(crate::MAX_NAME + 1);
    for name in ["", long.as_str()] {
        let named = [("good", file.as_fd()), (name, file.as_fd())];
        assert!(matches!(core.store(&named), Err(SendError::Name(_))));
        assert!(matches!(core.drop_prefix(name), Err(SendError::Name(_))));
    }
    let path = "p".repeat(MAX_TEXT + 1);
    let upgrade = Upgrade {
        core: Some(&path),
        init: false,
    };
    assert!(matches!(
        core.upgrade(upgrade),
        Err(SendError::TooLong { length: 4097 })
    ));
    assert!(matches!(
        init.receive(&mut Inbox::new()).unwrap(),
        Received::Nothing
    ));
}

#[test]
fn only_a_link_is_taken_over() {
    let file = file_with("");
    let error = adopt_link(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap_err();
    assert!(matches!(
        error,
        TakeError::NotALink {
            source: Some(_),
            ..
        }
    ));
    // The test's environment has no link.
    assert!(matches!(
        CoreLink::take_from_env(),
        Err(TakeError::NotGiven)
    ));
}
