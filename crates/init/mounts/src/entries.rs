//! What a view lists, each thing with its path, before anybody has looked what is there.

use crate::image::Hierarchy;
use crate::machine::{Machine, Seen, Tree};
use crate::options::MountOptions;
use crate::path::{below, tidy};
use crate::plan::{Fresh, PlanError, PointKind};
use crate::sight::{Found, Looker, Providers, Sight};
use crate::tables;
use crate::view::{ProcOthers, ProtectHome, Root, View};

/// How many entries a view may have.
const MAX_ENTRIES: usize = 4096;
/// The limits of what stays empty, or almost.
const ALMOST_EMPTY: [(&str, &str); 2] = [("size", "4m"), ("nr_inodes", "1k")];
/// Where devices are.
const DEVICE_FOLDER: &str = "/dev";
/// Where message queues are shown.
const QUEUES: &str = "/dev/mqueue";
/// Where the kernel's objects are shown.
const OBJECTS: &str = "/sys";
/// Where control groups are shown.
const GROUPS: &str = "/sys/fs/cgroup";
/// Folders in which those of dynamic users are, each of which only root may enter.
const PRIVATE_FOLDERS: [&str; 4] = [
    "/run/private",
    "/var/cache/private",
    "/var/lib/private",
    "/var/log/private",
];

/// One thing that a view lists.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) directive: &'static str,
    /// Counted from the root of the view.
    pub(crate) path: String,
    /// Nothing happens if the path does not exist.
    pub(crate) optional: bool,
    pub(crate) what: What,
}

impl Entry {
    fn is_bind_at(&self, path: &str) -> bool {
        let bind = |provider: &Provider| matches!(provider.content, Content::Bind { .. });
        self.path == path && matches!(&self.what, What::Provide(provider) if bind(provider))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Provide(Provider),
    Rule(Rule),
}

/// What may be done at a path. At one path the first of these wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Hide,
    ReadOnly,
    ReadWrite,
    NoExec,
    Exec,
}

/// What is put at a path. At one path the first of these wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Provider {
    pub(crate) rank: Rank,
    pub(crate) content: Content,
    pub(crate) read_only: bool,
    /// The kernel may refuse it.
    pub(crate) dispensable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// What extensions are laid over.
    Extended,
    /// An image that the unit names.
    Image,
    /// A bind that the unit names.
    Asked,
    /// Follows from something that the unit says.
    Implied,
    /// Memory that the unit names.
    Memory,
    /// There in every root, or empty to hide things.
    Usual,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// A path of a tree, which is the machine's, an image's or that of extensions.
    Bind {
        tree: Tree,
        source: String,
        recursive: bool,
        kind: PointKind,
        /// Without devices, and without programs that give rights.
        plain: bool,
        /// It is made anew for the process, with the same in it but for what is its own.
        renewed: bool,
    },
    Fresh(Fresh),
}

/// Whether the view has a root that is not the machine's.
pub(crate) fn has_root(view: &View) -> bool {
    match &view.root {
        None => false,
        Some(Root::Folder(path)) => tidy(path).as_deref() != Some("/"),
        Some(Root::Image(_)) => true,
    }
}

/// Everything that a view lists, protections as the paths that they stand for.
pub(crate) fn gather<M: Machine>(
    view: &View,
    looker: &Looker<'_, M>,
    problems: &mut Vec<PlanError>,
) -> Vec<Entry> {
    let lists = [&view.read_write, &view.read_only, &view.inaccessible];
    let count = lists.map(Vec::len).iter().sum::<usize>()
        + view.exec.len()
        + view.no_exec.len()
        + view.binds.len()
        + view.temporary.len()
        + view.images.len()
        + view.own_folders.len()
        + view.own_links.len();
    if count > MAX_ENTRIES {
        problems.push(PlanError::TooMany {
            count,
            limit: MAX_ENTRIES,
        });
        return Vec::new();
    }
    let mut gathered = Gatherer {
        view,
        looker,
        problems,
        entries: Vec::with_capacity(count + 32),
    };
    gathered.protections();
    gathered.places();
    gathered.binds();
    gathered.images();
    gathered.memory();
    gathered.kernel_file_systems();
    gathered.credentials();
    gathered.own_folders();
    gathered.own_links();
    gathered.entries
}

struct Gatherer<'a, M> {
    view: &'a View,
    looker: &'a Looker<'a, M>,
    problems: &'a mut Vec<PlanError>,
    entries: Vec<Entry>,
}

