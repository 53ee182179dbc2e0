//! The book against a simulated cloud, in any order of events: answers that come late, or never; crashes at any moment.

mod former;
mod resting;
mod underway;

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_provider::sim::{SimCloud, SimFaults, SimSettings};
use muster_provider::testing::ManualClock;
use muster_provider::{
    Clock as _, FailureClass, MachineSpec, Provider as _, ProviderError, Purchase, ResourceId,
};
use proptest::prelude::*;

use super::*;
use crate::calls::Answered;

fn order() -> MachineOrder {
    MachineOrder {
        provider: ProviderId::Sim,
        template: "test".to_owned(),
        spec: MachineSpec::default(),
        purchase: Purchase::OnDemand,
        labels: BTreeMap::new(),
        timers: muster_lifecycle::timers::Timers {
            idle: Some(Duration::from_secs(50)),
            stopped: Some(Duration::from_secs(100)),
            ..Default::default()
        },
        key: None,
        asked: None,
    }
}

/// How a call goes.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Done,
    Failed,
    /// It has happened, and the answer is lost.
    Lost,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Order,
    Ask(usize, Verb),
    Answer(usize, Outcome),
    Pass(u64),
    /// A machine is not shown any more, or again.
    Hide(usize, bool),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop::sample::select(&[Outcome::Done, Outcome::Failed, Outcome::Lost][..]);
    prop_oneof![
        2 => Just(Step::Order),
        4 => (0usize..8, prop::sample::select(&Verb::ALL[..])).prop_map(|(at, verb)| Step::Ask(at, verb)),
        10 => (0usize..8, outcome).prop_map(|(at, outcome)| Step::Answer(at, outcome)),
        3 => (0u64..90).prop_map(Step::Pass),
        2 => (0usize..8, any::<bool>()).prop_map(|(at, hidden)| Step::Hide(at, hidden)),
        1 => Just(Step::Crash),
    ]
}

/// A manager and its cloud, without tasks and without a disk.
struct Rig {
    cloud: SimCloud,
    clock: Arc<ManualClock>,
    book: Book,
    /// What would be on disk.
    disk: BTreeMap<MachineId, Record>,
    next_event: u64,
    pending: Vec<Call>,
}

fn settings() -> Settings {
    Settings {
        poll: Duration::from_secs(1),
        sweep: Duration::from_secs(10),
        settle: Duration::ZERO,
        carry_on: Duration::from_secs(120),
        // What is hidden for longer is left to whoever collects orphans.
        remember: Duration::from_secs(100_000),
        ..Settings::default()
    }
}

fn manager() -> ManagerId {
    ManagerId::new("manager").unwrap()
}

fn recover(records: Vec<Record>, next_event: u64, now: Moment) -> Book {
    let providers = BTreeMap::from([(ProviderId::Sim, VerbSet::ALL)]);
    let saved = Saved {
        records,
        pools: BTreeMap::new(),
        next_event,
    };
    Book::recover(manager(), settings(), &providers, saved, now)
}

fn failed(error: &ProviderError) -> CallFailure {
    CallFailure {
        operation: error.operation.to_string(),
        class: error.class,
        text: error.to_string(),
        elsewhere: false,
    }
}

