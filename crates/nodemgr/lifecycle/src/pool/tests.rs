use proptest::prelude::*;

use super::*;

fn member(id: u32, state: State) -> Member<u32> {
    Member {
        id,
        state,
        task: None,
        taken: false,
        reachable: true,
        rests: false,
        supported: VerbSet::ALL,
    }
}

fn size(min_idle: u32, max: Option<u32>) -> PoolSize {
    PoolSize { min_idle, max }
}

#[test]
fn an_empty_pool_makes_its_minimum() {
    let plan = plan::<u32>(size(3, None), &[]);
    assert_eq!((plan.make, plan.short), (3, 0));
    assert!(plan.start.is_empty());
}

#[test]
fn hibernated_machines_are_started_before_stopped_ones_and_those_before_new_ones() {
    let members = [
        member(1, State::Stopped(Halt::Off)),
        member(2, State::Stopped(Halt::Hibernated)),
        member(3, State::Running),
    ];
    let plan = plan(size(4, None), &members);
    assert_eq!(plan.keep, [3]);
    assert_eq!(plan.start, [2, 1]);
    assert_eq!(plan.make, 1);
}

#[test]
fn what_is_on_its_way_counts_and_what_leaves_does_not() {
    let mut leaving = member(2, State::Running);
    leaving.task = Some(Verb::Stop);
    let mut coming = member(3, State::Stopped(Halt::Off));
    coming.task = Some(Verb::Start);
    let members = [member(1, State::Pending), leaving, coming];
    let plan = plan(size(2, None), &members);
    assert_eq!(plan.keep, [1, 3]);
    assert_eq!((plan.start.len(), plan.make), (0, 0));
}

#[test]
fn machines_at_work_do_not_count_as_idle_but_for_the_maximum() {
    let mut taken = member(1, State::Running);
    taken.taken = true;
    let plan = plan(size(2, Some(2)), &[taken]);
    assert_eq!((plan.make, plan.short), (1, 1));
}

#[test]
fn a_machine_that_cannot_be_started_is_not() {
    let mut stuck = member(1, State::Stopped(Halt::Off));
    stuck.supported = VerbSet::NONE;
    let plan = plan(size(1, None), &[stuck]);
    assert_eq!((plan.start.len(), plan.make), (0, 1));
}

#[test]
fn a_machine_that_did_not_start_or_does_not_answer_is_replaced() {
    let mut broken = member(1, State::Stopped(Halt::Off));
    broken.rests = true;
    let mut silent = member(2, State::Running);
    silent.reachable = false;
    let members = [broken, silent];
    let plan = plan(size(1, None), &members);
    assert!(plan.keep.is_empty() && plan.start.is_empty());
    assert_eq!((plan.make, plan.short), (1, 0));
}

#[test]
fn machines_that_do_not_answer_are_replaced_once_and_not_for_ever() {
    let silent = |id| Member {
        reachable: false,
        ..member(id, State::Running)
    };
    let members: Vec<Member<u32>> = (0..3).map(silent).collect();
    let planned = plan(size(3, None), &members);
    assert_eq!((planned.make, planned.short), (3, 0));
    // Those that were made in their place do not answer either.
    let members: Vec<Member<u32>> = (0..6).map(silent).collect();
    let planned = plan(size(3, None), &members);
    assert_eq!((planned.make, planned.short), (0, 3));
    // Whoever was given one may be the only one who reaches it.
    let taken = Member {
        taken: true,
        ..silent(9)
    };
    let planned = plan(size(1, None), &[taken, taken]);
    assert_eq!((planned.make, planned.short), (1, 0));
}

prop_compose! {
    fn any_member()(
        state in prop::sample::select(&State::ALL[..]),
        task in prop::option::of(prop::sample::select(&Verb::ALL[..])),
        taken: bool,
        reachable: bool,
        rests: bool,
        can: bool,
    ) -> Member<u32> {
        let supported = if can { VerbSet::ALL } else { VerbSet::NONE };
        Member { id: 0, state, task, taken, reachable, rests, supported }
    }
}

proptest! {
    #[test]
    fn a_plan_gives_what_is_missing_and_no_more(
        min in 0u32..12,
        max in prop::option::of(0u32..20),
        mut members in prop::collection::vec(any_member(), 0..20),
    ) {
        for (id, member) in (0..).zip(&mut members) {
            member.id = id;
        }
        let plan = plan(size(min, max), &members);
        let started = u32::try_from(plan.start.len()).unwrap();
        let kept = u32::try_from(plan.keep.len()).unwrap();
        prop_assert_eq!(kept + started + plan.make + plan.short, min);
        let alive = members.iter().filter(|member| !member.state.is_ending()).count();
        if let Some(max) = max && plan.make > 0 {
            prop_assert!(u32::try_from(alive).unwrap() + plan.make <= max);
        }
        let silent = members.iter().filter(|member| member.is_silent()).count();
        if plan.make > 0 {
            prop_assert!(kept + started + plan.make + u32::try_from(silent).unwrap() <= 2 * min);
        }
        // A machine is made only when none that sleeps could be started.
        if plan.make + plan.short > 0 {
            let asleep = members.iter().filter(|member| member.effort().is_some());
            prop_assert_eq!(asleep.count(), plan.start.len());
        }
        for id in &plan.start {
            let member = &members[*id as usize];
            prop_assert!(!member.taken);
            let step = crate::decide(member.state, Verb::Start, member.supported);
            prop_assert!(matches!(step, Ok(crate::Step::Act(_))));
        }
        for id in plan.keep.iter().chain(&plan.start) {
            prop_assert!(!members[*id as usize].taken);
        }
        for id in &plan.start {
            prop_assert!(!members[*id as usize].rests);
        }
        for id in &plan.keep {
            prop_assert!(members[*id as usize].reachable);
        }
    }
}
