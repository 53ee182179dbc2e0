//! Kinds of file systems, by the names and groups that systemd 252 knows, and their numbers.

use std::collections::BTreeSet;

/// Names, and the numbers that the kernel has for them in `linux/magic.h` and in the file systems themselves. Kinds that share a
/// number are one to a filter: `devtmpfs` is `tmpfs`.
const KNOWN: &[(&str, &[u32])] = &[
    ("adfs", &[0xadf5]),
    ("affs", &[0xadff]),
    ("afs", &[0x6b41_4653, 0x5346_414f]),
    ("anon_inodefs", &[0x0904_1934]),
    ("apparmorfs", &[0x5a3c_69f0]),
    ("autofs", &[0x0187]),
    ("balloon-kvm", &[0x1366_1366]),
    ("bdev", &[0x6264_6576]),
    ("binder", &[0x6c6f_6f70]),
    ("binfmt_misc", &[0x4249_4e4d]),
    ("bpf", &[0xcafe_4a11]),
    ("btrfs", &[0x9123_683e]),
    ("btrfs_test_fs", &[0x7372_7279]),
    ("ceph", &[0x00c3_6400]),
    ("cgroup", &[0x0027_e0eb]),
    ("cgroup2", &[0x6367_7270]),
    ("cifs", &[0xff53_4d42, 0xfe53_4d42]),
    ("coda", &[0x7375_7245]),
    ("configfs", &[0x6265_6570]),
    ("cpuset", &[0x0027_e0eb]),
    ("cramfs", &[0x28cd_3d45]),
    ("dax", &[0x6464_6178]),
    ("debugfs", &[0x6462_6720]),
    ("devmem", &[0x454d_444d]),
    ("devpts", &[0x1cd1]),
    ("devtmpfs", &[0x0102_1994]),
    ("dmabuf", &[0x444d_4142]),
    ("ecryptfs", &[0xf15f]),
    ("efivarfs", &[0xde5e_81e4]),
    ("efs", &[0x0041_4a53]),
    ("erofs", &[0xe0f5_e1e2]),
    ("exfat", &[0x2011_bab0]),
    ("ext2", &[0xef53]),
    ("ext3", &[0xef53]),
    ("ext4", &[0xef53]),
    ("f2fs", &[0xf2f5_2010]),
    ("fuse", &[0x6573_5546]),
    ("fuseblk", &[0x6573_5546]),
    ("fusectl", &[0x6573_5543]),
    ("gfs", &[0x0116_1970]),
    ("gfs2", &[0x0116_1970]),
    ("hostfs", &[0x00c0_ffee]),
    ("hpfs", &[0xf995_e849]),
    ("hugetlbfs", &[0x9584_58f6]),
    ("iso9660", &[0x9660]),
    ("jffs2", &[0x72b6]),
    ("minix", &[0x137f, 0x138f, 0x2468, 0x2478, 0x4d5a]),
    ("mqueue", &[0x1980_0202]),
    ("msdos", &[0x4d44]),
    ("ncp", &[0x564c]),
    ("ncpfs", &[0x564c]),
    ("nfs", &[0x6969]),
    ("nfs4", &[0x6969]),
    ("nilfs2", &[0x3434]),
    ("nsfs", &[0x6e73_6673]),
    ("ntfs", &[0x5346_544e]),
    ("ntfs3", &[0x7366_746e]),
    ("ocfs2", &[0x7461_636f]),
    ("openpromfs", &[0x9fa1]),
    // Its files have the first number; systemd knows the second.
    ("orangefs", &[0x2003_0528, 0x2003_0529]),
    ("overlay", &[0x794c_7630]),
    ("pidfs", &[0x5049_4446]),
    ("pipefs", &[0x5049_5045]),
    ("ppc-cmm", &[0xc757_1590]),
    ("proc", &[0x9fa0]),
    ("pstore", &[0x6165_676c]),
    ("pvfs2", &[0x2003_0528, 0x2003_0529]),
    ("qnx4", &[0x002f]),
    ("qnx6", &[0x6819_1122]),
    ("ramfs", &[0x8584_58f6]),
    ("reiserfs", &[0x5265_4973]),
    ("resctrl", &[0x0765_5821]),
    ("rpc_pipefs", &[0x6759_6969]),
    ("secretmem", &[0x5345_434d]),
    ("securityfs", &[0x7363_6673]),
    ("selinuxfs", &[0xf97c_ff8c]),
    ("shiftfs", &[0x6a65_6a62]),
    ("smackfs", &[0x4341_5d53]),
    ("smb3", &[0xff53_4d42]),
    ("smbfs", &[0x517b]),
    ("sockfs", &[0x534f_434b]),
    ("squashfs", &[0x7371_7368]),
    ("sysfs", &[0x6265_6572]),
    ("tmpfs", &[0x0102_1994]),
    ("tracefs", &[0x7472_6163]),
    ("udf", &[0x1501_3346]),
    ("usbdevfs", &[0x9fa2]),
    ("v9fs", &[0x0102_1997]),
    ("vboxsf", &[0x786f_4256]),
    ("vfat", &[0x4d44]),
    ("xenfs", &[0xabba_1974]),
    ("xfs", &[0x5846_5342]),
    ("z3fold", &[0x0033]),
    ("zonefs", &[0x5a4f_4653]),
    ("zsmalloc", &[0x5829_5829]),
];

