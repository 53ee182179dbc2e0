use proptest::prelude::*;

use super::*;

const STATUS: ReplyKind = ReplyKind("status");
const AVERAGE: ReplyKind = ReplyKind("average");

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

struct Bench {
    slots: Slots<u64>,
    effects: Vec<SlotEffect>,
}

impl Bench {
    fn new() -> Self {
        let limits = SlotLimits {
            queue: 2,
            ..SlotLimits::default()
        };
        Self {
            slots: Slots::new(limits),
            effects: Vec::new(),
        }
    }

    fn ask(&mut self, id: u64, kind: ReplyKind, expires: u64) -> Vec<SlotEffect> {
        self.slots
            .ask(SlotId(id), kind, secs(expires), id, &mut self.effects);
        self.drain()
    }

    fn reply(&mut self, kind: ReplyKind) -> (ReplyFate, Vec<SlotEffect>) {
        let fate = self.slots.reply(kind, &mut self.effects);
        (fate, self.drain())
    }

    fn tick(&mut self, now: u64) -> Vec<SlotEffect> {
        self.slots.tick(secs(now), &mut self.effects);
        self.drain()
    }

    fn write(&mut self, id: u64) {
        assert_eq!(self.slots.begin_write(SlotId(id)), Some(id));
    }

    fn drain(&mut self) -> Vec<SlotEffect> {
        std::mem::take(&mut self.effects)
    }
}

fn write(id: u64) -> Vec<SlotEffect> {
    vec![SlotEffect::Write(SlotId(id))]
}

fn fail(id: u64, why: AskError) -> SlotEffect {
    SlotEffect::Fail(SlotId(id), why)
}

#[test]
fn one_in_flight_per_kind_and_kinds_are_independent() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(1, STATUS, 5), write(1));
    assert_eq!(bench.ask(2, STATUS, 5), []);
    assert_eq!(bench.ask(3, AVERAGE, 5), write(3));
    bench.write(1);
    bench.write(3);
    assert_eq!(
        bench.reply(AVERAGE),
        (ReplyFate::Answers(SlotId(3)), vec![])
    );
    assert_eq!(
        bench.reply(STATUS),
        (ReplyFate::Answers(SlotId(1)), write(2))
    );
}

#[test]
fn an_answer_before_the_request_was_written_is_nobodys() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    assert_eq!(bench.reply(STATUS), (ReplyFate::Unsolicited, vec![]));
    bench.write(1);
    assert_eq!(bench.reply(STATUS), (ReplyFate::Answers(SlotId(1)), vec![]));
    assert_eq!(bench.reply(STATUS), (ReplyFate::Unsolicited, vec![]));
}

#[test]
fn a_late_answer_is_not_handed_to_the_next_request() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    bench.write(1);
    bench.ask(2, STATUS, 20);
    assert_eq!(
        bench.tick(5),
        [fail(1, AskError::TimedOut { kind: STATUS })]
    );
    assert_eq!(bench.slots.begin_write(SlotId(2)), None, "quarantined");
    assert_eq!(bench.reply(STATUS), (ReplyFate::Late, write(2)));
    bench.write(2);
    assert_eq!(bench.reply(STATUS), (ReplyFate::Answers(SlotId(2)), vec![]));
}

#[test]
fn the_drain_time_lifts_the_quarantine() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    bench.write(1);
    bench.tick(5);
    bench.ask(2, STATUS, 100);
    assert_eq!(bench.tick(34), []);
    assert_eq!(bench.slots.next_deadline(), Some(secs(35)));
    assert_eq!(bench.tick(35), write(2));
}

#[test]
fn a_request_that_was_never_written_leaves_no_quarantine() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    bench.ask(2, STATUS, 9);
    assert_eq!(
        bench.tick(6),
        [
            fail(1, AskError::NotSent { kind: STATUS }),
            SlotEffect::Write(SlotId(2))
        ]
    );
    assert_eq!(bench.slots.begin_write(SlotId(1)), None);
    bench.write(2);
}

#[test]
fn the_deadline_counts_the_time_in_the_queue() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 10);
    bench.write(1);
    bench.ask(2, STATUS, 3);
    assert_eq!(bench.tick(3), [fail(2, AskError::NotSent { kind: STATUS })]);
    assert_eq!(bench.reply(STATUS), (ReplyFate::Answers(SlotId(1)), vec![]));
}

