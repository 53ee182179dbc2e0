use super::*;
use crate::slots::SlotLimits;

const KIND: ReplyKind = ReplyKind("status");

struct Bench {
    link: Link,
    now: Duration,
    actions: Vec<Action>,
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

impl Bench {
    fn with(limits: LinkLimits) -> Self {
        Self {
            link: Link::new(limits, true),
            now: Duration::ZERO,
            actions: Vec::new(),
        }
    }

    fn open() -> Self {
        let mut bench = Self::with(LinkLimits::default());
        bench.feed(Event::Tick);
        bench.connect(1);
        bench
    }

    fn connect(&mut self, epoch: u64) -> Vec<Action> {
        self.feed(Event::Dialled {
            epoch: Epoch(epoch),
            hello: vec![bytes("info")],
        })
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let at = At {
            now: self.now,
            random: u64::MAX,
        };
        self.link.handle(at, event, &mut self.actions);
        std::mem::take(&mut self.actions)
    }

    fn pass(&mut self, time: u64) -> Vec<Action> {
        self.now += millis(time);
        self.feed(Event::Tick)
    }

    fn ask(&mut self, slot: u64) -> Vec<Action> {
        let expires = self.now + Duration::from_secs(5);
        self.feed(Event::Ask {
            slot: SlotId(slot),
            kind: KIND,
            message: bytes("ask"),
            expires,
        })
    }

    fn flush(&mut self, total: u64) -> Vec<Action> {
        self.feed(Event::Flushed {
            epoch: self.link.epoch,
            total,
        })
    }

