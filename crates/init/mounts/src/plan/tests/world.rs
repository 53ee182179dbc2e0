//! A kernel made up for tests: mounts, and what steps do to them.

use std::collections::BTreeMap;

use super::fake::Fake;
use crate::machine::{Seen, Tree};
use crate::path::{below, components, join};
use crate::{Action, Change, Fresh, Origin, Plan, Point, PointKind};

/// A file system: its files by path.
type Files = BTreeMap<String, Seen>;

#[derive(Clone, Debug)]
struct Mount {
    file_system: usize,
    /// What of the file system is its root.
    root: String,
    read_only: bool,
    no_exec: bool,
    /// Where it is attached: another mount, and a path in that one's file system.
    place: Option<(usize, String)>,
}

/// What a process sees at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Missing,
    Hidden,
    /// A file of the machine.
    Machine {
        path: String,
        read_only: bool,
        no_exec: bool,
    },
    /// A file of an image.
    Image {
        number: usize,
        path: String,
        read_only: bool,
        no_exec: bool,
    },
    /// Something in memory.
    Memory {
        read_only: bool,
        no_exec: bool,
    },
}

#[derive(Debug)]
pub(super) struct World {
    file_systems: Vec<Files>,
    /// Attached later means on top.
    mounts: Vec<Mount>,
    slots: BTreeMap<u16, usize>,
    /// The mounts of images.
    images: Vec<usize>,
    /// The root of the view.
    root: usize,
}

/// The file system of the machine, and the mount of its root.
const MACHINE: usize = 0;
/// The file system that hidden things are on.
const HIDDEN: usize = 1;
/// The first file system of an image.
const IMAGES: usize = 2;

