//! Random event sequences, with every promise checked after every event by a function of its name.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::slots::SlotLimits;

const KINDS: [ReplyKind; 2] = [ReplyKind("status"), ReplyKind("average")];

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// Sleep until the link wants to be woken.
    Sleep,
    Dialled {
        hello: usize,
        stale: bool,
    },
    DialFailed {
        stale: bool,
    },
    Accepted,
    Closed {
        stale: bool,
    },
    Received {
        kind: Option<usize>,
        stale: bool,
    },
    Flush {
        share: u8,
        stale: bool,
    },
    ProbeAnswered {
        conclusive: bool,
        stale: bool,
    },
    ProbeFailed {
        stale: bool,
    },
    Submit(usize),
    Ask {
        kind: usize,
        patience: u64,
    },
    AskerGone(usize),
    Append(usize),
    /// Let the spool answer the outstanding read.
    SpoolAnswers {
        fails: bool,
        short: bool,
    },
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    let stale = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => (0..4000_u64).prop_map(Step::Pass),
        6 => Just(Step::Sleep),
        8 => (0..3_usize, stale()).prop_map(|(hello, stale)| Step::Dialled { hello, stale }),
        2 => stale().prop_map(|stale| Step::DialFailed { stale }),
        2 => Just(Step::Accepted),
        2 => stale().prop_map(|stale| Step::Closed { stale }),
        6 => (prop::option::of(0..2_usize), stale())
            .prop_map(|(kind, stale)| Step::Received { kind, stale }),
        10 => (any::<u8>(), stale()).prop_map(|(share, stale)| Step::Flush { share, stale }),
        6 => (prop::bool::weighted(0.9), stale())
            .prop_map(|(conclusive, stale)| Step::ProbeAnswered { conclusive, stale }),
        1 => stale().prop_map(|stale| Step::ProbeFailed { stale }),
        8 => (0..40_usize).prop_map(Step::Submit),
        6 => (0..2_usize, 0..9000_u64).prop_map(|(kind, patience)| Step::Ask { kind, patience }),
        2 => (0..6_usize).prop_map(Step::AskerGone),
        8 => (0..60_usize).prop_map(Step::Append),
        8 => (prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(fails, short)| Step::SpoolAnswers { fails, short }),
        1 => prop::bool::weighted(0.02).prop_map(|stop| if stop { Step::Stop } else { Step::Sleep }),
    ]
}

fn limits() -> LinkLimits {
    LinkLimits {
        slots: SlotLimits {
            queue: 3,
            ..SlotLimits::default()
        },
        wire: WireLimits {
            messages: 6,
            bytes: 200,
        },
        window: WindowLimits {
            messages: 5,
            bytes: 120,
            ..WindowLimits::default()
        },
        queue_messages: 4,
        queue_bytes: 100,
        message_bytes: 50,
        ..LinkLimits::default()
    }
}

/// What a perfect observer knows about the world around the link.
#[derive(Default)]
struct World {
    now: Duration,
    stopped: bool,
    dialling: bool,
    open: bool,
    hello_left: usize,
    /// End position of every durable message written to the current stream.
    durable: Vec<(u64, u64)>,
    handed: u64,
    flushed: u64,
    /// Durable messages completely flushed when the running probe began.
    probe_covers: Option<Option<u64>>,
    /// The same of the probe that was just answered conclusively.
    proof: Option<u64>,
    spool: Vec<(u64, Bytes)>,
    confirmed: u64,
    fetch: Option<FetchRange>,
    asked: BTreeSet<u64>,
    next_slot: u64,
    broke_at: Option<Duration>,
}

struct Model {
    link: Link,
    world: World,
    random: u64,
}

type Checked = Result<(), TestCaseError>;

impl Model {
    fn new(random: u64) -> Self {
        Self {
            link: Link::new(limits(), true),
            world: World::default(),
            random,
        }
    }

    fn epoch(&self, stale: bool) -> Epoch {
        Epoch(self.link.epoch.0.wrapping_sub(u64::from(stale)))
    }