    fn answer_probe(&mut self, conclusive: bool) -> Vec<Action> {
        self.feed(Event::ProbeAnswered {
            epoch: self.link.epoch,
            conclusive,
        })
    }
}

fn submit(message: Bytes) -> Event {
    Event::Submit {
        message,
        only: None,
    }
}

fn hello() -> Action {
    Action::Write(Outgoing::Hello(bytes("info")))
}

fn fetch(after: u64) -> Action {
    let WindowLimits {
        messages, bytes, ..
    } = WindowLimits::default();
    Action::Fetch(FetchRange {
        after,
        messages,
        bytes,
    })
}

fn durable(id: u64) -> Action {
    Action::Write(Outgoing::Durable {
        id,
        message: bytes("alert"),
    })
}

#[test]
fn dials_at_once_and_says_hello_first() {
    let mut bench = Bench::with(LinkLimits::default());
    assert_eq!(bench.feed(submit(bytes("early"))), [Action::Dial(Epoch(1))]);
    assert_eq!(bench.connect(1), [hello(), fetch(0)]);
    assert_eq!(bench.link.stats().ephemeral_dropped, 1);
    assert_eq!(
        bench.feed(submit(bytes("news"))),
        [Action::Write(Outgoing::Ephemeral(bytes("news")))]
    );
}

#[test]
fn durable_is_confirmed_by_a_probe_that_began_after_the_flush() {
    let mut bench = Bench::open();
    let written = bench.feed(Event::Fetched(vec![
        (1, bytes("alert")),
        (2, bytes("alert")),
    ]));
    assert_eq!(written[..2], [durable(1), durable(2)]);
    // Hello is 9 bytes on the wire, each alert 10: the second one is not complete.
    bench.flush(28);
    assert_eq!(bench.pass(999), []);
    assert_eq!(bench.pass(1), [Action::Probe(Epoch(1))]);
    bench.flush(29);
    assert_eq!(bench.answer_probe(true)[..1], [Action::Confirm(1)]);
    assert_eq!(bench.pass(1000), [Action::Probe(Epoch(1))]);
    assert_eq!(bench.answer_probe(true), [Action::Confirm(2)]);
    assert_eq!(bench.pass(60_000), [], "an idle link makes no probes");
    assert_eq!(bench.link.next_deadline(), None);
}

#[test]
fn an_inconclusive_answer_confirms_nothing_and_is_tried_again() {
    let mut bench = Bench::open();
    bench.feed(Event::Fetched(vec![(1, bytes("alert"))]));
    bench.flush(19);
    assert_eq!(bench.pass(1000), [Action::Probe(Epoch(1))]);
    assert_eq!(bench.answer_probe(false), []);
    assert_eq!(bench.pass(1000), [Action::Probe(Epoch(1))]);
}

#[test]
fn a_half_full_window_does_not_wait_for_its_probe() {
    let window = WindowLimits {
        messages: 4,
        ..WindowLimits::default()
    };
    let mut bench = Bench::with(LinkLimits {
        window,
        ..LinkLimits::default()
    });
    bench.feed(Event::Tick);
    bench.connect(1);
    bench.feed(Event::Fetched(vec![
        (1, bytes("alert")),
        (2, bytes("alert")),
    ]));
    assert_eq!(bench.flush(29), [Action::Probe(Epoch(1))]);
}

#[test]
fn after_a_break_the_unconfirmed_is_fetched_again() {
    let mut bench = Bench::open();
    bench.feed(Event::Fetched(vec![(1, bytes("alert"))]));
    bench.flush(19);
    bench.pass(1000);
    bench.answer_probe(true);
    bench.feed(Event::SpoolOffered);
    bench.feed(Event::Fetched(vec![(2, bytes("alert"))]));
    assert_eq!(bench.feed(Event::Closed { epoch: Epoch(1) }), []);
    assert_eq!(bench.link.stats().durable_unproved, 1);
    assert_eq!(bench.pass(3000), [Action::Dial(Epoch(2))]);
    // The fetch that ran for the first stream ends only now: its result is not used.
    bench.feed(Event::Fetched(vec![(3, bytes("alert"))]));
    assert_eq!(bench.connect(2), [hello(), fetch(1)]);
    let written = bench.feed(Event::Fetched(vec![
        (2, bytes("alert")),
        (3, bytes("alert")),
    ]));
    assert_eq!(written[..2], [durable(2), durable(3)]);
}

#[test]
fn a_probe_without_an_answer_replaces_the_stream() {
    let mut bench = Bench::open();
    bench.feed(Event::Fetched(vec![(1, bytes("alert"))]));
    bench.flush(19);
    bench.pass(1000);
    assert_eq!(
        bench.pass(3000),
        [Action::Close(Epoch(1), CloseReason::ProbeTimeout)]
    );
    assert_eq!(
        bench.answer_probe(true),
        [],
        "it belongs to a stream that is gone"
    );
    assert_eq!(bench.link.stats().durable_confirmed, 0);
}

#[test]
fn requests_fail_at_once_on_disconnect_and_without_a_stream() {
    let mut bench = Bench::open();
    bench.ask(1);
    bench.ask(2);
    let failed = |slot| Action::Fail(SlotId(slot), AskError::Disconnected);
    assert_eq!(
        bench.feed(Event::Closed { epoch: Epoch(1) }),
        [failed(1), failed(2)]
    );
    assert_eq!(bench.ask(3), [failed(3)]);
}

#[test]
fn a_late_answer_is_discarded_and_the_next_request_waits_for_it() {
    let mut bench = Bench::open();
    bench.ask(1);
    bench.pass(4000);
    bench.ask(2);
    let timed_out = AskError::TimedOut { kind: KIND };
    assert_eq!(bench.pass(1000), [Action::Fail(SlotId(1), timed_out)]);
    let late = bench.feed(Event::Received {
        epoch: Epoch(1),
        kind: Some(KIND),
    });
    let request = Outgoing::Request {
        slot: SlotId(2),
        message: bytes("ask"),
    };
    assert_eq!(late, [Action::Discard, Action::Write(request)]);
    let reply = bench.feed(Event::Received {
        epoch: Epoch(1),
        kind: Some(KIND),
    });
    assert_eq!(reply, [Action::Complete(SlotId(2))]);
}

#[test]
fn a_dial_that_takes_too_long_is_given_up() {
    let mut bench = Bench::with(LinkLimits::default());
    bench.feed(Event::Tick);
    assert_eq!(
        bench.pass(10_000),
        [Action::Close(Epoch(1), CloseReason::DialTimeout)]
    );
    assert_eq!(bench.connect(1), [], "too late");
    assert_eq!(bench.pass(3000), [Action::Dial(Epoch(2))]);
}

#[test]
fn back_off_resets_only_after_a_healthy_stream() {
    let mut bench = Bench::with(LinkLimits::default());
    bench.feed(Event::Tick);
    let mut waits = Vec::new();
    // (how long the stream lives, whether the peer was heard)
    for (life, heard) in [
        (0, true),
        (9_999, true),
        (60_000, false),
        (10_000, true),
        (0, true),
    ] {
        let epoch = bench.link.epoch;
        bench.connect(epoch.0);
        if heard {
            bench.feed(Event::Accepted { epoch });
        }
        bench.now += millis(life);
        bench.feed(Event::Closed { epoch });
        let wait = bench.link.next_deadline().unwrap() - bench.now;
        waits.push(wait.as_secs());
        bench.now += wait;
        bench.feed(Event::Tick);
    }
    assert_eq!(waits, [3, 6, 12, 3, 6]);
}

#[test]
fn a_full_queue_is_not_accepted_and_drains_with_the_flush() {
    let wire = WireLimits {
        messages: 1,
        bytes: 1 << 20,
    };
    let mut bench = Bench::with(LinkLimits {
        wire,
        queue_messages: 2,
        ..LinkLimits::default()
    });
    bench.feed(Event::Tick);
    bench.connect(1);
    bench.feed(submit(bytes("a")));
    assert!(bench.link.accepts());
    bench.feed(submit(bytes("b")));
    assert!(!bench.link.accepts());
    assert_eq!(
        bench.flush(9),
        [Action::Write(Outgoing::Ephemeral(bytes("a")))]
    );
    assert!(bench.link.accepts());
}

#[test]
fn an_oversized_durable_message_is_passed_over_and_counted() {
    let mut bench = Bench::with(LinkLimits {
        message_bytes: 4,
        ..LinkLimits::default()
    });
    bench.feed(Event::Tick);
    bench.connect(1);
    let actions = bench.feed(Event::Fetched(vec![(1, bytes("alert")), (2, bytes("ok"))]));
    let ok = Action::Write(Outgoing::Durable {
        id: 2,
        message: bytes("ok"),
    });
    assert_eq!(actions[..2], [Action::Skip { id: 1, len: 5 }, ok]);
    bench.flush(16);
    bench.pass(1000);
    assert_eq!(bench.answer_probe(true), [Action::Confirm(2)]);
    assert_eq!(bench.link.stats().durable_skipped, 1);
}

#[test]
fn a_spool_that_fails_is_read_again_later() {
    let mut bench = Bench::open();
    assert_eq!(bench.feed(Event::FetchFailed), []);
    assert_eq!(bench.pass(999), []);
    assert_eq!(bench.pass(1), [fetch(0)]);
    assert_eq!(
        bench.feed(Event::Fetched(vec![(2, bytes("x")), (2, bytes("y"))])),
        []
    );
    assert_eq!(bench.link.stats().spool_faults, 2);
    assert_eq!(bench.pass(1000), [fetch(0)]);
}

#[test]
fn after_stop_nothing_is_written() {
    let slots = SlotLimits::default();
    let mut bench = Bench::with(LinkLimits {
        slots,
        ..LinkLimits::default()
    });
    bench.feed(Event::Tick);
    bench.connect(1);
    bench.ask(1);
    let stopped = |slot| Action::Fail(SlotId(slot), AskError::Stopped);
    let close = Action::Close(Epoch(1), CloseReason::Stopped);
    assert_eq!(bench.feed(Event::Stop), [close, stopped(1)]);
    assert_eq!(bench.feed(submit(bytes("x"))), []);
    assert_eq!(bench.ask(2), [stopped(2)]);
    assert_eq!(bench.pass(1_000_000), []);
    assert_eq!(bench.link.next_deadline(), None);
}

#[test]
fn an_answer_to_an_earlier_stream_is_dropped() {
    let mut bench = Bench::open();
    let reply = |epoch| Event::Submit {
        message: bytes("reply"),
        only: Some(Epoch(epoch)),
    };
    let write = || [Action::Write(Outgoing::Ephemeral(bytes("reply")))];
    assert_eq!(bench.feed(reply(1)), write());
    bench.feed(Event::Closed { epoch: Epoch(1) });
    bench.pass(3000);
    bench.connect(2);
    assert_eq!(bench.feed(reply(1)), []);
    assert_eq!(bench.link.stats().ephemeral_dropped, 1);
    assert_eq!(bench.feed(reply(2)), write());
}
