//! Where this machine has its trees of cgroups.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the trees are that count something; `None` where there is none. On cgroup v2 all is in one tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Trees {
    pub(crate) unified: Option<PathBuf>,
    pub(crate) cpuacct: Option<PathBuf>,
    pub(crate) memory: Option<PathBuf>,
    pub(crate) pids: Option<PathBuf>,
}

impl Trees {
    /// Those of the machine whose files are below `root`. One that cannot tell has none.
    pub(crate) fn find(root: &Path) -> Self {
        let mounts = fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
        let found = Self::from_mounts(&String::from_utf8_lossy(&mounts));
        let below = |tree: Option<PathBuf>| {
            tree.map(|tree| root.join(tree.strip_prefix("/").unwrap_or(&tree)))
        };
        Self {
            unified: below(found.unified),
            cpuacct: below(found.cpuacct),
            memory: below(found.memory),
            pids: below(found.pids),
        }
    }

    /// By the text of `/proc/self/mountinfo`. A tree that is mounted more than once is taken where it was mounted last: that
    /// hides those before. Mounts that show only a part of a tree are left out, since paths begin at its root.
    fn from_mounts(mountinfo: &str) -> Self {
        let mut trees = Self::default();
        for line in mountinfo.lines() {
            let Some((point, kind, options)) = parse(line) else {
                continue;
            };
            let has = |controller: &str| options.split(',').any(|option| option == controller);
            let point = || Some(PathBuf::from(point));
            match kind {
                "cgroup2" => trees.unified = point(),
                "cgroup" => {
                    for (controller, tree) in [
                        ("cpuacct", &mut trees.cpuacct),
                        ("memory", &mut trees.memory),
                        ("pids", &mut trees.pids),
                    ] {
                        if has(controller) {
                            *tree = point();
                        }
                    }
                }
                _ => {}
            }
        }
        trees
    }
}

/// Mount point, type and options of the file system, of a line that shows a whole tree.
fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, options) = (file_system.next()?, file_system.nth(1).unwrap_or(""));
    // Blanks are written as escapes; no tree is mounted at such a place in practice.
    (root == "/" && !point.contains('\\')).then_some((point, kind, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mounts: &str) -> [Option<String>; 4] {
        let trees = Trees::from_mounts(mounts);
        let text = |tree: Option<PathBuf>| tree.map(|tree| tree.display().to_string());
        [trees.unified, trees.cpuacct, trees.memory, trees.pids].map(text)
    }

    fn places<const N: usize>(places: [&str; N]) -> [Option<String>; N] {
        places.map(|place| (!place.is_empty()).then(|| place.to_owned()))
    }

    #[test]
    fn every_layout_is_recognised() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(found(v2), places(["/sys/fs/cgroup", "", "", ""]));
        // Distributions mount the two of the processor together.
        let hybrid = "\
            31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let expected = [
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup/cpu,cpuacct",
            "/sys/fs/cgroup/memory",
            "",
        ];
        assert_eq!(found(hybrid), places(expected));
        let legacy = "36 30 0:31 / /cg/pids rw - cgroup none rw,pids\n";
        assert_eq!(found(legacy), places(["", "", "", "/cg/pids"]));
    }

    #[test]
    fn parts_of_trees_and_odd_lines_are_left_out() {
        let text = "\
            30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
            30 23 0:26 / /with\\040blank rw - cgroup2 cgroup2 rw\n\
            31 30 0:27 / /mem rw - cgroup\n\
            - \n - \nx - cgroup2\n\n1 2 3 4\n";
        assert_eq!(found(text), places(["", "", "", ""]));
        let twice = "1 1 0:1 / /a rw - cgroup2 x rw\n2 1 0:1 / /b rw - cgroup2 x rw\n";
        assert_eq!(found(twice), places(["/b", "", "", ""]));
    }
}
