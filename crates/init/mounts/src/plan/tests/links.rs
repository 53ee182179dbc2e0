//! Links to a unit's own folders.

use super::{debian, planned, steps, temporary};
use crate::{Link, Root, View, plan};

/// A view of a unit with a folder that two links lead to.
fn with_links(view: View) -> View {
    let link = |path: &str| Link {
        path: path.into(),
        folder: "/var/lib/x".into(),
    };
    View {
        own_folders: vec!["/var/lib/x".into()],
        own_links: vec![link("/var/lib/old"), link("/srv/other")],
        ..view
    }
}

fn attached(steps: &[String], path: &str) -> bool {
    let start = format!("{path} <- ");
    steps.iter().any(|step| step.starts_with(&start))
}

#[test]
fn a_link_that_would_not_be_seen_is_the_folder_itself() {
    let seen = planned(&with_links(View {
        read_only: super::places(&["/etc"]),
        ..View::default()
    }));
    assert!(!attached(&seen, "/var/lib/old") && !attached(&seen, "/srv/other"));
    let covered = planned(&with_links(View {
        temporary: vec![temporary("/var/lib", "")],
        ..View::default()
    }));
    assert!(attached(&covered, "/var/lib/x") && attached(&covered, "/var/lib/old"));
    assert!(!attached(&covered, "/srv/other"), "{covered:?}");
    let elsewhere = with_links(View {
        root: Some(Root::Folder("/srv/a".into())),
        ..View::default()
    });
    let machine = debian().with_root(&["/var/lib/", "/srv/"]);
    let elsewhere = steps(&plan(&elsewhere, &machine).expect("a plan"));
    for path in ["/var/lib/x", "/var/lib/old", "/srv/other"] {
        assert!(attached(&elsewhere, path), "{path}: {elsewhere:?}");
    }
}

#[test]
fn a_bind_right_at_a_link_has_the_last_word() {
    let view = with_links(View {
        temporary: vec![temporary("/var/lib", "")],
        binds: vec![super::bind("/srv/a", "/var/lib/old")],
        ..View::default()
    });
    let steps = planned(&view);
    let bound = steps.iter().any(|step| step.contains("copy /srv/a"));
    assert!(bound && attached(&steps, "/var/lib/old"), "{steps:?}");
    let copies = steps.iter().filter(|step| step.contains("copy /var/lib/x"));
    assert_eq!(copies.count(), 1, "{steps:?}");
}
