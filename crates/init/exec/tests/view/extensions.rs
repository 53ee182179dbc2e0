//! Extensions over the folders of a system.

use std::fs;
use std::os::unix::fs::symlink;

use muster_exec::Step;
use muster_exec::mounts::apply;
use muster_mounts::{Extension, ExtensionSource, Part, ProtectSystem, Root, View};
use rustix::io::Errno;

use crate::disk::{assert_free, image, make_squashfs};
use crate::rig::{
    Scene, bind, is_root, list, mounts, namespaced, read, seen, try_seen, write_into,
};

const RELEASES: &str = "usr/lib/extension-release.d/extension-release";

/// A root with something to extend, and a folder for extensions.
struct System {
    scene: Scene,
}

impl System {
    fn new() -> Self {
        let system = Self {
            scene: Scene::new(),
        };
        system.write("root/usr/lib/os-release", "ID=test\nVERSION_ID=1\n");
        system.write("root/usr/lib/file", "system");
        system.write("root/etc/file", "system");
        symlink("../usr/lib/os-release", system.path("root/etc/os-release")).unwrap();
        system
    }

    fn path(&self, inside: &str) -> String {
        self.scene.path(inside)
    }

    fn write(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        let folder = path.rsplit_once('/').unwrap().0;
        fs::create_dir_all(folder).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a folder that extends `/usr`, with what it says it is for.
    fn extension(&self, name: &str, release: &str) -> Extension {
        self.write(&format!("{name}/{RELEASES}.{name}"), release);
        folder(&self.path(name))
    }

    fn view(&self, extensions: Vec<Extension>) -> View {
        View {
            root: Some(Root::Folder(self.path("root").into())),
            extensions,
            ..View::default()
        }
    }

    fn refusal(&self, extension: &Extension) -> (Errno, String) {
        let view = self.view(vec![extension.clone()]);
        let error = try_seen(&view, || ()).unwrap_err();
        assert_eq!(error.step, Step::Namespace);
        (error.errno, error.to_string())
    }
}

fn folder(path: &str) -> Extension {
    Extension {
        source: ExtensionSource::Folder(path.into()),
        optional: false,
    }
}

fn from_image(path: &str, words: &str) -> Extension {
    Extension {
        source: ExtensionSource::Image(image(path, &[(Part::Root, words)])),
        optional: false,
    }
}

#[test]
fn extensions_lie_over_each_other_and_the_system() {
    if !is_root("extensions_lie_over_each_other_and_the_system") {
        return;
    }
    muster_lab::require!(Tool("mksquashfs"));
    let system = System::new();
    let one = system.extension("one", "ID=test\nVERSION_ID=1");
    system.extension("two", "ID=_any");
    for name in ["one", "two"] {
        system.write(&format!("{name}/usr/lib/both"), name);
        system.write(&format!("{name}/usr/lib/{name}"), name);
    }
    system.write("two/opt/tool/file", "two");
    system.write("two/etc/file", "two");
    let raw = system.path("two.raw");
    make_squashfs(&system.path("two"), &raw);
    let view = View {
        protect_system: ProtectSystem::Strict,
        binds: vec![bind(&system.path("c/file"), "/usr/lib/one")],
        ..system.view(vec![from_image(&raw, ""), one.clone()])
    };
    seen(&view, || {
        assert_eq!(read("/usr/lib/file").as_deref(), Ok("system"));
        // What is bound lies over what extensions have there.
        assert_eq!(read("/usr/lib/one").as_deref(), Ok("in c"));
        assert_eq!(read("/usr/lib/two").as_deref(), Ok("two"));
        assert_eq!(read("/usr/lib/both").as_deref(), Ok("one"));
        assert_eq!(read("/opt/tool/file").as_deref(), Ok("two"));
        // An extension of /usr extends nothing else.
        assert_eq!(read("/etc/file").as_deref(), Ok("system"));
        assert_eq!(write_into("/usr/lib"), Err(Errno::ROFS));
        assert_eq!(write_into("/opt"), Err(Errno::ROFS));
    });
    assert_free(&raw);
    let reversed = system.view(vec![one, from_image(&raw, "")]);
    seen(&reversed, || {
        assert_eq!(read("/usr/lib/both").as_deref(), Ok("two"));
        assert_eq!(write_into("/etc"), Ok(()));
    });
    assert_free(&raw);
    assert_eq!(list(&system.path("root/opt")), Ok(vec![]));
}

#[test]
fn the_machine_itself_is_extended_too() {
    if !is_root("the_machine_itself_is_extended_too") {
        return;
    }
    let system = System::new();
    let extension = system.extension("more", "ID=_any");
    system.write("more/usr/lib/only-in-a-test", "more");
    let before = list("/usr").unwrap();
    let view = View {
        extensions: vec![extension],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(read("/usr/lib/only-in-a-test").as_deref(), Ok("more"));
        assert_eq!(list("/usr").unwrap(), before);
        assert_eq!(write_into("/usr"), Err(Errno::ROFS));
        let places: Vec<String> = mounts().into_iter().map(|(place, _)| place).collect();
        assert!(places.iter().all(|place| !place.contains("unit-images")));
    });
    assert!(fs::metadata("/usr/lib/only-in-a-test").is_err());
}