impl World {
    /// The machine, with the same files wherever something is mounted, read-only or not executable there if said so.
    pub(super) fn new(fake: &Fake, rights: &BTreeMap<String, (bool, bool)>) -> Self {
        let mut world = Self {
            file_systems: vec![fake.machine.clone(), Files::new()],
            mounts: Vec::new(),
            slots: BTreeMap::new(),
            images: Vec::new(),
            root: 0,
        };
        for (path, seen) in &fake.machine {
            if let Seen::Folder { mount: true } | Seen::Other { mount: true } = seen {
                let place = (path != "/").then(|| {
                    let (mount, path) = world.walk(0, path).expect("it is there");
                    (mount, path)
                });
                let (read_only, no_exec) = rights.get(path).copied().unwrap_or_default();
                world.mounts.push(Mount {
                    file_system: MACHINE,
                    root: path.clone(),
                    read_only,
                    no_exec,
                    place,
                });
            }
        }
        // Images wait below the machine's root, where nobody looks, but where changes of all that is below a path get.
        for (number, files) in fake.images.iter().enumerate() {
            world.file_systems.push(files.clone());
            let image = world.add(IMAGES + number, "/");
            world.mounts[image].place = Some((0, format!("/.images/{number}")));
            world.images.push(image);
        }
        world
    }

    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for step in &plan.steps {
            self.step(&step.action);
        }
    }

    /// The machine with the places that were made.
    pub(super) fn machine(&self) -> Fake {
        Fake {
            machine: self.file_systems[MACHINE].clone(),
            images: self.file_systems[IMAGES..][..self.images.len()].to_vec(),
            ..Fake::default()
        }
    }

    pub(super) fn access(&self, path: &str) -> Access {
        let Some((mount, path)) = self.walk(self.root, path) else {
            return Access::Missing;
        };
        let mount = &self.mounts[mount];
        let (read_only, no_exec) = (mount.read_only, mount.no_exec);
        match mount.file_system {
            HIDDEN => Access::Hidden,
            MACHINE => Access::Machine {
                path,
                read_only,
                no_exec,
            },
            image if image < IMAGES + self.images.len() => Access::Image {
                number: image - IMAGES,
                path,
                read_only,
                no_exec,
            },
            _ => Access::Memory { read_only, no_exec },
        }
    }

    /// Where a path leads from a root: a mount, and a path in its file system.
    fn walk(&self, root: usize, path: &str) -> Option<(usize, String)> {
        let mut at = (root, self.mounts[root].root.clone());
        at = self.top(at);
        for component in components(path) {
            if self.mounts[at.0].file_system == HIDDEN {
                return Some(at);
            }
            let next = join(&at.1, &format!("/{component}"));
            let files = &self.file_systems[self.mounts[at.0].file_system];
            files.get(&next)?;
            at = self.top((at.0, next));
        }
        Some(at)
    }

    /// What is mounted last over a place.
    fn top(&self, mut at: (usize, String)) -> (usize, String) {
        loop {
            let over = self
                .mounts
                .iter()
                .rposition(|mount| mount.place.as_ref() == Some(&at));
            match over {
                Some(over) => at = (over, self.mounts[over].root.clone()),
                None => return at,
            }
        }
    }

    fn step(&mut self, action: &Action) {
        match action {
            Action::Create { tree, point } => {
                let file_system = match tree {
                    Tree::Image(number) => IMAGES + usize::from(*number),
                    _ => MACHINE,
                };
                make(&mut self.file_systems[file_system], "/", point);
            }
            Action::Copy {
                slot,
                origin,
                recursive,
                change,
            } => {
                let (root, path) = match origin {
                    Origin::Tree(Tree::Machine, path) => (0, path),
                    Origin::Tree(Tree::Image(number), path) => {
                        (self.images[usize::from(*number)], path)
                    }
                    Origin::Tree(Tree::Root | Tree::Extended(_), _) | Origin::Objects => {
                        panic!("there is none")
                    }
                    Origin::View(path) => (self.root, path),
                };
                let from = self.walk(root, path).expect("what is copied is there");
                let copy = self.copy(&from, *recursive);
                self.change(copy, *change);
                self.slots.insert(slot.0, copy);
            }
            Action::Make {
                slot,
                fresh,
                points,
                change,
            } => {
                assert!(matches!(fresh, Fresh::Memory(_)));
                let mut files = Files::from([("/".to_owned(), Seen::Folder { mount: false })]);
                for point in points {
                    make(&mut files, "/", point);
                }
                self.file_systems.push(files);
                let made = self.add(self.file_systems.len() - 1, "/");
                self.change(made, *change);
                self.slots.insert(slot.0, made);
            }
            Action::Attach { slot, at } => {
                let mount = self.slots.remove(&slot.0).expect("a full slot");
                if &**at == "/" {
                    self.root = mount;
                } else {
                    let place = self.walk(self.root, at).expect("a place to mount on");
                    self.attach(mount, place);
                }
            }
            Action::Change { at, change } => {
                let (mount, path) = self.walk(self.root, at).expect("it is there");
                assert_eq!(path, self.mounts[mount].root, "only mounts can be changed");
                self.change(mount, *change);
            }
            Action::Hide { at } => {
                let place = self.walk(self.root, at).expect("what is hidden is there");
                let hidden = self.add(HIDDEN, "/");
                self.attach(hidden, place);
            }
        }
    }

    fn add(&mut self, file_system: usize, root: &str) -> usize {
        self.mounts.push(Mount {
            file_system,
            root: root.to_owned(),
            read_only: false,
            no_exec: false,
            place: None,
        });
        self.mounts.len() - 1
    }

    /// Attaching makes a mount the last one, with everything that is attached to it.
    fn attach(&mut self, mount: usize, place: (usize, String)) {
        assert!(self.mounts[mount].place.is_none(), "attached once");
        self.mounts[mount].place = Some(place);
    }

    fn copy(&mut self, from: &(usize, String), recursive: bool) -> usize {
        let mut copy = self.mounts[from.0].clone();
        copy.root.clone_from(&from.1);
        copy.place = None;
        self.mounts.push(copy);
        let copy = self.mounts.len() - 1;
        if recursive {
            let attached: Vec<_> = (0..copy)
                .filter_map(|mount| {
                    let (parent, path) = self.mounts[mount].place.clone()?;
                    // What is mounted over the very place is what was walked to.
                    let inside = below(&path, &from.1).is_some_and(|rest| !rest.is_empty());
                    (parent == from.0 && inside).then_some((mount, path))
                })
                .collect();
            for (mount, path) in attached {
                let root = self.mounts[mount].root.clone();
                let child = self.copy(&(mount, root), true);
                self.mounts[child].place = Some((copy, path));
            }
        }
        copy
    }

    fn change(&mut self, mount: usize, change: Change) {
        let of = &mut self.mounts[mount];
        of.read_only = change.read_only.unwrap_or(of.read_only);
        of.no_exec = change.exec.map_or(of.no_exec, |exec| !exec);
        for child in 0..self.mounts.len() {
            let parent = self.mounts[child].place.as_ref().map(|(parent, _)| *parent);
            if parent == Some(mount) {
                self.change(child, change);
            }
        }
    }
}

/// Makes a place and the folders above it.
fn make(files: &mut Files, root: &str, point: &Point) {
    let mut at = root.to_owned();
    let all: Vec<&str> = components(&point.path).collect();
    for (index, component) in all.iter().enumerate() {
        at = join(&at, &format!("/{component}"));
        let seen = if index + 1 < all.len() || point.kind == PointKind::Folder {
            Seen::Folder { mount: false }
        } else {
            Seen::Other { mount: false }
        };
        files.entry(at.clone()).or_insert(seen);
    }
}