    fn run(&mut self, step: &Step) -> Checked {
        let Some(event) = self.event(step) else {
            return Ok(());
        };
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = At {
            now: self.world.now,
            random: self.random,
        };
        let received = matches!(&event, Event::Received { epoch, .. } if self.link.current(*epoch));
        self.note_before(&event);
        let mut actions = Vec::new();
        self.link.handle(at, event, &mut actions);
        let fates = actions
            .iter()
            .filter(|a| matches!(a, Action::Deliver | Action::Discard | Action::Complete(_)))
            .count();
        prop_assert_eq!(
            fates,
            usize::from(received),
            "every received message has one fate"
        );
        for action in actions {
            self.check_action(action)?;
        }
        self.check_state()
    }

    fn event(&mut self, step: &Step) -> Option<Event> {
        let world = &self.world;
        Some(match *step {
            Step::Pass(time) => {
                self.world.now += Duration::from_millis(time);
                Event::Tick
            }
            Step::Sleep => {
                self.world.now = self.world.now.max(self.link.next_deadline()?);
                Event::Tick
            }
            Step::Dialled { hello, stale } => {
                let hello = vec![Bytes::from_static(b"hi"); hello];
                Event::Dialled {
                    epoch: self.epoch(stale),
                    hello,
                }
            }
            Step::DialFailed { stale } => Event::DialFailed {
                epoch: self.epoch(stale),
            },
            Step::Accepted => Event::Accepted {
                epoch: self.epoch(false),
            },
            Step::Closed { stale } => Event::Closed {
                epoch: self.epoch(stale),
            },
            Step::Received { kind, stale } => Event::Received {
                epoch: self.epoch(stale),
                kind: kind.map(|k| KINDS[k]),
            },
            Step::Flush { share, stale } => {
                let total = world.flushed + (world.handed - world.flushed) * u64::from(share) / 255;
                Event::Flushed {
                    epoch: self.epoch(stale),
                    total,
                }
            }
            Step::ProbeAnswered { conclusive, stale } => {
                world.probe_covers?;
                Event::ProbeAnswered {
                    epoch: self.epoch(stale),
                    conclusive,
                }
            }
            Step::ProbeFailed { stale } => {
                world.probe_covers?;
                Event::ProbeFailed {
                    epoch: self.epoch(stale),
                }
            }
            Step::Submit(len) => {
                if !self.link.accepts() {
                    return None;
                }
                Event::Submit {
                    message: Bytes::from(vec![0; len]),
                    only: None,
                }
            }
            Step::Ask { kind, patience } => {
                if !self.link.accepts() {
                    return None;
                }
                let slot = SlotId(world.next_slot);
                let expires = world.now + Duration::from_millis(patience);
                Event::Ask {
                    slot,
                    kind: KINDS[kind],
                    message: Bytes::from_static(b"?"),
                    expires,
                }
            }
            Step::AskerGone(nth) => Event::AskerGone(SlotId(*world.asked.iter().nth(nth)?)),
            Step::Append(len) => {
                let id = world
                    .spool
                    .last()
                    .map_or(1, |(id, _)| id + 1 + len as u64 % 3);
                self.world.spool.push((id, Bytes::from(vec![0; len])));
                Event::SpoolOffered
            }
            Step::SpoolAnswers { fails, short } => {
                let range = self.world.fetch.take()?;
                if fails {
                    Event::FetchFailed
                } else {
                    Event::Fetched(self.read(range, short))
                }
            }
            Step::Stop => Event::Stop,
        })
    }

    fn read(&self, range: FetchRange, short: bool) -> Vec<(u64, Bytes)> {
        let most = if short { 1 } else { range.messages };
        let mut room = range.bytes;
        let mut first = true;
        let after = self
            .world
            .spool
            .iter()
            .filter(|(id, _)| *id > range.after)
            .take(most);
        after
            .take_while(|(_, message)| {
                let fits = std::mem::take(&mut first) || message.len() <= room;
                room = room.saturating_sub(message.len());
                fits
            })
            .cloned()
            .collect()
    }