#[test]
fn configuration_lies_over_etc_only() {
    if !is_root("configuration_lies_over_etc_only") {
        return;
    }
    let system = System::new();
    let release = "etc/extension-release.d/extension-release.conf";
    system.write(&format!("conf/{release}"), "ID=test\nVERSION_ID=1");
    system.write("conf/etc/new", "conf");
    system.write("conf/usr/lib/new", "conf");
    let view = system.view(vec![folder(&system.path("conf"))]);
    seen(&view, || {
        assert_eq!(read("/etc/new").as_deref(), Ok("conf"));
        assert_eq!(read("/etc/file").as_deref(), Ok("system"));
        assert!(fs::metadata("/usr/lib/new").is_err());
        assert_eq!(write_into("/etc"), Err(Errno::ROFS));
        assert_eq!(write_into("/usr"), Ok(()));
    });
}

#[test]
fn an_extension_for_another_system_is_refused() {
    if !is_root("an_extension_for_another_system_is_refused") {
        return;
    }
    let system = System::new();
    let other = system.extension("other", "ID=another\nVERSION_ID=1");
    let (errno, said) = system.refusal(&other);
    assert_eq!(errno, Errno::STALE);
    assert!(
        said.ends_with("it is for ID=another, but the system has ID=test"),
        "{said}"
    );
    let newer = system.extension("newer", "ID=test\nVERSION_ID=2");
    assert!(system.refusal(&newer).1.contains("VERSION_ID=2"));
    // However much may be dropped: the program would run on other files.
    let view = system.view(vec![newer]);
    let lenient = namespaced(|| apply(&view, true)).unwrap_err();
    assert!(lenient.to_string().contains("VERSION_ID=2"), "{lenient}");
    // What does not say what it is for is for nothing.
    system.write("silent/usr/lib/file", "");
    let (errno, said) = system.refusal(&folder(&system.path("silent")));
    assert_eq!(errno, Errno::NOENT);
    assert!(said.contains("extension-release.silent"), "{said}");
}

#[test]
fn a_description_has_the_name_of_its_extension_unless_that_is_waived() {
    if !is_root("a_description_has_the_name_of_its_extension_unless_that_is_waived") {
        return;
    }
    muster_lab::require!(Tool("mksquashfs"));
    let system = System::new();
    system.extension("right", "ID=test\nVERSION_ID=1");
    let raw = system.path("wrong.raw");
    make_squashfs(&system.path("right"), &raw);
    let (errno, said) = system.refusal(&from_image(&raw, ""));
    assert_eq!(errno, Errno::NOENT);
    assert!(said.contains("extension-release.wrong"), "{said}");
    let waived = from_image(&raw, "x-systemd.relax-extension-release-check");
    seen(&system.view(vec![waived]), || {
        let path = format!("/{RELEASES}.right");
        assert!(read(&path).is_ok());
    });
    assert_free(&raw);
}

