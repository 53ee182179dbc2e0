//! The kernel's tables of mounts. Pure.

use std::path::{Path, PathBuf};

/// A line of such a table.
struct Mount {
    /// `major:minor` of the file system.
    device: String,
    /// What of the file system is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

fn mounts(table: &str) -> impl Iterator<Item = Mount> {
    table.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        Some(Mount {
            device: fields.next()?.to_owned(),
            root: PathBuf::from(unescape(fields.next()?)),
            point: PathBuf::from(unescape(fields.next()?)),
        })
    })
}

/// The kernel writes blanks and backslashes of paths in octal.
fn unescape(text: &str) -> String {
    let mut plain = text.to_owned();
    for (octal, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        plain = plain.replace(octal, character);
    }
    plain
}

/// Mounts below these folders, the newest first: what is mounted on another comes before it. What is mounted at a folder itself
/// was there before the Unit, as a disk for its files.
pub(crate) fn points_below(table: &str, folders: &[&Path]) -> Vec<PathBuf> {
    points(table, |point| {
        let mut folders = folders.iter();
        folders.any(|it| point.starts_with(it) && point != *it)
    })
}

/// Mounts at these folders and below them, the newest first.
pub(crate) fn points_from(table: &str, folders: &[&Path]) -> Vec<PathBuf> {
    points(table, |point| {
        folders.iter().any(|it| point.starts_with(it))
    })
}

fn points(table: &str, is_one: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let points = mounts(table).map(|it| it.point);
    let mut points: Vec<PathBuf> = points.filter(|it| is_one(it)).collect();
    points.reverse();
    points
}

/// A folder by its place in its file system, which is the same in every table, wherever that file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    device: String,
    path: PathBuf,
}

impl Spot {
    /// Finds a folder whose path has no links, by the table of whoever sees it at that path.
    pub(crate) fn of(folder: &Path, table: &str) -> Option<Self> {
        // Of mounts at the same point the last one covers the others.
        let around = mounts(table)
            .filter(|mount| folder.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())?;
        let below = folder.strip_prefix(&around.point).ok()?;
        Some(Self {
            path: around.root.join(below),
            device: around.device,
        })
    }

    /// Something in the folder is mounted by itself, as files and folders of an instance are in its root.
    ///
    /// Mount points do not count: what is mounted *at* a folder is in the table of everybody to whom mounts are propagated,
    /// as to most services of a machine.
    pub(crate) fn is_shown_in(&self, table: &str) -> bool {
        mounts(table).any(|it| it.device == self.device && it.root.starts_with(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                        2 1 8:2 /@home /home rw - btrfs /dev/b rw\n\
                        3 1 0:5 / /run/user/7 rw - tmpfs x rw\n\
                        4 3 0:6 / /run/user/7/muster/main/sm/rootfs rw - overlay x rw\n";

    fn spot(folder: &str) -> Spot {
        Spot::of(Path::new(folder), HOST).unwrap()
    }

    #[test]
    fn only_what_is_below_is_unmounted_and_the_newest_first() {
        let table = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                     2 1 0:5 / /run/demo/a rw - tmpfs x rw\n\
                     3 2 0:6 / /run/demo/a/b\\040c rw - tmpfs x rw\n\
                     4 1 0:7 / /run/demolition rw - tmpfs x rw\n\
                     5 1 8:3 / /srv/demo rw - ext4 /dev/c rw\n\
                     6 1 8:4 / /srv rw - ext4 /dev/d rw\n";
        let folders = [Path::new("/run/demo"), Path::new("/srv/demo")];
        let below: Vec<PathBuf> = vec!["/run/demo/a/b c".into(), "/run/demo/a".into()];
        assert_eq!(points_below(table, &folders), below);
        let from = [vec!["/srv/demo".into()], below].concat();
        assert_eq!(points_from(table, &folders), from);
    }

    #[test]
    fn an_instance_is_told_by_what_it_shows_wherever_that_is_mounted() {
        let instance = "9 0 0:9 / / ro - overlay overlay ro\n\
                        10 9 8:2 /@home/u/demo/main/sm/hosts /etc/hosts ro - btrfs /dev/b rw\n";
        assert!(spot("/home/u/demo/main").is_shown_in(instance));
        for other in ["/home/u/demo/mai", "/home/u/demo/second", "/home/u/other"] {
            assert!(!spot(other).is_shown_in(instance), "{other}");
        }
        // The same path on another file system.
        assert!(
            !Spot::of(Path::new("/@home/u/demo/main"), HOST)
                .unwrap()
                .is_shown_in(instance)
        );
        let in_memory = "10 9 0:5 /muster/main/sm/hosts /etc/hosts ro - tmpfs x rw\n";
        assert!(spot("/run/user/7/muster/main").is_shown_in(in_memory));
    }

    #[test]
    fn whoever_sees_the_machines_mounts_is_no_instance() {
        // A service with mounts of its own has a copy of all of the machine's.
        for folder in ["/run/user/7/muster/main", "/home/u/demo/main"] {
            assert!(!spot(folder).is_shown_in(HOST), "{folder}");
        }
    }

    #[test]
    fn what_covers_a_mount_is_where_a_folder_is() {
        let table = "1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /srv rw - tmpfs x rw\n3 2 0:6 / /srv rw - tmpfs x rw\n";
        let found = Spot::of(Path::new("/srv/demo"), table).unwrap();
        let (device, path) = ("0:6".to_owned(), PathBuf::from("/demo"));
        assert_eq!(found, Spot { device, path });
        assert_eq!(Spot::of(Path::new("/srv"), "garbage\n\n1 2\n"), None);
    }
}