    fn note_before(&mut self, event: &Event) {
        let world = &mut self.world;
        match event {
            Event::Dialled { epoch, hello } if world.dialling && *epoch == self.link.epoch => {
                world.dialling = false;
                world.open = true;
                world.hello_left = hello.len();
                (world.handed, world.flushed) = (0, 0);
                world.durable.clear();
                world.probe_covers = None;
            }
            Event::DialFailed { epoch } if world.dialling && *epoch == self.link.epoch => {
                world.dialling = false;
                world.broke_at = Some(world.now);
            }
            Event::Closed { epoch } | Event::ProbeFailed { epoch }
                if world.open && *epoch == self.link.epoch =>
            {
                world.open = false;
                world.broke_at = Some(world.now);
                world.probe_covers = None;
            }
            Event::Flushed { epoch, total } if world.open && *epoch == self.link.epoch => {
                world.flushed = *total;
            }
            Event::ProbeAnswered { epoch, conclusive }
                if world.open && *epoch == self.link.epoch =>
            {
                let covers = world.probe_covers.take().flatten();
                world.proof = covers.filter(|_| *conclusive);
            }
            Event::Ask { slot, .. } => {
                world.asked.insert(slot.0);
                world.next_slot += 1;
            }
            Event::Stop => world.stopped = true,
            _ => {}
        }
    }

    fn check_action(&mut self, action: Action) -> Checked {
        match action {
            Action::Dial(_) => self.check_at_most_one_dial()?,
            Action::Close(epoch, reason) => {
                prop_assert_eq!(epoch, self.link.epoch);
                self.world.dialling = false;
                self.world.open = false;
                self.world.probe_covers = None;
                if reason != CloseReason::Stopped {
                    self.world.broke_at = Some(self.world.now);
                }
            }
            Action::Write(outgoing) => self.check_write(outgoing)?,
            Action::Probe(_) => {
                prop_assert!(self.world.open && self.world.probe_covers.is_none());
                let flushed = self.world.flushed;
                let covered = self.world.durable.iter().rfind(|(_, end)| *end <= flushed);
                self.world.probe_covers = Some(covered.map(|(id, _)| *id));
            }
            Action::Fetch(range) => {
                prop_assert!(self.world.fetch.is_none(), "one read at a time");
                prop_assert!(range.messages > 0 && range.bytes > 0);
                self.world.fetch = Some(range);
            }
            Action::Confirm(up_to) => self.check_only_the_proved_is_confirmed(up_to)?,
            Action::Skip { id, len } => {
                prop_assert!(len > limits().message_bytes);
                self.world.durable.push((id, self.world.handed));
            }
            Action::Complete(slot) | Action::Fail(slot, _) => {
                prop_assert!(
                    self.world.asked.remove(&slot.0),
                    "a request is settled once"
                );
            }
            Action::Deliver | Action::Discard => {}
        }
        Ok(())
    }

    fn check_at_most_one_dial(&mut self) -> Checked {
        let world = &mut self.world;
        prop_assert!(!world.dialling && !world.open && !world.stopped);
        if let Some(broke_at) = world.broke_at {
            let wait = world.now - broke_at;
            prop_assert!(
                wait >= limits().backoff.floor,
                "back-off too short: {:?}",
                wait
            );
        }
        world.dialling = true;
        Ok(())
    }

