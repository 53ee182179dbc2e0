use proptest::prelude::*;

use super::*;

const KILLED: Outcome = Outcome { raw: 9 };
const MISSING: Outcome = Outcome {
    raw: EXIT_NOT_EXECUTED << 8,
};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn new() -> Policy {
    Policy::new(Timing::default(), false, false)
}

/// Starts a core that gets as far as running; how it was started.
fn run_core(policy: &mut Policy, now: Duration, known_good: bool) -> Start {
    let start = start_core(policy, now, known_good);
    assert_eq!(policy.apply(now, Event::Hello), None);
    assert!(!policy.may_reap());
    assert_eq!(
        policy.apply(now, Event::Adopted),
        Some(Action::RememberProgram)
    );
    assert!(policy.may_reap());
    start
}

fn start_core(policy: &mut Policy, now: Duration, known_good: bool) -> Start {
    let Some(Action::Start(start)) = policy.apply(now, Event::Tick) else {
        panic!("no start at {now:?}: {policy:?}");
    };
    assert_eq!(policy.apply(now, Event::Started { known_good }), None);
    start
}

#[test]
fn first_core_is_started_at_once() {
    let start = run_core(&mut new(), at(0), false);
    assert_eq!(
        start,
        Start {
            program: Program::AtPath,
            cause: Cause::FirstBoot,
            crashes: 0,
            safe_mode: false
        }
    );
}

#[test]
fn third_crash_in_a_row_leads_to_safe_mode_and_further_ones_to_delays() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    let mut now = at(0);
    let mut delays = Vec::new();
    let mut modes = Vec::new();
    for _ in 0..12 {
        policy.apply(now, Event::Exited(KILLED));
        let until = policy.deadline().unwrap();
        delays.push((until - now).as_millis());
        now = until;
        modes.push(run_core(&mut policy, now, true).safe_mode);
    }
    assert_eq!(modes[..2], [false, false]);
    assert!(modes[2..].iter().all(|safe_mode| *safe_mode));
    assert_eq!(
        delays,
        [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]
    );
}

#[test]
fn crashes_that_lie_apart_do_not_lead_to_safe_mode() {
    let mut policy = new();
    for n in 0..20 {
        let now = at(n * 5_001);
        let start = run_core(&mut policy, now, true);
        assert!(!start.safe_mode);
        assert!(start.crashes <= 2);
        policy.apply(now + at(5_001), Event::Exited(KILLED));
    }
}

#[test]
fn core_that_runs_long_enough_leaves_safe_mode() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    for _ in 0..3 {
        policy.apply(at(0), Event::Exited(KILLED));
        run_core(&mut policy, at(0), true);
    }
    // The end of the link is usually seen before the exit.
    policy.apply(at(10_000), Event::LinkClosed);
    policy.apply(at(10_000), Event::Exited(KILLED));
    let start = run_core(&mut policy, at(10_000), true);
    assert!(!start.safe_mode);
    assert_eq!(start.crashes, 1);
}

#[test]
fn hanging_core_is_aborted_then_killed_then_replaced() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    assert_eq!(policy.apply(at(4_999), Event::Tick), None);
    assert_eq!(policy.apply(at(5_000), Event::Tick), Some(Action::Ping));
    assert_eq!(policy.apply(at(14_999), Event::Tick), None);
    assert_eq!(policy.apply(at(15_000), Event::Tick), Some(Action::Abort));
    // Too late.
    assert_eq!(policy.apply(at(15_001), Event::Pong), None);
    assert_eq!(policy.apply(at(18_000), Event::Tick), Some(Action::Kill));
    assert_eq!(policy.deadline(), None);
    policy.apply(at(18_001), Event::Exited(KILLED));
    let start = run_core(&mut policy, at(18_001), true);
    assert_eq!(start.cause, Cause::Hang);
}

#[test]
fn answering_core_is_asked_again() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    for n in 1..10 {
        assert_eq!(policy.apply(at(n * 5_000), Event::Tick), Some(Action::Ping));
        assert_eq!(policy.apply(at(n * 5_000), Event::Pong), None);
    }
}

