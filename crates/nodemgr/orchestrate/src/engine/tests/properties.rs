//! Any workflow, any order of events, any failures, any crash.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::world::{World, done, failed, workflow};
use crate::entry::Entry;
use crate::job::Job;

/// A step before it has a name: which groups, which earlier steps, and the rest.
type AnyStep = (u8, u8, bool, u32, u32, bool);

fn any_step() -> impl Strategy<Value = AnyStep> {
    (
        any::<u8>(),
        any::<u8>(),
        any::<bool>(),
        1..=3_u32,
        1..=3_u32,
        any::<bool>(),
    )
}

fn picked(bits: u8, names: &[String]) -> Vec<&str> {
    let names = names.iter().enumerate();
    let picked = names.filter(|(nth, _)| bits & (1 << (nth % 8)) != 0);
    picked.map(|(_, name)| name.as_str()).collect()
}

fn text(parallel: u32, counts: &[u32], steps: &[AnyStep], all_repeatable: bool) -> String {
    let groups: Vec<String> = (0..counts.len()).map(|nth| format!("g{nth}")).collect();
    let machines = groups
        .iter()
        .zip(counts)
        .enumerate()
        .map(|(nth, (name, count))| {
            let attempts = nth % 2 + 1;
            format!("{name}: {{template: t, count: {count}, provision: {{attempts: {attempts}}}}}")
        });
    let machines: Vec<String> = machines.collect();
    let mut names: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for (nth, &(on, needs, always, attempts, parallel, repeatable)) in steps.iter().enumerate() {
        let mut on = picked(on, &groups);
        if on.is_empty() {
            on.push(&groups[0]);
        }
        let (on, needs) = (on.join(", "), picked(needs, &names).join(", "));
        let when = if always { "always" } else { "success" };
        let repeatable = repeatable || all_repeatable;
        lines.push(format!(
            "- {{name: s{nth}, on: [{on}], needs: [{needs}], when: {when}, attempts: {attempts}, parallel: {parallel}, \
             repeatable: {repeatable}, actions: [{{script: {{text: x}}}}]}}\n"
        ));
        names.push(format!("s{nth}"));
    }
    let machines = machines.join(", ");
    let steps = match lines.is_empty() {
        true => String::new(),
        false => format!("steps:\n{}", lines.concat()),
    };
    format!("name: w\nparallel: {parallel}\nmachines: {{{machines}}}\n{steps}")
}

fn any_text(all_repeatable: bool) -> impl Strategy<Value = String> {
    let counts = proptest::collection::vec(1..=3_u32, 1..=3);
    let steps = proptest::collection::vec(any_step(), 0..=5);
    (1..=4_u32, counts, steps)
        .prop_map(move |(parallel, counts, steps)| text(parallel, &counts, &steps, all_repeatable))
}

/// What happens next, drawn once and used in turn.
#[derive(Debug, Clone)]
struct Chance {
    draws: Vec<u8>,
    at: usize,
}

impl Chance {
    fn draw(&mut self) -> u8 {
        self.at += 1;
        self.draws[self.at % self.draws.len()]
    }
}

fn any_chance() -> impl Strategy<Value = Chance> {
    let draws = proptest::collection::vec(any::<u8>(), 1..200);
    draws.prop_map(|draws| Chance { draws, at: 0 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The world checks every rule at every entry: order, limits, needs, cleaning exactly once, and an end.
    #[test]
    fn every_run_comes_to_an_end_by_the_rules(
        text in any_text(false),
        chance in any_chance(),
        cancel in proptest::option::of(0..60_u32),
        crashes in proptest::collection::vec(0..60_u32, 0..4),
        badness in 0..=60_u8,
    ) {
        let workflow = workflow(&text);
        let mut world = World::new(&workflow);
        let mut chance = chance;
        for step in 0..100_000_u32 {
            let abort = world.settle();
            if world.outcome().is_some() {
                break;
            }
            if cancel == Some(step) {
                world.write(Entry::CancelAsked);
                continue;
            }
            if crashes.contains(&step) {
                world = World::resumed(&workflow, &world.journal);
                continue;
            }
            let running = world.running();
            let which = usize::from(chance.draw());
            if !abort.is_empty() && chance.draw() < 200 {
                world.end(&abort[which % abort.len()], crate::entry::JobResult::Aborted);
            } else if running.is_empty() {
                world.wait();
            } else {
                let job = &running[which % running.len()];
                let result = if chance.draw() < badness { failed() } else { done(job) };
                world.end(job, result);
            }
        }
        prop_assert!(world.outcome().is_some());
        let mut replayed = World::new(&workflow).engine;
        for (at, entry) in &world.journal {
            replayed.apply(*at, entry);
        }
        prop_assert_eq!(replayed, world.engine);
    }

    /// A manager that dies after any entry changes nothing about how a run of repeatable steps ends.
    #[test]
    fn a_run_comes_to_the_same_end_from_any_prefix_of_its_journal(
        text in any_text(true),
        chance in any_chance(),
        bad in proptest::collection::vec(any::<Index>(), 0..3),
        cut in any::<Index>(),
    ) {
        let workflow = workflow(&text);
        let mut world = World::new(&workflow);
        let jobs: Vec<Job> = world.engine.jobs().keys().filter(|job| !job.is_clean()).cloned().collect();
        let bad: BTreeSet<Job> = bad.iter().map(|index| index.get(&jobs).clone()).collect();
        let how = |job: &Job, _: u32| if bad.contains(job) { failed() } else { done(job) };
        let mut chance = chance;
        let expected = world.finish(|_| chance.draw().into(), how);
        // Before the end: what is over is not taken over.
        let cut = cut.index(world.journal.len());
        let mut next = World::resumed(&workflow, &world.journal[..cut]);
        let outcome = next.finish(|_| chance.draw().into(), how);
        prop_assert_eq!(outcome.is_success(), expected.is_success());
        prop_assert_eq!(outcome.is_success(), bad.is_empty());
    }
}