    fn check_write(&mut self, outgoing: Outgoing) -> Checked {
        let world = &mut self.world;
        prop_assert!(!world.stopped, "after Stop nothing is written");
        prop_assert!(world.open);
        let hello = matches!(outgoing, Outgoing::Hello(_));
        prop_assert_eq!(hello, world.hello_left > 0, "hello is first");
        world.hello_left -= usize::from(hello);
        let len = match &outgoing {
            Outgoing::Hello(message)
            | Outgoing::Ephemeral(message)
            | Outgoing::Request { message, .. }
            | Outgoing::Durable { message, .. } => message.len(),
        };
        world.handed += len as u64 + wire::GRPC_PREFIX;
        match outgoing {
            Outgoing::Request { slot, .. } => {
                prop_assert!(world.asked.contains(&slot.0), "registered before written");
            }
            Outgoing::Durable { id, message } => {
                prop_assert!(message.len() <= limits().message_bytes);
                let last = world.durable.last().map_or(world.confirmed, |(id, _)| *id);
                let next = world.spool.iter().map(|(id, _)| *id).find(|id| *id > last);
                prop_assert_eq!(next, Some(id), "durable messages keep their order, no gaps");
                world.durable.push((id, world.handed));
            }
            Outgoing::Hello(_) | Outgoing::Ephemeral(_) => {}
        }
        Ok(())
    }

    fn check_only_the_proved_is_confirmed(&mut self, up_to: u64) -> Checked {
        let world = &mut self.world;
        prop_assert_eq!(world.proof.take(), Some(up_to));
        prop_assert!(up_to > world.confirmed);
        world.confirmed = up_to;
        world.durable.retain(|(id, _)| *id > up_to);
        Ok(())
    }

    fn check_state(&mut self) -> Checked {
        let (link, world) = (&self.link, &mut self.world);
        prop_assert_eq!(link.is_open(), world.open);
        // No slot leaks, and none survives its stream. An abandoned one is gone without a word.
        prop_assert!(link.slots.pending() <= world.asked.len());
        if !world.open {
            prop_assert_eq!(link.slots.pending(), 0);
            world.asked.clear();
        }
        // Bounds.
        let bounds = limits();
        prop_assert!(link.wire.unflushed_messages() <= bounds.wire.messages);
        prop_assert!(link.queue.len() <= bounds.queue_messages + 2 * (1 + bounds.slots.queue));
        prop_assert!(link.queued_bytes <= bounds.queue_bytes + bounds.message_bytes);
        let window = link.window.as_ref().unwrap();
        prop_assert!(window.unconfirmed() <= bounds.window.messages);
        prop_assert!(window.unconfirmed_bytes() <= bounds.window.bytes + 60);
        // The link never asks to be woken for what it could have done already.
        let deadline = link.next_deadline();
        prop_assert!(
            deadline.is_none_or(|at| at > world.now),
            "would spin: {:?}",
            deadline
        );
        if let Phase::Waiting { until } = link.phase {
            prop_assert!(
                until - world.now <= bounds.backoff.ceiling,
                "back-off too long"
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_after_every_event(
        random in any::<u64>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut model = Model::new(random);
        for step in &steps {
            model.run(step)?;
        }
    }

    /// Whatever happened before, a peer that behaves from now on gets everything, in order, once
    /// per confirmation.
    #[test]
    fn a_quiet_end_delivers_and_confirms_the_whole_spool(
        random in any::<u64>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut model = Model::new(random);
        for step in steps.iter().filter(|step| !matches!(step, Step::Stop)) {
            model.run(step)?;
        }
        let last = model.world.spool.last().map_or(0, |(id, _)| *id);
        let mut turns = 0;
        while model.world.confirmed < last {
            turns += 1;
            prop_assert!(turns < 2000, "stuck at {} of {last}", model.world.confirmed);
            let answer = Step::ProbeAnswered { conclusive: true, stale: false };
            if model.world.dialling {
                model.run(&Step::Dialled { hello: 1, stale: false })?;
            } else if model.world.fetch.is_some() {
                model.run(&Step::SpoolAnswers { fails: false, short: false })?;
            } else if model.world.flushed < model.world.handed && model.world.open {
                model.run(&Step::Flush { share: 255, stale: false })?;
            } else if model.world.probe_covers.is_some() {
                model.run(&answer)?;
            } else {
                model.run(&Step::Sleep)?;
            }
        }
    }
}