fn now_or<T>(answer: muster_provider::Answer<'_, T>) -> Result<T, CallFailure> {
    let answer = answer.now_or_never().expect("a cloud without latency");
    answer.map_err(|error| failed(&error))
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Moment::from_millis(1_000_000)));
        Self {
            cloud: SimCloud::with_clock(SimSettings::default(), clock.clone()),
            book: recover(Vec::new(), 1, clock.now()),
            clock,
            disk: BTreeMap::new(),
            next_event: 1,
            pending: Vec::new(),
        }
    }

    fn now(&self) -> Moment {
        self.clock.now()
    }

    /// What the driver does with a turn.
    fn carry_out(&mut self) {
        let turn = self.book.take_turn(self.clock.now());
        for id in &turn.changed {
            let record = self.book.record(id).expect("what changed is there");
            self.disk.insert(id.clone(), record.as_ref().clone());
        }
        for id in &turn.forgotten {
            self.disk.remove(id);
        }
        for event in &turn.events {
            assert_eq!(
                event.number, self.next_event,
                "events are numbered without a gap"
            );
            self.next_event += 1;
        }
        for (_, call) in turn.calls {
            if let Call::Provision(id, order) = &call {
                let record = self.disk.get(id).expect("durable before it is asked for");
                assert_eq!(record.token, order.mark.token);
            }
            self.pending.push(call);
        }
        let mut busy = BTreeSet::new();
        for call in &self.pending {
            if let Call::Provision(id, _)
            | Call::Act(id, ..)
            | Call::Destroy(id, _)
            | Call::Find(id, _) = call
            {
                assert!(busy.insert(id.clone()), "one call at a time: {id}");
            }
        }
    }

    fn execute(&self, call: &Call, outcome: Outcome) -> Answered {
        let faults = match outcome {
            Outcome::Done => SimFaults::default(),
            Outcome::Failed => SimFaults {
                fail: 1000,
                ..SimFaults::default()
            },
            Outcome::Lost => SimFaults {
                lose_answer: 1000,
                ..SimFaults::default()
            },
        };
        self.cloud.set(SimSettings {
            faults,
            ..SimSettings::default()
        });
        let provider = self.cloud.provider();
        match call {
            Call::Provision(id, order) => {
                Answered::Provisioned(id.clone(), now_or(provider.provision(order)))
            }
            Call::Find(id, token) => {
                let listed = now_or(provider.list(&manager()));
                let found = listed.map(|all| all.into_iter().find(|it| it.mark.token == *token));
                Answered::Searched(id.clone(), found)
            }
            Call::Act(id, owned, verb) => {
                Answered::Acted(id.clone(), *verb, now_or(provider.act(owned, *verb)))
            }
            Call::Destroy(id, owned) => {
                Answered::Acted(id.clone(), Verb::Terminate, now_or(provider.destroy(owned)))
            }
            Call::Describe(id, owned, _) => {
                Answered::Described(id.clone(), now_or(provider.describe(owned)))
            }
            Call::DestroyStray(owned, reason) => {
                assert_ne!(*reason, Reason::Outside, "nobody asked it to end");
                let gone = now_or(provider.destroy(owned));
                Answered::Stray(ProviderId::Sim, owned.clone(), *reason, gone)
            }
            Call::List(look) => {
                let home = look.home.then(|| now_or(provider.home()).ok().flatten());
                let listed = now_or(provider.list(&manager())).map(|machines| Listed {
                    home: home.flatten(),
                    machines,
                });
                Answered::Listed(ProviderId::Sim, *look, listed)
            }
        }
    }

    fn answer(&mut self, at: usize, outcome: Outcome) {
        if self.pending.is_empty() {
            return;
        }
        let call = self.pending.remove(at % self.pending.len());
        let answered = self.execute(&call, outcome);
        let now = self.now();
        answered.apply(&mut self.book, now);
    }

    fn step(&mut self, step: Step) {
        let now = self.now();
        match step {
            Step::Order => drop(self.book.order(order(), None, now)),
            Step::Ask(at, verb) => {
                let ids: Vec<MachineId> = self.book.ids().cloned().collect();
                if let Some(id) = ids.get(at % ids.len().max(1)) {
                    drop(self.book.ask(id, verb, Reason::Asked, now));
                }
            }
            Step::Answer(at, outcome) => self.answer(at, outcome),
            Step::Pass(seconds) => {
                self.clock.advance(Duration::from_secs(seconds));
                let now = self.now();
                self.book.tick(now);
            }
            Step::Hide(at, hidden) => {
                let machines = self.cloud.machines();
                if let Some(machine) = machines.get(at % machines.len().max(1)) {
                    self.cloud.hide(&machine.resource, hidden);
                }
            }
            Step::Crash => {
                self.pending.clear();
                let records = self.disk.values().cloned().collect();
                self.book = recover(records, self.next_event, now);
                self.book.tick(now);
            }
        }
        self.carry_out();
    }

    fn answer_all(&mut self) {
        while !self.pending.is_empty() {
            self.step(Step::Answer(0, Outcome::Done));
        }
    }

    /// From now on nothing fails or is hidden, and enough time passes for everything that is on its way.
    fn heal(&mut self) {
        for machine in self.cloud.machines() {
            self.cloud.hide(&machine.resource, false);
        }
        for _ in 0..200 {
            self.answer_all();
            self.clock.advance(Duration::from_millis(500));
            let now = self.now();
            self.book.tick(now);
            self.carry_out();
        }
        // What a timer asked for at the very end.
        self.answer_all();
    }

    fn known(&self) -> BTreeSet<(MachineId, ResourceId)> {
        let made = self.disk.values().filter_map(|record| {
            let resource = record.made()?.resource.clone();
            Some((record.id.clone(), resource))
        });
        made.collect()
    }

    fn there(&self) -> BTreeSet<(MachineId, ResourceId)> {
        let machines = self.cloud.machines().into_iter();
        machines
            .map(|it| (it.mark.expect("ours").machine, it.resource))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_the_cloud_and_the_book_come_to_agree(steps in prop::collection::vec(step(), 0..80)) {
        let mut rig = Rig::new();
        let now = rig.now();
        rig.book.tick(now);
        rig.carry_out();
        for step in steps {
            rig.step(step);
        }
        rig.heal();
        prop_assert_eq!(rig.there(), rig.known());
        for record in rig.disk.values() {
            prop_assert!(!matches!(record.phase, Phase::Ordered | Phase::Cancelled { .. }), "{:?}", record);
            if let Some(made) = record.made() {
                prop_assert!(made.life.task().is_none(), "{:?}", record);
            }
        }
    }

    /// What the memory holds is what a restart would find.
    #[test]
    fn nothing_is_known_that_is_not_written_down(steps in prop::collection::vec(step(), 0..60)) {
        let mut rig = Rig::new();
        for step in steps {
            rig.step(step);
            let in_memory: BTreeMap<_, _> = rig.book.entries.iter().map(|(id, it)| (id.clone(), it.record.as_ref().clone())).collect();
            prop_assert_eq!(&in_memory, &rig.disk);
        }
    }
}