#[test]
fn without_heartbeat_nothing_is_asked() {
    let timing = Timing {
        heartbeat: Duration::ZERO,
        ..Timing::default()
    };
    let mut policy = Policy::new(timing, false, false);
    run_core(&mut policy, at(0), false);
    assert_eq!(policy.deadline(), None);
}

#[test]
fn core_that_closes_its_link_is_killed() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    assert_eq!(policy.apply(at(10), Event::LinkClosed), None);
    assert_eq!(policy.apply(at(1_010), Event::Tick), Some(Action::Kill));
    policy.apply(at(1_011), Event::Exited(KILLED));
    assert_eq!(
        run_core(&mut policy, at(1_011), true).cause,
        Cause::Crash { outcome: KILLED }
    );
}

#[test]
fn upgrade_clears_the_record_of_crashes() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    for _ in 0..3 {
        policy.apply(at(0), Event::Exited(KILLED));
        run_core(&mut policy, at(0), true);
    }
    policy.apply(at(1), Event::UpgradeAsked { init: false });
    assert_eq!(policy.apply(at(2), Event::Exited(Outcome { raw: 0 })), None);
    let start = run_core(&mut policy, at(2), false);
    assert_eq!(
        (start.cause, start.safe_mode, start.crashes),
        (Cause::Upgrade, false, 0)
    );
}

#[test]
fn upgrade_of_init_comes_before_the_next_core() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    policy.apply(at(1), Event::UpgradeAsked { init: true });
    assert_eq!(
        policy.apply(at(2), Event::Exited(Outcome { raw: 0 })),
        Some(Action::ExecuteInit)
    );
    // Whether that fails or not, this is what follows.
    let mut resumed = Policy::resumed(Timing::default(), false, true);
    for policy in [&mut policy, &mut resumed] {
        assert_eq!(run_core(policy, at(3), false).cause, Cause::Upgrade);
    }
}

#[test]
fn core_that_announces_its_exit_and_stays_is_killed() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    policy.apply(at(0), Event::UpgradeAsked { init: false });
    assert_eq!(policy.apply(at(10_000), Event::Tick), Some(Action::Kill));
    policy.apply(at(10_001), Event::Exited(KILLED));
    assert_eq!(
        run_core(&mut policy, at(10_001), true).cause,
        Cause::Upgrade
    );
}

#[test]
fn program_that_does_not_adopt_is_rolled_back() {
    for says_hello in [false, true] {
        let mut policy = new();
        run_core(&mut policy, at(0), false);
        policy.apply(at(1), Event::UpgradeAsked { init: false });
        policy.apply(at(1), Event::Exited(Outcome { raw: 0 }));
        assert_eq!(
            start_core(&mut policy, at(1), false).program,
            Program::AtPath
        );
        if says_hello {
            policy.apply(at(1), Event::Hello);
        }
        policy.apply(at(2), Event::Exited(KILLED));
        let start = run_core(&mut policy, at(2), true);
        assert_eq!(start.program, Program::KnownGood);
        assert_eq!(start.cause, Cause::RolledBack { outcome: KILLED });
        // It stays with what works, until the next upgrade.
        policy.apply(at(3), Event::Exited(KILLED));
        assert_eq!(
            run_core(&mut policy, at(3), true).program,
            Program::KnownGood
        );
        policy.apply(at(4), Event::UpgradeAsked { init: false });
        policy.apply(at(4), Event::Exited(KILLED));
        assert_eq!(
            start_core(&mut policy, at(4), false).program,
            Program::AtPath
        );
    }
}

#[test]
fn program_that_is_too_slow_is_rolled_back() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    policy.apply(at(0), Event::UpgradeAsked { init: false });
    policy.apply(at(0), Event::Exited(Outcome { raw: 0 }));
    start_core(&mut policy, at(0), false);
    assert_eq!(policy.apply(at(10_000), Event::Tick), Some(Action::Abort));
    policy.apply(at(10_001), Event::Exited(Outcome { raw: 6 }));
    let start = run_core(&mut policy, at(10_001), true);
    assert_eq!(start.program, Program::KnownGood);
}

