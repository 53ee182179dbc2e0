use proptest::prelude::*;

use super::*;

/// Every answer: `.` refused, `=` nothing to do, else the phase it leads to.
/// Columns: unprovisioned, started, provisioned, paused, deprovisioning.
const TABLE: &[(Request, &str)] = &[
    (Request::Start, "S S . . ."),
    (Request::CreateKey, ". = = = ."),
    (Request::ApplyCert, ". = = = ."),
    (Request::Finish, ". P = = ."),
    (Request::Deprovision, "= U U U U"),
    (Request::Pause, ". . Z = ."),
    (Request::Resume, ". . = P ."),
];

fn phase_of(letter: &str) -> Phase {
    match letter {
        "U" => Phase::Unprovisioned,
        "S" => Phase::Started,
        "P" => Phase::Provisioned,
        "Z" => Phase::Paused,
        other => panic!("no phase {other}"),
    }
}

/// The phase after the first `done` actions of a plan.
fn after(phase: Phase, actions: &[Action]) -> Phase {
    actions.iter().fold(phase, |phase, action| match action {
        Action::Enter(next) => *next,
        Action::Do(_) => phase,
    })
}

#[test]
fn every_cell_of_the_table() {
    let listed: Vec<Request> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(listed, Request::ALL);
    for (request, row) in TABLE {
        for (&phase, cell) in Phase::ALL.iter().zip(row.split_whitespace()) {
            match (plan(phase, *request), cell) {
                (Err(_), ".") => {}
                (Ok(actions), "=") => assert_eq!(actions, [], "{request} in {phase}"),
                (Ok(actions), cell) => {
                    assert_eq!(
                        after(phase, &actions),
                        phase_of(cell),
                        "{request} in {phase}"
                    );
                }
                (Err(error), cell) => panic!("{error}, but the table says {cell}"),
            }
        }
    }
}

#[test]
fn no_key_is_touched_while_the_node_is_a_member() {
    for &phase in Phase::ALL {
        for &request in Request::ALL {
            let Ok(actions) = plan(phase, request) else {
                continue;
            };
            let mut phase = phase;
            for action in actions {
                match action {
                    Action::Enter(next) => phase = next,
                    Action::Do(Step::ClearKeys | Step::TakeOwnership | Step::SelfSign) => {
                        assert!(!phase.is_member(), "{request}: {action:?} while {phase}");
                    }
                    Action::Do(_) => {}
                }
            }
        }
    }
}

#[test]
fn refusals_say_what_to_do_instead() {
    let refused = plan(Phase::Unprovisioned, Request::CreateKey).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "CreateKey is not possible while the node is unprovisioned; start with StartProvisioning"
    );
    let refused = plan(Phase::Unprovisioned, Request::Pause).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "PauseNode is not possible while the node is unprovisioned; provision it first"
    );
}

/// What the steps have done, as far as later ones depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct World {
    owned: bool,
    self_signed: bool,
    keys: bool,
    permissions: bool,
}

impl World {
    fn act(&mut self, step: Step) {
        match step {
            Step::ClearKeys => {
                (self.owned, self.self_signed, self.keys) = (false, false, false);
            }
            Step::TakeOwnership => self.owned = true,
            Step::SelfSign => {
                assert!(self.owned, "self-signed before the store has an owner");
                self.self_signed = true;
            }
            Step::EncryptDisks => assert!(self.self_signed, "disks encrypted without a key"),
            Step::CheckOwnCert => assert!(self.keys),
            Step::ForgetPermissions => self.permissions = false,
            Step::StartHook | Step::FinishHook | Step::DeprovisionHook => {}
        }
    }
}

/// A node whose process dies after any number of actions.
#[derive(Debug, Clone)]
struct Node {
    phase: Phase,
    world: World,
}

impl Node {
    /// Carries the first `survive` actions out, then dies if there were more, and starts again.
    fn run(&mut self, actions: &[Action], survive: usize) {
        for action in &actions[..survive.min(actions.len())] {
            match action {
                Action::Do(step) => self.world.act(*step),
                Action::Enter(phase) => self.phase = *phase,
            }
        }
        if survive < actions.len() {
            for action in resume(self.phase) {
                match action {
                    Action::Do(step) => self.world.act(step),
                    Action::Enter(phase) => self.phase = phase,
                }
            }
        }
    }

    fn ask(&mut self, request: Request, survive: usize) -> bool {
        // Nobody finishes without a certificate for the node's own server.
        if request == Request::Finish && self.phase == Phase::Started && !self.world.keys {
            return false;
        }
        let Ok(actions) = plan(self.phase, request) else {
            return false;
        };
        self.run(&actions, survive);
        if request == Request::ApplyCert {
            self.world.keys = true;
        }
        if self.phase.is_member() {
            self.world.permissions = true;
        }
        true
    }

    fn check(&self) {
        match self.phase {
            Phase::Provisioned | Phase::Paused => {
                assert!(self.world.owned && self.world.keys, "{self:?}");
            }
            Phase::Started => assert!(self.world.owned && self.world.self_signed, "{self:?}"),
            Phase::Unprovisioned => assert!(!self.world.permissions, "{self:?}"),
            Phase::Deprovisioning => panic!("not resumed: {self:?}"),
        }
    }
}

proptest! {
    /// Whatever is asked for and wherever the process dies, what the state file says is true, and the
    /// flow from its start leads to a provisioned node.
    #[test]
    fn crashes_anywhere_leave_a_node_that_can_be_provisioned(
        story in prop::collection::vec((prop::sample::select(Request::ALL), 0usize..9), 0..30),
    ) {
        let mut node = Node { phase: Phase::Unprovisioned, world: World::default() };
        for (request, survive) in story {
            node.ask(request, survive);
            node.check();
        }
        if node.phase.is_member() {
            assert!(node.ask(Request::Deprovision, usize::MAX));
        }
        for request in [Request::Start, Request::CreateKey, Request::ApplyCert, Request::Finish] {
            assert!(node.ask(request, usize::MAX), "{request}");
            node.check();
        }
        prop_assert_eq!(node.phase, Phase::Provisioned);
    }

    /// A request that was interrupted and is made again ends where it would have ended.
    #[test]
    fn a_repeated_request_ends_where_an_undisturbed_one_does(
        phase in prop::sample::select(Phase::ALL),
        request in prop::sample::select(Request::ALL),
        survive in 0usize..9,
    ) {
        let Ok(actions) = plan(phase, request) else { return Ok(()) };
        let undisturbed = after(phase, &actions);
        let interrupted = after(phase, &actions[..survive.min(actions.len())]);
        let interrupted = after(interrupted, &resume(interrupted));
        let again = plan(interrupted, request).expect("what was begun can be repeated");
        prop_assert_eq!(after(interrupted, &again), undisturbed);
    }
}
