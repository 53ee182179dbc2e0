//! What is where in a view that is not made yet: the machine's tree with providers put over it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use crate::entries::{Content, Provider};
use crate::machine::{LookError, Machine, Seen, Tree};
use crate::path::{MAX_LENGTH, below, components, join, or_root, upwards};
use crate::plan::{DEVICES, Fresh, PlanError};

/// How many symlinks are followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// What is provided, by the path in the view.
pub(crate) type Providers = BTreeMap<String, Provided>;

/// A provider at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provided {
    pub(crate) directive: &'static str,
    pub(crate) optional: bool,
    pub(crate) provider: Provider,
}

/// Asks a machine once for each path.
pub(crate) struct Looker<'a, M> {
    machine: &'a M,
    known: RefCell<HashMap<(Tree, String), Result<Seen, LookError>>>,
}

impl<'a, M: Machine> Looker<'a, M> {
    pub(crate) fn new(machine: &'a M) -> Self {
        Self {
            machine,
            known: RefCell::default(),
        }
    }

    pub(crate) fn look(&self, tree: Tree, path: &str) -> Result<Seen, LookError> {
        let key = (tree, path.to_owned());
        let mut known = self.known.borrow_mut();
        let ask = || self.machine.look(tree, path);
        known.entry(key).or_insert_with(ask).clone()
    }
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Without symlinks.
    pub(crate) path: String,
    pub(crate) found: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    Folder {
        mount: bool,
    },
    Other {
        mount: bool,
    },
    /// In a file system that does not exist yet and has content.
    Unknown,
}

/// What a path of a view is in reality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reality<'a> {
    Tree(Tree, String),
    /// In a fresh file system: that, and the rest of the path in it.
    Fresh(&'a Fresh, &'a str),
}

pub(crate) struct Sight<'a, M> {
    looker: &'a Looker<'a, M>,
    /// What the view is of where nothing is provided.
    tree: Tree,
    providers: &'a Providers,
}

impl<'a, M: Machine> Sight<'a, M> {
    pub(crate) fn new(looker: &'a Looker<'a, M>, tree: Tree, providers: &'a Providers) -> Self {
        Self {
            looker,
            tree,
            providers,
        }
    }

    /// Follows a path through the view. What is missing is followed as if it were folders.
    pub(crate) fn chase(&self, directive: &'static str, path: &str) -> Result<Resolved, PlanError> {
        self.follow(directive, path, Self::look)
    }

    /// Follows the path of a provider: what is provided at its end, perhaps by itself, does not count.
    pub(crate) fn chase_place(
        &self,
        directive: &'static str,
        path: &str,
    ) -> Result<Resolved, PlanError> {
        self.follow(directive, path, Self::look_beneath)
    }

    fn follow(
        &self,
        directive: &'static str,
        path: &str,
        look_at_end: impl Fn(&Self, &'static str, &str) -> Result<Looked, PlanError>,
    ) -> Result<Resolved, PlanError> {
        let mut ahead: Vec<Box<str>> = components(path).rev().map(Box::from).collect();
        let mut behind = String::new();
        let mut found = Found::Folder { mount: true };
        let mut links = 0;
        let links_error = || PlanError::Links {
            directive,
            path: path.into(),
        };
        if ahead.is_empty() {
            found = self.found(directive, "/")?;
        }
        while let Some(component) = ahead.pop() {
            if &*component == ".." {
                behind.truncate(behind.rfind('/').unwrap_or(0));
                if found != Found::Missing {
                    found = Found::Folder { mount: false };
                }
                continue;
            }
            let folder = behind.len();
            behind.push('/');
            behind.push_str(&component);
            if behind.len() >= MAX_LENGTH {
                return Err(links_error());
            }
            if found == Found::Missing {
                continue;
            }
            let looked = if ahead.is_empty() {
                look_at_end(self, directive, &behind)?
            } else {
                self.look(directive, &behind)?
            };
            match looked {
                Looked::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS || ahead.len() + target.len() / 2 > MAX_LENGTH {
                        return Err(links_error());
                    }
                    behind.truncate(if target.starts_with('/') { 0 } else { folder });
                    ahead.extend(components(&target).rev().map(Box::from));
                    found = Found::Folder { mount: false };
                }
                Looked::Found(Found::Other { .. }) if !ahead.is_empty() => found = Found::Missing,
                Looked::Found(what) => found = what,
            }
        }
        if behind.is_empty() {
            found = self.found(directive, "/")?;
        }
        Ok(Resolved {
            path: or_root(behind),
            found,
        })
    }