impl<M: Machine> Gatherer<'_, M> {
    fn tidied(&mut self, directive: &'static str, path: &str) -> Option<String> {
        let tidied = tidy(path);
        if tidied.is_none() {
            self.problems.push(PlanError::BadPath {
                directive,
                path: path.into(),
            });
        }
        tidied
    }

    fn protections(&mut self) {
        for (directive, rules) in tables::protections(self.view) {
            for (path, rule) in rules {
                self.entries.push(Entry {
                    directive,
                    path: (*path).to_owned(),
                    optional: true,
                    what: What::Rule(*rule),
                });
            }
        }
    }

    fn places(&mut self) {
        let view = self.view;
        // A path of the machine means what is there in the other root; what is not in that root is not seen anyway.
        let outside = match &view.root {
            _ if !has_root(view) => None,
            Some(Root::Folder(folder)) => tidy(folder).map(Some),
            _ => Some(None),
        };
        for (directive, places, rule) in [
            ("ReadWritePaths", &view.read_write, Rule::ReadWrite),
            ("ReadOnlyPaths", &view.read_only, Rule::ReadOnly),
            ("InaccessiblePaths", &view.inaccessible, Rule::Hide),
            ("ExecPaths", &view.exec, Rule::Exec),
            ("NoExecPaths", &view.no_exec, Rule::NoExec),
        ] {
            for place in places {
                let Some(mut path) = self.tidied(directive, &place.path) else {
                    continue;
                };
                if !place.in_root
                    && let Some(root) = &outside
                {
                    let inside = root.as_deref().and_then(|root| below(&path, root));
                    let Some(inside) = inside else {
                        continue;
                    };
                    path = crate::path::or_root(inside.to_owned());
                }
                self.entries.push(Entry {
                    directive,
                    path,
                    optional: place.optional,
                    what: What::Rule(rule),
                });
            }
        }
    }

    fn binds(&mut self) {
        for bind in &self.view.binds {
            let directive = if bind.read_only {
                "BindReadOnlyPaths"
            } else {
                "BindPaths"
            };
            if let Some(path) = self.tidied(directive, &bind.destination) {
                let wanted = Wanted {
                    directive,
                    rank: Rank::Asked,
                    optional: bind.optional,
                    read_only: bind.read_only,
                    recursive: bind.recursive,
                    renewed: false,
                };
                self.bind(path, &bind.source, wanted);
            }
        }
        if let Some(folders) = &self.view.private_tmp {
            for (path, source) in [("/tmp", &folders.tmp), ("/var/tmp", &folders.var_tmp)] {
                let wanted = Wanted::implied("PrivateTmp");
                self.bind(path.to_owned(), source, wanted);
            }
        }
    }

    /// Looks where a source really is. Sources are the machine's, whatever the view makes of it.
    fn bind(&mut self, path: String, source: &str, wanted: Wanted) {
        let directive = wanted.directive;
        let Some(tidied) = self.tidied(directive, source) else {
            return;
        };
        let nothing = Providers::new();
        let sight = Sight::new(self.looker, Tree::Machine, &nothing);
        let resolved = match sight.chase(directive, &tidied) {
            Ok(resolved) => resolved,
            Err(problem) => return self.problems.push(problem),
        };
        let kind = match resolved.found {
            Found::Folder { .. } => PointKind::Folder,
            Found::Other { .. } | Found::Unknown => PointKind::File,
            Found::Missing if wanted.optional => return,
            Found::Missing => {
                return self.problems.push(PlanError::Missing {
                    directive,
                    path: source.into(),
                });
            }
        };
        let plain = self.view.plain
            && kind == PointKind::Folder
            && below(&resolved.path, DEVICE_FOLDER).is_none();
        let content = Content::Bind {
            tree: Tree::Machine,
            source: resolved.path,
            recursive: wanted.recursive,
            kind,
            plain,
            renewed: wanted.renewed,
        };
        self.provide(path, wanted, content);
    }

    /// Images, and folders with extensions over them. Whoever mounts them says what is wrong with one that is not there.
    fn images(&mut self) {
        for (number, image) in (0..).zip(&self.view.images) {
            let directive = "MountImages";
            if let Some(path) = self.tidied(directive, &image.destination) {
                let wanted = Wanted {
                    rank: Rank::Image,
                    ..Wanted::implied(directive)
                };
                self.mounted(path, Tree::Image(number), wanted);
            }
        }
        let Some(extension) = self.view.extensions.first() else {
            return;
        };
        for hierarchy in Hierarchy::ALL {
            let wanted = Wanted {
                rank: Rank::Extended,
                ..Wanted::implied(extension.directive())
            };
            let path = hierarchy.folder().to_owned();
            self.mounted(path, Tree::Extended(hierarchy), wanted);
        }
    }

    fn mounted(&mut self, path: String, tree: Tree, wanted: Wanted) {
        match self.looker.look(tree, "/") {
            Ok(Seen::Missing) => {}
            Ok(_) => {
                let content = Content::Bind {
                    tree,
                    source: "/".to_owned(),
                    recursive: true,
                    kind: PointKind::Folder,
                    plain: self.view.plain,
                    renewed: false,
                };
                self.provide(path, wanted, content);
            }
            Err(source) => self.problems.push(PlanError::Look {
                directive: wanted.directive,
                path: path.into(),
                source,
            }),
        }
    }

    fn provide(&mut self, path: String, wanted: Wanted, content: Content) {
        self.entries.push(Entry {
            directive: wanted.directive,
            path,
            optional: wanted.optional,
            what: What::Provide(Provider {
                rank: wanted.rank,
                content,
                read_only: wanted.read_only,
                dispensable: false,
            }),
        });
    }

    fn memory(&mut self) {
        for temporary in &self.view.temporary {
            let directive = "TemporaryFileSystem";
            let Some(path) = self.tidied(directive, &temporary.path) else {
                continue;
            };
            let mut options =
                MountOptions::memory(&[("mode", "0755"), ("size", "10%"), ("nr_inodes", "400k")]);
            if let Err(source) = options.merge(&temporary.options) {
                self.problems.push(PlanError::Options {
                    directive,
                    path: temporary.path.clone(),
                    source,
                });
                continue;
            }
            let wanted = Wanted {
                rank: Rank::Memory,
                read_only: options.attributes.read_only,
                ..Wanted::implied(directive)
            };
            options.attributes.read_only = false;
            self.provide(path, wanted, Content::Fresh(Fresh::Memory(options)));
        }
        if self.view.protect_home == ProtectHome::Tmpfs {
            for (path, mode) in tables::EMPTY_HOMES {
                self.almost_empty(path, mode, true, "ProtectHome");
            }
        }
    }

    /// Puts memory at a path that nobody writes, for what others bind into it.
    fn almost_empty(&mut self, path: &str, mode: &str, optional: bool, directive: &'static str) {
        let [size, inodes] = ALMOST_EMPTY;
        let options = MountOptions::memory(&[("mode", mode), size, inodes]);
        let wanted = Wanted {
            rank: Rank::Usual,
            optional,
            read_only: true,
            ..Wanted::implied(directive)
        };
        let content = Content::Fresh(Fresh::Memory(options));
        self.provide(path.to_owned(), wanted, content);
    }

    fn kernel_file_systems(&mut self) {
        let view = self.view;
        let usual = view.kernel_file_systems && has_root(view);
        if view.private_devices {
            let wanted = Wanted {
                read_only: true,
                ..Wanted::implied("PrivateDevices")
            };
            self.provide("/dev".to_owned(), wanted, Content::Fresh(Fresh::Devices));
            for path in ["/dev/hugepages", "/dev/mqueue", "/dev/pts", "/dev/shm"] {
                let wanted = Wanted {
                    optional: true,
                    ..Wanted::implied("PrivateDevices")
                };
                if !(view.own_queues && path == QUEUES) {
                    self.bind(path.to_owned(), path, wanted);
                }
            }
        } else if usual {
            self.bind("/dev".to_owned(), "/dev", Wanted::usual());
        }
        if usual {
            self.bind("/sys".to_owned(), "/sys", Wanted::usual());
            let mut options =
                MountOptions::memory(&[("mode", "0755"), ("size", "20%"), ("nr_inodes", "800k")]);
            options.attributes.no_suid = true;
            let content = Content::Fresh(Fresh::Memory(options));
            self.provide("/run".to_owned(), Wanted::usual(), content);
        }
        if view.own_network && (usual || !has_root(view)) {
            let wanted = Wanted {
                // A machine that does not show them has nothing to show anew.
                optional: true,
                recursive: true,
                renewed: true,
                ..Wanted::implied("PrivateNetwork")
            };
            self.bind(OBJECTS.to_owned(), OBJECTS, wanted);
        }
        if view.own_queues {
            let wanted = Wanted {
                // A machine that shows no queues has nothing to hide; a /dev of its own is made to show them.
                optional: !view.private_devices,
                ..Wanted::implied("PrivateIPC")
            };
            self.provide(QUEUES.to_owned(), wanted, Content::Fresh(Fresh::Queues));
        }
        if view.own_groups {
            let wanted = Wanted {
                // What is not shown at all needs no protection.
                optional: true,
                ..Wanted::implied("ProtectControlGroups")
            };
            self.provide(GROUPS.to_owned(), wanted, Content::Fresh(Fresh::Groups));
        }
        self.processes(usual);
    }

    fn processes(&mut self, usual: bool) {
        let view = self.view;
        let restricted = if view.others_processes != ProcOthers::Default {
            Some("ProtectProc")
        } else if view.only_processes {
            Some("ProcSubset")
        } else {
            None
        };
        let (directive, dispensable) = match restricted {
            _ if view.own_processes => ("PrivatePIDs", false),
            _ if usual => ("MountAPIVFS", false),
            Some(directive) => (directive, true),
            None => return,
        };
        self.entries.push(Entry {
            directive,
            path: "/proc".to_owned(),
            optional: false,
            what: What::Provide(Provider {
                rank: Rank::Implied,
                content: Content::Fresh(Fresh::Processes {
                    others: view.others_processes,
                    only_processes: view.only_processes,
                }),
                read_only: false,
                dispensable,
            }),
        });
    }

    /// A unit sees its own credentials and no other's.
    fn credentials(&mut self) {
        let directive = "LoadCredential";
        let all = self.view.all_credentials.as_deref();
        if let Some(all) = all.and_then(|all| self.tidied(directive, all)) {
            if self.view.credentials.is_some() {
                self.almost_empty(&all, "0755", false, directive);
            } else {
                self.entries.push(Entry {
                    directive,
                    path: all,
                    optional: true,
                    what: What::Rule(Rule::Hide),
                });
            }
        }
        let own = self.view.credentials.as_deref();
        if let Some(own) = own.and_then(|own| self.tidied(directive, own)) {
            let wanted = Wanted {
                optional: true,
                read_only: true,
                ..Wanted::implied(directive)
            };
            let source = own.clone();
            self.bind(own, &source, wanted);
        }
    }

    /// Folders of the unit's own are writable where they are; where they would not be seen, they are bound.
    fn own_folders(&mut self) {
        let directive = "StateDirectory";
        for folder in &self.view.own_folders {
            let Some(path) = self.tidied(directive, folder) else {
                continue;
            };
            // A bind that goes right there has the last word.
            if self.entries.iter().any(|entry| entry.is_bind_at(&path)) {
                continue;
            }
            let nothing = Providers::new();
            let sight = Sight::new(self.looker, Tree::Machine, &nothing);
            let resolved = match sight.chase(directive, &path) {
                Ok(resolved) => resolved.path,
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            let private = PRIVATE_FOLDERS
                .iter()
                .find(|private| below(&resolved, private).is_some_and(|rest| !rest.is_empty()));
            if let Some(private) = private
                && !has_root(self.view)
            {
                self.almost_empty(private, "0755", false, directive);
            }
            if has_root(self.view) || self.is_covered(&path) || self.is_covered(&resolved) {
                let wanted = Wanted {
                    recursive: true,
                    ..Wanted::implied(directive)
                };
                self.bind(path, folder, wanted);
            } else {
                self.entries.push(Entry {
                    directive,
                    path,
                    optional: false,
                    what: What::Rule(Rule::ReadWrite),
                });
            }
        }
    }

    /// Links to those folders are where they are; where one would not be seen, its folder is bound.
    fn own_links(&mut self) {
        let directive = "StateDirectory";
        for link in &self.view.own_links {
            let Some(path) = self.tidied(directive, &link.path) else {
                continue;
            };
            // A bind that goes right there has the last word.
            let is_taken = self.entries.iter().any(|entry| entry.is_bind_at(&path));
            if !is_taken && (has_root(self.view) || self.is_covered(&path)) {
                let wanted = Wanted {
                    recursive: true,
                    ..Wanted::implied(directive)
                };
                self.bind(path, &link.folder, wanted);
            }
        }
    }

    /// Whether a new file system hides what the machine has at a path.
    fn is_covered(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| {
            matches!(&entry.what, What::Provide(Provider { content: Content::Fresh(_), .. })
                if below(path, &entry.path).is_some())
        })
    }
}

/// How a provider is wanted.
struct Wanted {
    directive: &'static str,
    rank: Rank,
    optional: bool,
    read_only: bool,
    recursive: bool,
    renewed: bool,
}

impl Wanted {
    fn implied(directive: &'static str) -> Self {
        Self {
            directive,
            rank: Rank::Implied,
            optional: false,
            read_only: false,
            recursive: false,
            renewed: false,
        }
    }

    fn usual() -> Self {
        Self {
            rank: Rank::Usual,
            recursive: true,
            ..Self::implied("MountAPIVFS")
        }
    }
}
