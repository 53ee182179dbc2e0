//! For random views of random machines: what a process sees is what the most specific entry says, in whatever order entries
//! are listed.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::fake::Fake;
use super::world::{Access, World};
use crate::machine::Seen;
use crate::path::{below, join, upwards};
use crate::{Bind, Image, MountImage, Place, Temporary, View, plan, plan_leniently};

/// All paths of four levels with two names.
fn all_paths() -> Vec<String> {
    let mut paths = vec!["/".to_owned()];
    let mut last = paths.clone();
    for _ in 0..4 {
        last = last
            .iter()
            .flat_map(|path| ["/a", "/b"].map(|name| join(path, name)))
            .collect();
        paths.extend(last.iter().cloned());
    }
    paths
}

fn any_path() -> impl Strategy<Value = String> {
    prop::sample::select(all_paths())
}

/// A machine without symlinks and two images, on which mounts are read-only or not executable at random.
fn any_machine() -> impl Strategy<Value = (Fake, BTreeMap<String, (bool, bool)>)> {
    let rights = (any_path(), any::<bool>(), any::<bool>());
    (
        prop::collection::vec(any_path(), 0..12),
        prop::collection::vec(rights, 0..4),
        prop::collection::vec(prop::collection::vec(any_path(), 0..4), 2),
    )
        .prop_map(|(folders, mounts, images)| {
            let texts = |folders: &[String]| -> Vec<String> {
                let paths = folders.iter().filter(|path| *path != "/");
                paths.map(|path| format!("{path}/")).collect()
            };
            let mut fake = Fake::new(&refs(&texts(&folders)));
            for folders in &images {
                fake = fake.with_image(&refs(&texts(folders)));
            }
            let mut rights = BTreeMap::new();
            for (path, read_only, no_exec) in mounts {
                if let Some(seen) = fake.machine.get_mut(&path) {
                    *seen = Seen::Folder { mount: true };
                    rights.insert(path, (read_only, no_exec));
                }
            }
            (fake, rights)
        })
}

