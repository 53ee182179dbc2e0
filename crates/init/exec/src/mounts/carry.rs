//! Carries a plan out, step by step.

use std::os::fd::OwnedFd;

use muster_mounts::{Action, Change, Fresh, Origin, Plan, Slot, Step, Tolerance, Tree};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

use super::calls::{attach_mount, change_mounts, copy_alone, copy_mount, open_place, seal_mount};
use super::fresh::{self, Made};
use super::inaccessible::Nodes;
use super::objects;
use super::root::stage;
use super::trees::Trees;
use super::{ViewError, refused};

/// A view in the making.
pub(super) struct Carrier<'a> {
    trees: &'a Trees,
    /// Made before anything becomes read-only, if something is to be hidden.
    nodes: Option<Nodes>,
    /// The root that the view is put together at, if it is not the machine's.
    staged: Option<OwnedFd>,
    slots: Vec<Option<Made>>,
    dropped: Vec<String>,
    best_effort: bool,
}

/// What is now the root of the view, if it is not the machine's, and what was dropped.
pub(super) struct Carried {
    pub(super) staged: Option<OwnedFd>,
    pub(super) dropped: Vec<String>,
}

/// A step failed.
struct Failure {
    errno: Errno,
    /// What cannot be done, in words behind "cannot".
    what: String,
    /// The path that the step is about is not there.
    absent: bool,
}

impl Failure {
    fn new(errno: Errno, what: String) -> Self {
        Self {
            errno,
            what,
            absent: false,
        }
    }

    /// The path itself could not be opened.
    fn of_path(errno: Errno, what: String) -> Self {
        Self {
            absent: matches!(errno, Errno::NOENT | Errno::NOTDIR),
            ..Self::new(errno, what)
        }
    }
}

impl<'a> Carrier<'a> {
    pub(super) fn new(
        trees: &'a Trees,
        staged: Option<OwnedFd>,
        dropped: Vec<String>,
        best_effort: bool,
    ) -> Self {
        Self {
            trees,
            nodes: None,
            staged,
            slots: Vec::new(),
            dropped,
            best_effort,
        }
    }

    pub(super) fn carry_out(mut self, plan: &Plan) -> Result<Carried, ViewError> {
        let hides = |step: &Step| matches!(step.action, Action::Hide { .. });
        if plan.steps.iter().any(hides) {
            self.nodes = match Nodes::open() {
                Err(error) if self.best_effort => {
                    self.dropped.push(format!("{error}: {}", error.errno));
                    None
                }
                nodes => Some(nodes?),
            };
        }
        self.slots.resize_with(plan.slots.into(), || None);
        for step in &plan.steps {
            if let Err(failure) = self.step(step) {
                self.judge(step, &failure)?;
                if let Err(failure) = self.make_do(step) {
                    self.judge(step, &failure)?;
                }
            }
        }
        Ok(Carried {
            staged: self.staged,
            dropped: self.dropped,
        })
    }

    /// Whether a failure matters.
    fn judge(&mut self, step: &Step, failure: &Failure) -> Result<(), ViewError> {
        let errno = failure.errno;
        let refusal = matches!(errno, Errno::PERM | Errno::INVAL | Errno::NODEV);
        let detail = format!("{}: cannot {}", step.directive, failure.what);
        match step.tolerance {
            Tolerance::Absence if failure.absent => return Ok(()),
            Tolerance::Refusal if refusal => {}
            _ if self.best_effort => {}
            _ => return Err(refused(errno, detail)),
        }
        self.dropped.push(format!("{detail}: {errno}"));
        Ok(())
    }