#[test]
fn an_absent_extension_matters_unless_it_may_be_absent() {
    if !is_root("an_absent_extension_matters_unless_it_may_be_absent") {
        return;
    }
    let system = System::new();
    for absent in [
        folder(&system.path("nothing")),
        from_image(&system.path("nothing"), ""),
    ] {
        let (errno, said) = system.refusal(&absent);
        assert_eq!(errno, Errno::NOENT);
        let expected = format!("{}: cannot open {}", absent.directive(), absent.path());
        assert_eq!(said, expected);
        let optional = Extension {
            optional: true,
            ..absent
        };
        seen(&system.view(vec![optional]), || {
            assert_eq!(write_into("/usr"), Ok(()));
        });
    }
}

#[test]
fn no_symlink_of_an_extension_leads_out_of_it() {
    if !is_root("no_symlink_of_an_extension_leads_out_of_it") {
        return;
    }
    let system = System::new();
    // Its folder is somewhere else: the machine's /usr would be seen.
    system.write(
        "link/lib/extension-release.d/extension-release.link",
        "ID=_any",
    );
    symlink(system.path("link"), system.path("link/usr")).unwrap();
    let (errno, _) = system.refusal(&folder(&system.path("link")));
    assert_eq!(errno, Errno::NOENT);
    symlink(".", system.path("link/inner")).unwrap();
    fs::remove_file(system.path("link/usr")).unwrap();
    symlink("inner", system.path("link/usr")).unwrap();
    let (errno, said) = system.refusal(&folder(&system.path("link")));
    assert_eq!(errno, Errno::LOOP);
    assert!(said.contains("over /usr"), "{said}");
    // Its description is of the machine.
    system.write("elsewhere", "ID=_any");
    let own = system.extension("own", "");
    let release = system.path(&format!("own/{RELEASES}.own"));
    fs::remove_file(&release).unwrap();
    symlink(system.path("elsewhere"), &release).unwrap();
    assert_eq!(system.refusal(&own).0, Errno::NOENT);
    // A pipe that nobody writes to does not stop anything.
    fs::remove_file(&release).unwrap();
    crate::disk::make("/usr/bin/mkfifo", &[&release]);
    assert_eq!(system.refusal(&own).0, Errno::INVAL);
    // In the system too, nothing is followed out of it.
    let good = system.extension("good", "ID=test");
    fs::remove_file(system.path("root/etc/os-release")).unwrap();
    fs::remove_file(system.path("root/usr/lib/os-release")).unwrap();
    system.write("release", "ID=test");
    symlink(system.path("release"), system.path("root/etc/os-release")).unwrap();
    let (errno, said) = system.refusal(&good);
    assert_eq!(errno, Errno::STALE);
    assert!(said.contains("does not say its ID="), "{said}");
}

/// What a unit may not see stays unseen, whatever an extension says about its folders.
#[test]
fn no_folder_of_an_extension_is_another_one_of_the_system() {
    if !is_root("no_folder_of_an_extension_is_another_one_of_the_system") {
        return;
    }
    let system = System::new();
    system.write("root/usr/share/secret/file", "secret");
    let one = system.extension("one", "ID=_any");
    system.write("one/usr/pub/own", "one");
    let folder = fs::File::open(system.path("one/usr/pub")).unwrap();
    let redirect = rustix::fs::fsetxattr(
        &folder,
        "trusted.overlay.redirect",
        b"/share/secret",
        rustix::fs::XattrFlags::empty(),
    );
    redirect.unwrap();
    seen(&system.view(vec![one]), || {
        // The kernel may refuse such a folder as a whole.
        let names = list("/usr/pub").unwrap_or_default();
        assert!(!names.contains(&"file".to_owned()), "{names:?}");
        assert_eq!(read("/usr/share/secret/file").as_deref(), Ok("secret"));
    });
}