fn refs(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

fn any_places() -> impl Strategy<Value = Vec<Place>> {
    let place = any_path().prop_map(|path| Place {
        path: path.into(),
        optional: true,
        in_root: false,
    });
    prop::collection::vec(place, 0..4)
}

fn any_binds() -> impl Strategy<Value = Vec<Bind>> {
    let bind =
        (any_path(), any_path(), any::<bool>()).prop_map(|(source, destination, read_only)| Bind {
            source: source.into(),
            destination: destination.into(),
            read_only,
            recursive: true,
            optional: true,
        });
    prop::collection::vec(bind, 0..3)
}

fn any_temporary() -> impl Strategy<Value = Vec<Temporary>> {
    let temporary =
        (any_path(), prop::sample::select(vec!["", "ro"])).prop_map(|(path, options)| Temporary {
            path: path.into(),
            options: options.into(),
        });
    prop::collection::vec(temporary, 0..3)
}

/// At most two, since a machine has no more; the second may be at the place of the first.
fn any_images() -> impl Strategy<Value = Vec<MountImage>> {
    let image = any_path().prop_map(|destination| MountImage {
        image: Image::at("/image"),
        destination: destination.into(),
        optional: false,
    });
    prop::collection::vec(image, 0..=2)
}

prop_compose! {
    fn any_view()(
        read_write in any_places(),
        read_only in any_places(),
        inaccessible in any_places(),
        exec in any_places(),
        no_exec in any_places(),
        binds in any_binds(),
        temporary in any_temporary(),
        images in any_images(),
    ) -> View {
        View { read_write, read_only, inaccessible, exec, no_exec, binds, temporary, images, ..View::default() }
    }
}

/// What should be seen at a path, found without any plan. Places to mount on have been made in `after`.
fn expected(
    view: &View,
    fake: &Fake,
    after: &Fake,
    rights: &BTreeMap<String, (bool, bool)>,
    path: &str,
) -> Access {
    let lists = |places: &[Place], at: &str| {
        places.iter().any(|place| &*place.path == at) && exists(view, fake, fake, at)
    };
    // What hides counts from the outside: what it hides cannot undo it.
    let mut downwards: Vec<&str> = upwards(path).collect();
    downwards.reverse();
    if downwards.iter().any(|at| lists(&view.inaccessible, at)) {
        return Access::Hidden;
    }
    if !exists(view, fake, after, path) {
        return Access::Missing;
    }
    let read_only = upwards(path).find_map(|at| {
        let provided = provided_at(view, fake, at);
        if lists(&view.read_only, at) || provided.as_ref().is_some_and(|it| it.read_only) {
            Some(true)
        } else if lists(&view.read_write, at) || provided.is_some() {
            Some(false)
        } else {
            None
        }
    });
    let memory_from = upwards(path).find_map(|at| provided_at(view, fake, at).map(|it| (at, it)));
    let exec_rule = upwards(path).find_map(|at| {
        if lists(&view.no_exec, at) {
            Some(false)
        } else if lists(&view.exec, at) {
            Some(true)
        } else {
            None
        }
    });
    let (at, source) = memory_from.map_or(("/", Source::Machine("/".to_owned())), |(at, it)| {
        (at, it.source)
    });
    let rest = below(path, at).expect("it is above");
    match source {
        Source::Memory => Access::Memory {
            read_only: read_only == Some(true),
            no_exec: exec_rule == Some(false),
        },
        Source::Image(number) => Access::Image {
            number,
            path: join("/", rest),
            read_only: read_only == Some(true),
            no_exec: exec_rule == Some(false),
        },
        Source::Machine(source) => {
            let real = join(&source, rest);
            let mount = upwards(&real).find_map(|at| match fake.machine.get(at) {
                Some(Seen::Folder { mount: true }) => Some(rights.get(at).copied()),
                _ => None,
            });
            let (was_read_only, was_no_exec) = mount.flatten().unwrap_or_default();
            Access::Machine {
                path: real,
                read_only: was_read_only || read_only == Some(true),
                no_exec: exec_rule.map_or(was_no_exec, |exec| !exec),
            }
        }
    }
}

struct Provided {
    source: Source,
    read_only: bool,
}

enum Source {
    Machine(String),
    Image(usize),
    Memory,
}

/// What is provided at a path: the first image, else the bind with the least source, else memory.
fn provided_at(view: &View, fake: &Fake, at: &str) -> Option<Provided> {
    let binds = view.binds.iter();
    let binds =
        binds.filter(|bind| &*bind.destination == at && fake.machine.contains_key(&*bind.source));
    let temporary: Vec<_> = view.temporary.iter().filter(|it| &*it.path == at).collect();
    let image = view.images.iter().position(|it| &*it.destination == at);
    let source = binds.clone().map(|bind| bind.source.to_string()).min();
    let source = image.map(Source::Image).or(source.map(Source::Machine));
    if source.is_none() && temporary.is_empty() {
        return None;
    }
    let source = source.unwrap_or(Source::Memory);
    let read_only =
        binds.clone().any(|bind| bind.read_only) || temporary.iter().any(|it| &*it.options == "ro");
    Some(Provided { source, read_only })
}

/// Whether there is something at a path of the view, made for something below it if need be.
fn exists(view: &View, fake: &Fake, files: &Fake, path: &str) -> bool {
    let leads_somewhere =
        fake_destinations(view, fake).any(|destination| below(&destination, path).is_some());
    if leads_somewhere {
        return true;
    }
    let nearest = upwards(path).find_map(|at| provided_at(view, fake, at).map(|it| (at, it)));
    match nearest {
        None => files.machine.contains_key(path),
        Some((at, provided)) => {
            let rest = below(path, at).expect("it is above");
            match provided.source {
                Source::Machine(source) => files.machine.contains_key(&join(&source, rest)),
                Source::Image(number) => files.images[number].contains_key(&join("/", rest)),
                Source::Memory => at == path,
            }
        }
    }
}

fn fake_destinations(view: &View, fake: &Fake) -> impl Iterator<Item = String> {
    let binds = view.binds.iter();
    let binds = binds.filter(|bind| fake.machine.contains_key(&*bind.source));
    let binds = binds.map(|bind| bind.destination.to_string());
    let memory = view.temporary.iter().map(|it| it.path.to_string());
    let images = view.images.iter().map(|it| it.destination.to_string());
    let all = binds.chain(memory).chain(images);
    all.collect::<Vec<_>>().into_iter()
}

fn reversed(view: &View) -> View {
    let mut view = view.clone();
    view.read_write.reverse();
    view.read_only.reverse();
    view.inaccessible.reverse();
    view.exec.reverse();
    view.no_exec.reverse();
    view.binds.reverse();
    view.temporary.reverse();
    view
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn access_is_what_the_most_specific_entry_says((fake, rights) in any_machine(), view in any_view()) {
        let plan = plan(&view, &fake).expect("everything is optional");
        let mut world = World::new(&fake, &rights);
        world.carry_out(&plan);
        let after = world.machine();
        for path in all_paths() {
            let expected = expected(&view, &fake, &after, &rights, &path);
            prop_assert_eq!(world.access(&path), expected, "at {} by {:#?}", path, plan);
        }
    }

    #[test]
    fn the_order_of_lists_does_not_matter((fake, _) in any_machine(), view in any_view(), links in prop::collection::vec((any_path(), any_path()), 0..4)) {
        let mut fake = fake;
        for (link, target) in links {
            let folder = upwards(&link).nth(1).is_some_and(|folder| fake.machine.contains_key(folder));
            if folder && link != "/" {
                fake.machine.retain(|path, _| below(path, &link).is_none());
                fake.machine.insert(link, Seen::Link(target.into()));
            }
        }
        let (one, problems) = plan_leniently(&view, &fake);
        let (other, other_problems) = plan_leniently(&reversed(&view), &fake);
        prop_assert_eq!(one, other);
        prop_assert_eq!(problems.len(), other_problems.len());
    }
}
