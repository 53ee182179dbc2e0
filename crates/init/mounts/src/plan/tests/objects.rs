//! The kernel's objects in a network of the process's own.

use super::fake::Fake;
use super::{debian, planned, steps};
use crate::{Root, View, plan};

fn own_network(view: View) -> View {
    View {
        own_network: true,
        ..view
    }
}

#[test]
fn objects_are_made_anew_and_guarded_all_the_same() {
    assert_eq!(
        planned(&own_network(View::default())),
        ["0 = copy objects", "/sys <- 0"]
    );
    let guarded = planned(&own_network(View {
        protect_kernel_tunables: true,
        ..View::default()
    }));
    for step in [
        "= copy objects ro",
        "= copy /sys/fs/cgroup",
        "/sys/fs/cgroup <- ",
    ] {
        assert!(guarded.iter().any(|one| one.contains(step)), "{guarded:?}");
    }
}

#[test]
fn objects_are_where_the_view_has_them_and_nowhere_else() {
    let of = |kernel_file_systems| {
        let view = own_network(View {
            root: Some(Root::Folder("/srv/a".into())),
            kernel_file_systems,
            ..View::default()
        });
        let machine = debian().with_root(&["/proc/", "/dev/", "/run/"]);
        let steps = steps(&plan(&view, &machine).expect("a plan"));
        let anew = steps.iter().filter(|step| step.ends_with("copy objects"));
        let copied = steps.iter().filter(|step| step.ends_with("copy /sys"));
        (anew.count(), copied.count())
    };
    assert_eq!(of(true), (1, 0));
    assert_eq!(of(false), (0, 0));
    // A machine without any has none to renew.
    let bare = Fake::new(&["/proc/"]);
    let plan = plan(&own_network(View::default()), &bare).expect("a plan");
    assert!(plan.steps.is_empty());
}
