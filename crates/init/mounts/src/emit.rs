//! Puts what is to be done into steps.
//!
//! A copy is taken before the first change if a later step could change what is copied, else right before it is attached:
//! copies that wait hold a descriptor each.

use crate::entries::Content;
use crate::machine::{Machine, Seen, Tree};
use crate::nodes::{Node, NodeKind};
use crate::path::below;
use crate::plan::{Action, Change, Fresh, Origin, Plan, Point, PointKind, Slot, Step, Tolerance};
use crate::settle::Settled;
use crate::sight::{Provided, Reality, Sight};

pub(crate) fn emit<M: Machine>(settled: &Settled<'_, M>, nodes: &[Node<'_>]) -> Plan {
    let mut emitter = Emitter {
        settled,
        sight: settled.sight(),
        nodes,
        plan: Plan::default(),
        early: Vec::new(),
        late: Vec::new(),
    };
    for node in nodes {
        emitter.node(node);
    }
    let mut plan = emitter.plan;
    plan.steps.append(&mut emitter.early);
    plan.steps.append(&mut emitter.late);
    plan
}

struct Emitter<'a, M> {
    settled: &'a Settled<'a, M>,
    sight: Sight<'a, M>,
    nodes: &'a [Node<'a>],
    /// Its steps are those that make places.
    plan: Plan,
    /// Copies of what later steps may change.
    early: Vec<Step>,
    late: Vec<Step>,
}

impl<M: Machine> Emitter<'_, M> {
    fn node(&mut self, node: &Node<'_>) {
        match node.what {
            NodeKind::Hidden => {
                // What is hidden may be there only because of something that would be mounted on it or below it.
                self.place(node, PointKind::Folder);
                let at = node.path.into();
                self.late.push(step(node, Action::Hide { at }));
            }
            NodeKind::Provided(provided) => self.provided(node, provided),
            NodeKind::Ruled { mount } => self.ruled(node, mount),
        }
    }

    fn provided(&mut self, node: &Node<'_>, provided: &Provided) {
        let slot = self.slot();
        let change = Change {
            read_only: node.effect.read_only.then_some(true),
            exec: node.effect.exec,
            plain: false,
        };
        match &provided.provider.content {
            Content::Bind {
                tree,
                source,
                recursive,
                kind,
                plain,
                renewed,
            } => {
                self.place(node, *kind);
                let change = Change {
                    plain: *plain,
                    ..change
                };
                let origin = match renewed {
                    true => Origin::Objects,
                    false => Origin::Tree(*tree, source.as_str().into()),
                };
                let copy = step(
                    node,
                    Action::Copy {
                        slot,
                        origin,
                        recursive: *recursive,
                        change,
                    },
                );
                let touched = match tree {
                    Tree::Machine => {
                        self.settled.tree == Tree::Machine
                            && self.nodes.iter().any(|other| {
                                below(source, other.path).is_some()
                                    || below(other.path, source).is_some()
                            })
                    }
                    // They wait somewhere below the machine's root, whose rights may change with all that is below it.
                    Tree::Root | Tree::Image(_) | Tree::Extended(_) => true,
                };
                if touched {
                    self.early.push(copy);
                } else {
                    self.late.push(copy);
                }
            }
            Content::Fresh(fresh) => {
                self.place(node, PointKind::Folder);
                let mut change = change;
                if !node.states_exec {
                    // It is as executable as it is made, unless all around it is not.
                    change.exec = change.exec.filter(|exec| !exec);
                }
                let action = Action::Make {
                    slot,
                    fresh: fresh.clone(),
                    points: self.points(node),
                    change,
                };
                self.late.push(step(node, action));
            }
        }
        self.attach(node, slot);
    }

    fn ruled(&mut self, node: &Node<'_>, mount: bool) {
        let above = node.parent.map(|parent| &self.nodes[parent]);
        let real = self.sight.beneath(node.path);
        let mut change = Change {
            read_only: node.effect.read_only.then_some(true),
            exec: node.effect.exec,
            plain: false,
        };
        let in_place = above.is_none() && mount;
        let (origin, early) = match real {
            Reality::Tree(_, _) if in_place => {
                let at = node.path.into();
                self.late.push(step(node, Action::Change { at, change }));
                return;
            }
            Reality::Tree(tree, path) => (Origin::Tree(tree, path.into()), above.is_some()),
            Reality::Fresh(_, _) => {
                // It is a copy of what the view made read-only itself, so the view may undo it.
                if above.is_some_and(|above| above.effect.read_only) && !node.effect.read_only {
                    change.read_only = Some(false);
                }
                if !node.states_exec {
                    change.exec = change.exec.filter(|exec| !exec);
                }
                (Origin::View(node.path.into()), false)
            }
        };
        let slot = self.slot();
        let copy = Action::Copy {
            slot,
            origin,
            recursive: true,
            change,
        };
        if early {
            self.early.push(step(node, copy));
        } else {
            self.late.push(step(node, copy));
        }
        self.attach(node, slot);
    }

    fn slot(&mut self) -> Slot {
        let slot = Slot(self.plan.slots);
        self.plan.slots = self.plan.slots.saturating_add(1);
        slot
    }

    fn attach(&mut self, node: &Node<'_>, slot: Slot) {
        let at = node.path.into();
        self.late.push(step(node, Action::Attach { slot, at }));
    }

    /// Makes the place that something is mounted on, where it can be missing.
    fn place(&mut self, node: &Node<'_>, kind: PointKind) {
        if node.path == "/" || self.sight.is_kept(node.path) {
            return;
        }
        if let Reality::Tree(tree, path) = self.sight.beneath(node.path)
            && self.settled.looker.look(tree, &path) == Ok(Seen::Missing)
        {
            let path = path.into();
            let point = Point { path, kind };
            let action = Action::Create { tree, point };
            self.plan.steps.push(step(node, action));
        }
    }

    /// The places in a fresh file system that something is mounted on.
    fn points(&self, node: &Node<'_>) -> Vec<Point> {
        let mut points = Vec::new();
        for other in self.nodes {
            let kind = match other.what {
                NodeKind::Provided(provided) => match &provided.provider.content {
                    Content::Bind { kind, .. } => *kind,
                    Content::Fresh(_) => PointKind::Folder,
                },
                NodeKind::Hidden => PointKind::Folder,
                NodeKind::Ruled { .. } => continue,
            };
            let Some(rest) = below(other.path, node.path).filter(|rest| !rest.is_empty()) else {
                continue;
            };
            // Something between the two may be what it is really mounted on.
            let is_here = matches!(self.sight.beneath(other.path),
                Reality::Fresh(fresh, real_rest) if real_rest == rest
                    && !matches!(fresh, Fresh::Processes { .. } | Fresh::Queues | Fresh::Groups));
            if is_here {
                let path = rest.trim_start_matches('/').into();
                points.push(Point { path, kind });
            }
        }
        points
    }
}

fn step(node: &Node<'_>, action: Action) -> Step {
    let tolerance = match node.what {
        NodeKind::Provided(provided) if provided.provider.dispensable => Tolerance::Refusal,
        _ if node.optional => Tolerance::Absence,
        _ => Tolerance::Nothing,
    };
    Step {
        directive: node.directive,
        action,
        tolerance,
    }
}