    /// Puts something in the place of what was dropped, where there would be nothing at all: few programs work without a
    /// `/proc`, so in another root it is then the machine's.
    fn make_do(&mut self, step: &Step) -> Result<(), Failure> {
        match &step.action {
            Action::Make {
                slot,
                fresh: Fresh::Processes { .. },
                change,
                ..
            } if self.staged.is_some() => {
                let machines = Origin::Tree(Tree::Machine, "/proc".into());
                self.copy(*slot, &machines, true, *change)
            }
            _ => Ok(()),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match &step.action {
            Action::Create { tree, point } => {
                let root = self.trees.of(*tree);
                root.and_then(|root| fresh::make_point(root, point))
                    .map_err(|errno| Failure::new(errno, format!("make the place {}", point.path)))
            }
            Action::Copy {
                slot,
                origin,
                recursive,
                change,
            } => self.copy(*slot, origin, *recursive, *change),
            Action::Make {
                slot,
                fresh,
                points,
                change,
            } => {
                let mut made = fresh::make(fresh, points, self.trees)
                    .map_err(|(errno, what)| Failure::new(errno, what))?;
                change_mounts(made.mount.as_fd(), *change).map_err(|errno| {
                    Failure::new(errno, "set the rights of a new file system".to_owned())
                })?;
                let unknown = made.unknown.drain(..);
                let unknown = unknown.map(|why| format!("{}: {why}", step.directive));
                self.dropped.extend(unknown);
                self.fill(*slot, made);
                Ok(())
            }
            Action::Attach { slot, at } => self.attach(*slot, at),
            Action::Change { at, change } => {
                let what = || format!("{} {at}", describe(*change));
                let place =
                    open_place(self.view(), at).map_err(|errno| Failure::of_path(errno, what()))?;
                change_mounts(place.as_fd(), *change).map_err(|errno| Failure::new(errno, what()))
            }
            Action::Hide { at } => {
                let what = || format!("hide {at}");
                let place =
                    open_place(self.view(), at).map_err(|errno| Failure::of_path(errno, what()))?;
                self.hide(at, &place)
                    .map_err(|errno| Failure::new(errno, what()))
            }
        }
    }

    /// The root of the view.
    fn view(&self) -> BorrowedFd<'_> {
        let machine = || self.trees.machine();
        self.staged.as_ref().map_or_else(machine, AsFd::as_fd)
    }

    fn fill(&mut self, slot: Slot, made: Made) {
        if let Some(place) = self.slots.get_mut(usize::from(slot.0)) {
            *place = Some(made);
        }
    }

    fn copy(
        &mut self,
        slot: Slot,
        origin: &Origin,
        recursive: bool,
        change: Change,
    ) -> Result<(), Failure> {
        let (root, path) = match origin {
            Origin::Tree(tree, path) => {
                let absent = |errno| Failure::new(errno, format!("find the tree of {path}"));
                (self.trees.of(*tree).map_err(absent)?, path)
            }
            Origin::View(path) => (self.view(), path),
            Origin::Objects => {
                let made = objects::make(self.trees, change)
                    .map_err(|(errno, what)| Failure::new(errno, what))?;
                self.fill(slot, made);
                return Ok(());
            }
        };
        let cannot = |what: &str| {
            let what = format!("{what} {path}");
            move |errno| Failure::new(errno, what)
        };
        let place = open_place(root, path)
            .map_err(|errno| Failure::of_path(errno, format!("open {path}")))?;
        let copy = if recursive {
            copy_mount(place.as_fd(), true)
        } else {
            copy_alone(place.as_fd())
        };
        let copy = copy.map_err(cannot("copy the mount of"))?;
        change_mounts(copy.as_fd(), change).map_err(cannot(describe(change)))?;
        self.fill(slot, Made::just(copy));
        Ok(())
    }

    fn attach(&mut self, slot: Slot, at: &str) -> Result<(), Failure> {
        let filled = self
            .slots
            .get_mut(usize::from(slot.0))
            .and_then(Option::take);
        // What was to be attached has been dropped.
        let Some(made) = filled else {
            return Ok(());
        };
        let cannot = |errno| Failure::new(errno, format!("mount on {at}"));
        if at == "/" {
            self.staged = Some(stage(made.mount.as_fd(), None).map_err(cannot)?);
        } else {
            let place = open_place(self.view(), at)
                .map_err(|errno| Failure::of_path(errno, format!("mount on {at}")))?;
            attach_mount(made.mount.as_fd(), place.as_fd()).map_err(cannot)?;
        }
        for (name, copy) in &made.inside {
            let cannot = |errno| Failure::new(errno, format!("mount on {at}/{name}"));
            let place = open_place(made.mount.as_fd(), name).map_err(cannot)?;
            attach_mount(copy.as_fd(), place.as_fd()).map_err(cannot)?;
        }
        Ok(())
    }

    fn hide(&mut self, at: &str, place: &OwnedFd) -> Result<(), Errno> {
        // Without nodes nothing can be hidden, which has been said.
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        let node = nodes.like(place)?;
        let copy = copy_mount(node.as_fd(), false)?;
        seal_mount(copy.as_fd())?;
        if at == "/" {
            self.staged = Some(stage(copy.as_fd(), None)?);
            return Ok(());
        }
        attach_mount(copy.as_fd(), place.as_fd())
    }
}

/// A change in words that go before a path.
fn describe(change: Change) -> &'static str {
    match (change.read_only, change.exec) {
        (None, None) if change.plain => "take devices and rights from",
        (Some(true), _) => "make read-only",
        (_, Some(false)) => "forbid to execute in",
        (_, Some(true)) => "allow to execute in",
        (Some(false), None) => "make writable",
        (None, None) => "change",
    }
}
