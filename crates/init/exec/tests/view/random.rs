//! Random lists of paths on a real kernel: what it says of each path is what the most specific entry says.

use std::fs;
use std::os::unix::fs::MetadataExt;

use muster_exec::mounts::apply;
use muster_mounts::{Place, View};
use proptest::prelude::*;
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::rig::{is_root, namespaced};

/// All folders of three levels with two names, from the outside in.
fn folders() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..3 {
        let names = |folder: &String| ["a", "b"].map(|name| format!("{folder}/{name}"));
        last = last.iter().flat_map(names).collect();
        all.extend(last.iter().cloned());
    }
    all
}

fn any_list() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(folders()), 0..4)
}

#[derive(Clone, Debug)]
struct Lists {
    read_only: Vec<String>,
    read_write: Vec<String>,
    hidden: Vec<String>,
    no_exec: Vec<String>,
    exec: Vec<String>,
}

prop_compose! {
    fn any_lists()(
        read_only in any_list(),
        read_write in any_list(),
        hidden in any_list(),
        no_exec in any_list(),
        exec in any_list(),
    ) -> Lists {
        Lists { read_only, read_write, hidden, no_exec, exec }
    }
}

impl Lists {
    fn view(&self, root: &str) -> View {
        let places = |list: &[String]| {
            let place = |path: &String| Place {
                path: format!("{root}{path}").into(),
                optional: false,
                in_root: false,
            };
            list.iter().map(place).collect()
        };
        View {
            read_only: places(&self.read_only),
            read_write: places(&self.read_write),
            inaccessible: places(&self.hidden),
            no_exec: places(&self.no_exec),
            exec: places(&self.exec),
            ..View::default()
        }
    }

    /// Which of two lists names the nearest folder at or above a path, the first if both do.
    fn nearest(path: &str, first: &[String], second: &[String]) -> bool {
        let mut above: Vec<String> = folders();
        above.retain(|folder| path == folder || path.starts_with(&format!("{folder}/")));
        let nearest = above.iter().rev().find_map(|folder| {
            let is_first = first.contains(folder);
            (is_first || second.contains(folder)).then_some(is_first)
        });
        nearest.unwrap_or(false)
    }

    fn is_hidden(&self, path: &str) -> bool {
        let at_or_above =
            |folder: &String| path == folder || path.starts_with(&format!("{folder}/"));
        self.hidden.iter().any(at_or_above)
    }
}

fn check(lists: &Lists, root: &str) -> Result<(), TestCaseError> {
    for path in folders() {
        let real = format!("{root}{path}");
        if lists.is_hidden(&path) {
            let is_top = lists.hidden.contains(&path);
            let mode = fs::metadata(&real).map(|found| found.mode() & 0o7777);
            // Below what is hidden there is nothing, not even another thing that is hidden.
            prop_assert!(
                mode.as_ref().map_or(true, |mode| is_top && *mode == 0),
                "{path}: {mode:?}"
            );
            continue;
        }
        let flags = statvfs(&real).unwrap().f_flag;
        let read_only = Lists::nearest(&path, &lists.read_only, &lists.read_write);
        let no_exec = Lists::nearest(&path, &lists.no_exec, &lists.exec);
        prop_assert_eq!(
            flags.contains(StatVfsMountFlags::RDONLY),
            read_only,
            "writing in {}",
            path
        );
        prop_assert_eq!(
            flags.contains(StatVfsMountFlags::NOEXEC),
            no_exec,
            "executing in {}",
            path
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_says_what_the_most_specific_entry_says(lists in any_lists()) {
        if !is_root("the_kernel_says_what_the_most_specific_entry_says") {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        for path in folders() {
            fs::create_dir_all(format!("{root}{path}")).unwrap();
        }
        namespaced(|| {
            let dropped = apply(&lists.view(root), false).unwrap();
            prop_assert!(dropped.is_empty(), "{dropped:?}");
            check(&lists, root)
        })?;
    }
}