/// Groups, but for `@known`, which has all names.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "@basic-api",
        &[
            "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "proc", "sysfs",
        ],
    ),
    ("@anonymous", &["anon_inodefs", "pipefs", "sockfs"]),
    ("@application", &["autofs", "fuse", "overlay"]),
    (
        "@auxiliary-api",
        &[
            "binfmt_misc",
            "configfs",
            "efivarfs",
            "fusectl",
            "hugetlbfs",
            "rpc_pipefs",
            "securityfs",
        ],
    ),
    (
        "@common-block",
        &[
            "btrfs", "erofs", "exfat", "ext4", "f2fs", "iso9660", "ntfs3", "squashfs", "udf",
            "vfat", "xfs",
        ],
    ),
    ("@historical-block", &["ext2", "ext3", "minix"]),
    (
        "@network",
        &[
            "afs", "ceph", "cifs", "gfs", "gfs2", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2",
            "orangefs", "pvfs2", "smb3", "smbfs",
        ],
    ),
    ("@privileged-api", &["bpf", "debugfs", "pstore", "tracefs"]),
    ("@security", &["apparmorfs", "selinuxfs", "smackfs"]),
    ("@temporary", &["ramfs", "tmpfs"]),
];

/// A name or group that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no file system {0}")]
pub struct UnknownFileSystem(pub Box<str>);

/// A list of kinds of file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystems(BTreeSet<&'static str>);

impl FileSystems {
    /// Puts a name, or all names of a group, on the list.
    ///
    /// # Errors
    /// There is none of that name; the list stays as it is.
    pub fn add(&mut self, name: &str) -> Result<(), UnknownFileSystem> {
        self.0.extend(names(name)?);
        Ok(())
    }

    /// Takes a name, or all names of a group, off the list.
    ///
    /// # Errors
    /// There is none of that name; the list stays as it is.
    pub fn remove(&mut self, name: &str) -> Result<(), UnknownFileSystem> {
        for name in names(name)? {
            self.0.remove(name);
        }
        Ok(())
    }

    /// Whether nothing is on it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of all that are on it, each once.
    pub(super) fn numbers(&self) -> BTreeSet<u32> {
        let listed = KNOWN.iter().filter(|(name, _)| self.0.contains(name));
        listed.flat_map(|(_, numbers)| *numbers).copied().collect()
    }
}

/// The names that a name or group stands for.
fn names(name: &str) -> Result<Vec<&'static str>, UnknownFileSystem> {
    let known = KNOWN.iter().map(|(name, _)| *name);
    if name == "@known" {
        return Ok(known.collect());
    }
    let group = GROUPS.iter().find(|(group, _)| *group == name);
    let single = || known.clone().find(|known| *known == name);
    match group {
        Some((_, members)) => Ok(members.to_vec()),
        None => single()
            .map(|name| vec![name])
            .ok_or_else(|| UnknownFileSystem(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(lines: &[(&str, bool)]) -> Vec<u32> {
        let mut list = FileSystems::default();
        for (name, removed) in lines {
            match removed {
                true => list.remove(name).unwrap(),
                false => list.add(name).unwrap(),
            }
        }
        list.numbers().into_iter().collect()
    }

    #[test]
    fn members_of_groups_are_known_and_no_name_is_there_twice() {
        let all: BTreeSet<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
        assert_eq!(all.len(), KNOWN.len());
        for (group, members) in GROUPS {
            for member in *members {
                assert!(all.contains(member), "{member} of {group}");
            }
        }
    }

    #[test]
    fn names_and_groups_are_put_on_the_list_and_taken_off() {
        assert_eq!(numbers(&[("tmpfs", false)]), [0x0102_1994]);
        assert_eq!(
            numbers(&[("@temporary", false), ("proc", false), ("tmpfs", true)]),
            [0x9fa0, 0x8584_58f6]
        );
        // What is on the list under two names stays until both are taken off.
        let ext = [("ext2", false), ("ext4", false), ("@common-block", true)];
        assert_eq!(numbers(&ext), [0xef53]);
        assert_eq!(numbers(&[("@known", false), ("@known", true)]), []);
        let all = numbers(&[("@known", false)]);
        assert!(all.len() > 80 && all.contains(&0x5846_5342), "{all:x?}");
    }

    #[test]
    fn unknown_names_are_refused() {
        let mut list = FileSystems::default();
        for name in ["nothing", "@nothing", "", "EXT4"] {
            let error = list.add(name).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no file system {name}"));
            assert!(list.remove(name).is_err() && list.is_empty());
        }
    }

    #[test]
    fn this_machines_own_file_systems_have_the_numbers_of_their_names() {
        for (path, name) in [("/proc", "proc"), ("/sys", "sysfs")] {
            let Ok(found) = rustix::fs::statfs(path) else {
                continue;
            };
            let found = u32::try_from(found.f_type).unwrap();
            assert_eq!(numbers(&[(name, false)]), [found], "{path}");
        }
    }
}
