//! Images, and folders that extensions are laid over.

use super::{bind, debian, places, steps};
use crate::{
    Extension, ExtensionSource, Hierarchy, Image, MountImage, ProtectSystem, Root, View, plan,
};

fn image(destination: &str) -> MountImage {
    MountImage {
        image: Image::at("/srv/image"),
        destination: destination.into(),
        optional: false,
    }
}

fn extension() -> Extension {
    Extension {
        source: ExtensionSource::Folder("/srv/tools".into()),
        optional: false,
    }
}

#[test]
fn an_image_is_copied_before_rights_change_and_seen_at_its_place() {
    let machine = debian().with_image(&["/inside/"]);
    let view = View {
        images: vec![image("/data/x")],
        protect_system: ProtectSystem::Full,
        read_only: places(&["/srv"]),
        ..View::default()
    };
    let steps = steps(&plan(&view, &machine).unwrap());
    let at = |step: &str| {
        let found = steps.iter().position(|known| known.starts_with(step));
        found.unwrap_or_else(|| panic!("no {step} in {steps:#?}"))
    };
    assert_eq!(at("create Machine /data/x/"), 0);
    assert_eq!(at("1 = copy image0:/"), 1);
    assert!(at("/data/x <- 1") > 1);
}

#[test]
fn rules_reach_into_an_image() {
    let machine = debian().with_image(&["/inside/deep/", "/link -> inside"]);
    let view = View {
        images: vec![image("/srv")],
        read_only: places(&["/srv/link/deep"]),
        inaccessible: places(&["-/srv/a"]),
        ..View::default()
    };
    let steps = steps(&plan(&view, &machine).unwrap());
    assert_eq!(
        steps,
        [
            "0 = copy image0:/",
            "1 = copy image0:/inside/deep ro",
            "/srv <- 0",
            "/srv/inside/deep <- 1",
        ]
    );
}

#[test]
fn what_is_bound_into_an_image_gets_a_place_there() {
    let machine = debian().with_image(&[]);
    let view = View {
        images: vec![image("/data")],
        binds: vec![bind("/srv/a", "/data/a")],
        ..View::default()
    };
    let steps = steps(&plan(&view, &machine).unwrap());
    assert!(
        steps.contains(&"create Image(0) /a/".to_owned()),
        "{steps:#?}"
    );
}

#[test]
fn at_one_place_extensions_come_before_an_image_and_that_before_a_bind() {
    let machine = debian()
        .with_image(&["/first"])
        .with_image(&["/second"])
        .with_extended(Hierarchy::Usr, &["/bin/tool"]);
    let mut view = View {
        images: vec![image("/usr"), image("/usr")],
        binds: vec![bind("/srv/a", "/usr")],
        ..View::default()
    };
    let first = |view: &View| steps(&plan(view, &machine).unwrap()).swap_remove(0);
    assert_eq!(first(&view), "0 = copy image0:/");
    view.extensions.push(extension());
    assert_eq!(first(&view), "0 = copy Usr:/");
}

#[test]
fn what_extensions_add_can_be_named() {
    let machine = debian()
        .with_root(&["/usr/", "/opt -> var/opt", "/var/opt/"])
        .with_extended(Hierarchy::Usr, &["/share/added/"])
        .with_extended(Hierarchy::Opt, &[]);
    let view = View {
        root: Some(Root::Image(Image::at("/srv/root"))),
        extensions: vec![extension()],
        no_exec: places(&["+/usr/share/added"]),
        ..View::default()
    };
    let steps = steps(&plan(&view, &machine).unwrap());
    assert_eq!(
        steps,
        [
            "0 = copy Usr:/",
            "1 = copy Usr:/share/added noexec",
            "2 = copy Opt:/",
            "/usr <- 0",
            "/usr/share/added <- 1",
            "/var/opt <- 2",
        ]
    );
}

#[test]
fn what_is_not_mounted_is_not_seen() {
    let view = View {
        images: vec![image("/data")],
        extensions: vec![extension()],
        ..View::default()
    };
    assert_eq!(steps(&plan(&view, &debian()).unwrap()), [""; 0]);
    let view = View {
        images: vec![image("data")],
        ..View::default()
    };
    let machine = debian().with_image(&[]);
    let error = plan(&view, &machine).unwrap_err().to_string();
    assert!(error.starts_with("MountImages: \"data\""), "{error}");
}