#[test]
fn a_refused_destroy_is_tried_again_and_told() {
    let mut rig = Rig::new();
    rig.step(Step::Order);
    rig.step(Step::Answer(0, Outcome::Done));
    let id = rig.book.ids().next().unwrap().clone();
    let now = rig.now();
    rig.book
        .ask(&id, Verb::Terminate, Reason::Asked, now)
        .unwrap();
    rig.carry_out();
    let refusal = CallFailure {
        operation: "destroy".to_owned(),
        class: FailureClass::Refused,
        text: "it is protected".to_owned(),
        elsewhere: false,
    };
    rig.book.acted(&id, Verb::Terminate, Err(refusal), now);
    let turn = rig.book.take_turn(now);
    let failed = turn.events.iter().any(|event| {
        matches!(&event.what, Happened::Failed { again: Some(_), text, .. } if text == "it is protected")
    });
    assert!(failed, "{turn:?}");
    let task = rig.book.record(&id).unwrap().made().unwrap().life.task();
    assert_eq!(task.map(|task| task.verb), Some(Verb::Terminate));
}

/// A machine that was started may stop again at once, and a provider may refuse to start it.
#[test]
fn a_start_that_does_not_come_about_is_given_up_and_says_why() {
    let mut rig = Rig::new();
    rig.step(Step::Order);
    rig.step(Step::Answer(0, Outcome::Done));
    let id = rig.book.ids().next().unwrap().clone();
    let now = rig.now();
    rig.book.ask(&id, Verb::Stop, Reason::Asked, now).unwrap();
    rig.carry_out();
    rig.answer_all();
    let stopped = State::Stopped(muster_lifecycle::Halt::Off);
    assert_eq!(rig.book.record(&id).unwrap().state(), stopped);

    rig.book.ask(&id, Verb::Start, Reason::Asked, now).unwrap();
    assert!(!rig.book.record(&id).unwrap().has_come_up_or_not());
    let refusal = CallFailure {
        operation: "start".to_owned(),
        class: FailureClass::Refused,
        text: "no such disk".to_owned(),
        elsewhere: false,
    };
    rig.book.acted(&id, Verb::Start, Err(refusal), now);
    let record = rig.book.record(&id).unwrap();
    assert!(record.has_come_up_or_not(), "{record:?}");
    assert_eq!(record.failure(), Some("no such disk"));

    rig.book.ask(&id, Verb::Start, Reason::Asked, now).unwrap();
    assert_eq!(rig.book.record(&id).unwrap().failure(), None);
    rig.book.acted(&id, Verb::Start, Ok(State::Pending), now);
    assert!(!rig.book.record(&id).unwrap().has_come_up_or_not());
    rig.book.see_state(&id, stopped, now);
    rig.book.settle_machine(&id, now);
    let record = rig.book.record(&id).unwrap();
    assert!(record.has_come_up_or_not(), "{record:?}");
    assert!(record.failure().unwrap().contains("stopped all the same"));
    assert_eq!(rig.book.task_of(&id), None);
}