#[test]
fn the_queue_is_bounded() {
    let mut bench = Bench::new();
    for id in 1..=3 {
        bench.ask(id, STATUS, 5);
    }
    assert_eq!(
        bench.ask(4, STATUS, 5),
        [fail(4, AskError::TooMany { kind: STATUS })]
    );
    assert_eq!(bench.slots.pending(), 3);
}

#[test]
fn disconnect_fails_everything_and_ends_quarantines() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    bench.write(1);
    bench.ask(2, STATUS, 50);
    bench.ask(3, AVERAGE, 50);
    bench.tick(5);
    bench
        .slots
        .fail_all(AskError::Disconnected, &mut bench.effects);
    let failed = bench.drain();
    assert_eq!(
        failed,
        [
            fail(2, AskError::Disconnected),
            fail(3, AskError::Disconnected)
        ]
    );
    assert_eq!(bench.slots.next_deadline(), None);
    assert_eq!(bench.ask(4, STATUS, 60), write(4));
}

#[test]
fn an_abandoned_request_is_not_written_but_a_written_one_keeps_its_place() {
    let mut bench = Bench::new();
    bench.ask(1, STATUS, 5);
    bench.ask(2, STATUS, 5);
    bench.ask(3, STATUS, 5);
    bench.slots.abandon(SlotId(2), &mut bench.effects);
    bench.slots.abandon(SlotId(1), &mut bench.effects);
    assert_eq!(bench.drain(), write(3));
    bench.write(3);
    bench.slots.abandon(SlotId(3), &mut bench.effects);
    bench.ask(4, STATUS, 9);
    assert_eq!(
        bench.reply(STATUS),
        (ReplyFate::Answers(SlotId(3)), write(4))
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { kind: usize, patience: u64 },
    Reply { kind: usize },
    Pass { seconds: u64 },
    Abandon { nth: usize },
    FailAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, 0..12_u64).prop_map(|(kind, patience)| Step::Ask { kind, patience }),
        3 => (0..2_usize).prop_map(|kind| Step::Reply { kind }),
        3 => (0..9_u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => (0..8_usize).prop_map(|nth| Step::Abandon { nth }),
        1 => Just(Step::FailAll),
    ]
}

proptest! {
    /// Every request is settled exactly once, or is still pending; never two written of one kind.
    #[test]
    fn every_request_is_settled_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        let kinds = [STATUS, AVERAGE];
        let (mut now, mut next) = (0, 0);
        let mut live: Vec<(u64, ReplyKind, bool)> = Vec::new();
        for step in steps {
            match step {
                Step::Ask { kind, patience } => {
                    live.push((next, kinds[kind], false));
                    bench.slots.ask(
                        SlotId(next), kinds[kind], secs(now + patience), next, &mut bench.effects,
                    );
                    next += 1;
                }
                Step::Reply { kind } => {
                    let fate = bench.slots.reply(kinds[kind], &mut bench.effects);
                    if let ReplyFate::Answers(slot) = fate {
                        let at = live.iter().position(|l| l.0 == slot.0);
                        prop_assert!(at.is_some(), "answered twice or after a failure");
                        let (_, asked, written) = live.remove(at.unwrap());
                        prop_assert!(written && asked == kinds[kind]);
                    }
                }
                Step::Pass { seconds } => {
                    now += seconds;
                    bench.slots.tick(secs(now), &mut bench.effects);
                }
                Step::Abandon { nth } => {
                    if let Some((id, _, written)) = live.get(nth).copied() {
                        bench.slots.abandon(SlotId(id), &mut bench.effects);
                        if !written {
                            live.remove(nth);
                        }
                    }
                }
                Step::FailAll => {
                    bench.slots.fail_all(AskError::Disconnected, &mut bench.effects);
                }
            }
            for effect in bench.drain() {
                match effect {
                    SlotEffect::Write(slot) => {
                        if bench.slots.begin_write(slot).is_some() {
                            let at = live.iter().position(|l| l.0 == slot.0);
                            prop_assert!(at.is_some(), "wrote what was settled");
                            live[at.unwrap()].2 = true;
                        }
                    }
                    SlotEffect::Fail(slot, _) => {
                        let at = live.iter().position(|l| l.0 == slot.0);
                        prop_assert!(at.is_some(), "failed twice");
                        live.remove(at.unwrap());
                    }
                }
            }
            prop_assert_eq!(bench.slots.pending(), live.len());
            for kind in kinds {
                prop_assert!(live.iter().filter(|l| l.1 == kind && l.2).count() <= 1);
            }
        }
    }
}