    /// What is really at a path without symlinks, as if nothing were provided right there.
    pub(crate) fn beneath<'p>(&'p self, path: &'p str) -> Reality<'p> {
        self.real(path, upwards(path).skip(1))
    }

    /// Whether a path of another root is in something that is bound read-only into it. Nothing is made there, not even a
    /// place to mount on: it would appear in the machine's own tree.
    pub(crate) fn is_kept(&self, path: &str) -> bool {
        let nearest = upwards(path)
            .skip(1)
            .find_map(|folder| self.providers.get(folder));
        self.tree == Tree::Root
            && nearest.is_some_and(|provided| {
                let content = &provided.provider.content;
                let is_bind = matches!(
                    content,
                    Content::Bind {
                        tree: Tree::Machine,
                        ..
                    }
                );
                is_bind && provided.provider.read_only
            })
    }

    fn real<'p>(
        &'p self,
        path: &'p str,
        mut folders: impl Iterator<Item = &'p str>,
    ) -> Reality<'p> {
        let nearest = folders.find_map(|folder| {
            let provided = self.providers.get(folder)?;
            below(path, folder).map(|rest| (provided, rest))
        });
        match nearest {
            None => Reality::Tree(self.tree, path.to_owned()),
            Some((provided, rest)) => match &provided.provider.content {
                Content::Bind { tree, source, .. } => Reality::Tree(*tree, join(source, rest)),
                Content::Fresh(fresh) => Reality::Fresh(fresh, rest),
            },
        }
    }

    fn found(&self, directive: &'static str, path: &str) -> Result<Found, PlanError> {
        Ok(match self.look(directive, path)? {
            Looked::Found(found) => found,
            // A root is never a symlink.
            Looked::Link(_) => Found::Other { mount: false },
        })
    }

    fn look(&self, directive: &'static str, path: &str) -> Result<Looked, PlanError> {
        self.look_at(directive, path, self.real(path, upwards(path)))
    }

    fn look_beneath(&self, directive: &'static str, path: &str) -> Result<Looked, PlanError> {
        self.look_at(directive, path, self.beneath(path))
    }

    fn look_at(
        &self,
        directive: &'static str,
        path: &str,
        reality: Reality<'_>,
    ) -> Result<Looked, PlanError> {
        let looked = match reality {
            Reality::Tree(tree, real) => {
                let seen = self.looker.look(tree, &real);
                let seen = seen.map_err(|source| PlanError::Look {
                    directive,
                    path: path.into(),
                    source,
                })?;
                match seen {
                    Seen::Missing => Found::Missing,
                    Seen::Folder { mount } => Found::Folder { mount },
                    Seen::Other { mount } => Found::Other { mount },
                    Seen::Link(target) => return Ok(Looked::Link(target)),
                }
            }
            Reality::Fresh(_, "") => Found::Folder { mount: true },
            Reality::Fresh(Fresh::Processes { .. } | Fresh::Queues | Fresh::Groups, _) => {
                Found::Unknown
            }
            Reality::Fresh(Fresh::Devices, rest) if DEVICES.contains(&&rest[1..]) => {
                Found::Other { mount: false }
            }
            Reality::Fresh(Fresh::Devices | Fresh::Memory(_), _) => Found::Missing,
        };
        if looked == Found::Missing && self.leads_to_a_provider(path) {
            return Ok(Looked::Found(Found::Folder { mount: false }));
        }
        Ok(Looked::Found(looked))
    }

    /// Whether the path will be made, since something is mounted below it.
    fn leads_to_a_provider(&self, path: &str) -> bool {
        let start = join(path, "/");
        let mut behind = self.providers.range(start.clone()..);
        behind
            .next()
            .is_some_and(|(provided, _)| provided.starts_with(&start))
    }
}

enum Looked {
    Found(Found),
    Link(Box<str>),
}