#[test]
fn same_program_that_dies_while_adopting_is_no_roll_back() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    policy.apply(at(1), Event::Exited(KILLED));
    start_core(&mut policy, at(1), true);
    policy.apply(at(2), Event::Exited(KILLED));
    let start = run_core(&mut policy, at(2), true);
    assert_eq!(start.cause, Cause::Crash { outcome: KILLED });
    assert_eq!(start.program, Program::AtPath);
}

#[test]
fn only_a_supervisor_gives_up_and_only_without_any_core() {
    let mut supervisor = Policy::new(Timing::default(), true, false);
    start_core(&mut supervisor, at(0), false);
    assert_eq!(
        supervisor.apply(at(1), Event::Exited(MISSING)),
        Some(Action::GiveUp)
    );
    assert_eq!(supervisor.deadline(), None);

    let mut first = new();
    let mut lucky = Policy::new(Timing::default(), true, false);
    run_core(&mut lucky, at(0), false);
    lucky.apply(at(0), Event::Exited(KILLED));
    for policy in [&mut first, &mut lucky] {
        let mut now = at(0);
        for _ in 0..20 {
            now = policy.deadline().unwrap().max(now);
            start_core(policy, now, false);
            assert_eq!(policy.apply(now, Event::Exited(MISSING)), None);
        }
    }
}

#[test]
fn nothing_is_started_while_everything_ends() {
    let mut policy = new();
    run_core(&mut policy, at(0), false);
    policy.apply(at(1), Event::EndAsked);
    assert_eq!(policy.apply(at(2), Event::Exited(Outcome { raw: 0 })), None);
    assert_eq!(policy.apply(at(99_999), Event::Tick), None);
    policy.apply(at(100_000), Event::BeginAnew);
    assert_eq!(
        run_core(&mut policy, at(100_000), true).cause,
        Cause::SoftReboot
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Hello),
        Just(Event::Adopted),
        Just(Event::Pong),
        Just(Event::LinkClosed),
        any::<bool>().prop_map(|init| Event::UpgradeAsked { init }),
        prop_oneof![Just(KILLED), Just(MISSING), Just(Outcome { raw: 0 })].prop_map(Event::Exited),
        Just(Event::Tick),
        Just(Event::Tick),
        Just(Event::Tick),
    ]
}

proptest! {
    /// Whatever cores say and however they end: there is never a second one, there is always another one, and it
    /// never takes longer than the longest delay.
    #[test]
    fn there_is_always_one_core_and_never_two(
        steps in prop::collection::vec((any_event(), 0_u64..8_000, any::<bool>()), 0..300)
    ) {
        let mut policy = new();
        let mut now = at(0);
        let mut is_alive = false;
        let mut dead_since = at(0);
        for (event, pause, known_good) in steps {
            // Time does not skip what is due.
            now = policy.deadline().map_or(now + at(pause), |due| due.max(now).min(now + at(pause)));
            if !is_alive && !matches!(event, Event::Tick) {
                continue;
            }
            if matches!(event, Event::Exited(_)) {
                is_alive = false;
                dead_since = now;
            }
            match policy.apply(now, event) {
                Some(Action::Start(start)) => {
                    prop_assert!(!is_alive, "a second core");
                    prop_assert!(now - dead_since <= LONGEST_DELAY);
                    prop_assert!(start.program == Program::AtPath || policy.has_known_good);
                    is_alive = true;
                    policy.apply(now, Event::Started { known_good });
                }
                Some(Action::Kill | Action::Abort | Action::Ping | Action::RememberProgram) => {
                    prop_assert!(is_alive);
                }
                Some(Action::GiveUp) => prop_assert!(false, "gave up"),
                Some(Action::ExecuteInit) => prop_assert!(!is_alive),
                None => {}
            }
            prop_assert!(is_alive || policy.deadline().is_some_and(|at| at <= now + LONGEST_DELAY));
            prop_assert!(is_alive || !policy.may_reap());
        }
    }
}
