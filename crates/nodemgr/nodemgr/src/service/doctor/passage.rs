//! Whether QEMU, which is another user, reaches the disks of its machines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_machine_api::v1;

use super::check;

/// Where it is said which user QEMU is.
const QEMU_CONF: &str = "/etc/libvirt/qemu.conf";
const ADVICE: &str = "name a folder under `providers.libvirt.folder` that every user can pass through, such as one below /srv, \
                      or allow that with `chmod o+x`; or let QEMU be root, by `user` in /etc/libvirt/qemu.conf";

/// The folder above a place, or the place itself, that other users cannot pass through: the first one from the top. What is not
/// there yet is made so that they can.
fn barrier(folder: &Path, mode: impl Fn(&Path) -> Option<u32>) -> Option<PathBuf> {
    let above: Vec<&Path> = folder.ancestors().collect();
    let mut from_top = above.into_iter().rev();
    let closed = from_top.find(|it| mode(it).is_some_and(|mode| mode & 0o001 == 0));
    closed.map(Path::to_owned)
}

/// Whether the configuration of libvirt's QEMU says that it is root.
fn is_root(conf: &str) -> bool {
    let mut said = conf.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "user").then(|| value.trim().trim_matches('"'))
    });
    said.next_back()
        .is_some_and(|user| matches!(user, "root" | "+0" | "0"))
}

pub(super) fn check_disks(folder: &Path) -> v1::Check {
    let id = "libvirt-disks";
    let conf = fs::read_to_string(QEMU_CONF).unwrap_or_default();
    let mode = |path: &Path| Some(fs::metadata(path).ok()?.permissions().mode());
    match barrier(folder, mode).filter(|_| !is_root(&conf)) {
        None => {
            let message = format!("QEMU reaches {}", folder.display());
            check(id, v1::Health::Ok, message, "")
        }
        Some(closed) => {
            let message = format!(
                "disks are in {}, and QEMU, which is a user of its own, cannot pass through {}",
                folder.display(),
                closed.display()
            );
            check(id, v1::Health::Warning, message, ADVICE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_that_others_cannot_pass_through_is_named() {
        let modes = |closed: &'static [&'static str]| {
            move |path: &Path| match path.to_str()? {
                "/home/anna/.local/state" => None,
                path if closed.contains(&path) => Some(0o40700),
                _ => Some(0o40711),
            }
        };
        let folder = Path::new("/home/anna/.local/state");
        assert_eq!(barrier(folder, modes(&[])), None);
        let found = barrier(folder, modes(&["/home/anna/.local", "/home/anna"]));
        assert_eq!(found, Some("/home/anna".into()));
        let found = barrier(Path::new("/srv/disks"), modes(&["/srv/disks"]));
        assert_eq!(found, Some("/srv/disks".into()));
    }

    #[test]
    fn who_qemu_is_stands_in_its_configuration() {
        assert!(is_root("#user = \"libvirt-qemu\"\n user = \"root\"\n"));
        assert!(is_root("user = \"+0\""));
        for other in [
            "",
            "#user = \"root\"",
            "user = \"qemu\"",
            "users = \"root\"",
        ] {
            assert!(!is_root(other), "{other}");
        }
    }
}
