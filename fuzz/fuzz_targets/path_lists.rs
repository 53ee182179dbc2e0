//! Any lines as a machine and a view of it: planning ends, whatever is listed, and its steps fit together.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use muster_mounts::{
    Action, Bind, Extension, ExtensionSource, Folders, Image, LookError, Machine, MountImage, Part, PartOptions, Place, Plan,
    ProcOthers, Propagation, ProtectHome, ProtectSystem, Root, Seen, Temporary, Tree, View, plan_leniently,
};

#[derive(Default)]
struct Paths(BTreeMap<String, Seen>);

impl Machine for Paths {
    fn look(&self, _: Tree, path: &str) -> Result<Seen, LookError> {
        assert!(path.starts_with('/') && !path.contains("//") && path.len() < 4096, "{path}");
        if path.ends_with("/unreadable") {
            return Err(LookError { errno: 13 });
        }
        Ok(self.0.get(path).cloned().unwrap_or(Seen::Missing))
    }
}

fuzz_target!(|text: &str| {
    let (machine, mut view) = read(text);
    let (plan, problems) = plan_leniently(&view, &machine);
    check(&plan);
    for list in [&mut view.read_write, &mut view.read_only, &mut view.inaccessible, &mut view.exec, &mut view.no_exec] {
        list.reverse();
    }
    view.binds.reverse();
    view.temporary.reverse();
    let (again, other_problems) = plan_leniently(&view, &machine);
    assert_eq!(plan, again);
    assert_eq!(problems.len(), other_problems.len());
});

fn read(text: &str) -> (Paths, View) {
    let mut machine = Paths::default();
    machine.0.insert("/".to_owned(), Seen::Folder { mount: true });
    let mut view = View::default();
    for line in text.lines().take(200) {
        let mut characters = line.chars();
        let Some(kind) = characters.next() else { continue };
        let (path, more) = characters.as_str().split_once(' ').unwrap_or((characters.as_str(), ""));
        let place = || Place { path: path.into(), optional: more != "!", in_root: more == "+" };
        let bind = |read_only| Bind {
            source: path.into(),
            destination: more.into(),
            read_only,
            recursive: true,
            optional: true,
        };
        let mut file = |seen| drop(machine.0.insert(path.to_owned(), seen));
        match kind {
            'd' => file(Seen::Folder { mount: false }),
            'm' => file(Seen::Folder { mount: true }),
            'f' => file(Seen::Other { mount: false }),
            'l' => file(Seen::Link(more.into())),
            'r' => view.read_only.push(place()),
            'w' => view.read_write.push(place()),
            'x' => view.inaccessible.push(place()),
            'n' => view.no_exec.push(place()),
            'e' => view.exec.push(place()),
            'b' => view.binds.push(bind(false)),
            'B' => view.binds.push(bind(true)),
            't' => view.temporary.push(Temporary { path: path.into(), options: more.into() }),
            'i' => view.images.push(MountImage { image: Image::at(more), destination: path.into(), optional: false }),
            'E' => {
                view.extensions = vec![Extension { source: ExtensionSource::Folder(path.into()), optional: false }];
            }
            'o' => view.own_folders.push(path.into()),
            'c' => view.credentials = Some(path.into()),
            'C' => view.all_credentials = Some(path.into()),
            'R' => view.root = Some(Root::Folder(path.into())),
            'I' => view.root = Some(Root::Image(image(path, more))),
            'j' => {
                let source = ExtensionSource::Image(image(path, more));
                view.extensions.push(Extension { source, optional: more == "-" });
            }
            'k' => {
                let destination = more.into();
                view.images.push(MountImage { image: Image::at(path), destination, optional: true });
            }
            'p' => view.private_tmp = Some(Folders { tmp: path.into(), var_tmp: more.into() }),
            'L' => {
                let (recursive, optional) = (more.ends_with('r'), false);
                let more = more.into();
                view.binds.push(Bind { source: path.into(), destination: more, read_only: true, recursive, optional });
            }
            'S' => view.protect_system = system(path),
            'F' => view.protect_system = ProtectSystem::Full,
            'H' => view.protect_home = home(path),
            'P' => view.others_processes = others(path),
            'G' => view.propagation = propagation(path),
            'D' => view.private_devices = true,
            'T' => view.protect_kernel_tunables = true,
            'K' => view.kernel_file_systems = true,
            'M' => view.protect_kernel_modules = true,
            'O' => view.protect_kernel_logs = true,
            'Z' => view.protect_control_groups = true,
            'Q' => view.own_queues = true,
            'U' => view.own_processes = true,
            'V' => view.only_processes = true,
            'W' => view.own_mounts = true,
            'Y' => view.plain = true,
            _ => {}
        }
    }
    (machine, view)
}

/// An image with options of the partition that the text begins with, if it is one.
fn image(path: &str, options: &str) -> Image {
    let mut image = Image::at(path);
    if let Some((part, words)) = options.split_once(':')
        && let Some(part) = Part::named(part)
    {
        image.options.push(PartOptions { part, words: words.into() });
    }
    image
}

fn system(word: &str) -> ProtectSystem {
    match word {
        "no" => ProtectSystem::No,
        "yes" => ProtectSystem::Yes,
        "full" => ProtectSystem::Full,
        _ => ProtectSystem::Strict,
    }
}

fn home(word: &str) -> ProtectHome {
    match word {
        "no" => ProtectHome::No,
        "yes" => ProtectHome::Yes,
        "ro" => ProtectHome::ReadOnly,
        _ => ProtectHome::Tmpfs,
    }
}

fn others(word: &str) -> ProcOthers {
    match word {
        "all" => ProcOthers::Default,
        "noaccess" => ProcOthers::NoAccess,
        "traced" => ProcOthers::Ptraceable,
        _ => ProcOthers::Invisible,
    }
}

fn propagation(word: &str) -> Option<Propagation> {
    match word {
        "shared" => Some(Propagation::Shared),
        "slave" => Some(Propagation::Slave),
        "private" => Some(Propagation::Private),
        _ => None,
    }
}

/// Slots are filled once and attached once, and places come before what is below them.
fn check(plan: &Plan) {
    let (mut filled, mut attached) = (BTreeSet::new(), BTreeSet::new());
    let mut places: Vec<&str> = Vec::new();
    for step in &plan.steps {
        match &step.action {
            Action::Copy { slot, .. } | Action::Make { slot, .. } => {
                assert!(slot.0 < plan.slots && filled.insert(*slot), "{slot:?} is filled twice");
            }
            Action::Attach { slot, at } => {
                assert!(filled.contains(slot) && attached.insert(*slot), "{slot:?} is empty");
                places.push(at);
            }
            Action::Change { at, .. } | Action::Hide { at } => places.push(at),
            Action::Create { .. } => {}
        }
    }
    assert_eq!(filled, attached);
    assert!(places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
}
