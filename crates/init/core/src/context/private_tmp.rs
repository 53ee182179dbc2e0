//! `PrivateTmp=`: folders that stand for `/tmp` and `/var/tmp` while a unit runs.
//!
//! Their names say everything: `muster-private-BOOT-UNIT-RUN`. So all commands of a run find the same ones, a manager that
//! was started anew knows them without having been told, and those of other boots can be swept away. A run that shares the
//! folders of another one has a link in the place of its own.

use std::hash::Hasher;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use muster_engine::ids::InvocationId;
use muster_mounts::Folders;
use muster_unit_file::specifier::HostFacts;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// How names begin.
const PREFIX: &str = "muster-private-";
/// The folder inside that the unit sees: the one around it is nobody else's to enter.
const INNER: &str = "tmp";
/// A name with prefix, boot and run must fit into the 255 bytes of a file's.
const LONGEST_UNIT: usize = 160;
const ID_DIGITS: usize = 32;

/// The name of a run's folders.
#[must_use]
pub fn name(host: &HostFacts, unit: &str, run: InvocationId) -> String {
    let boot = host.boot_id.as_deref().unwrap_or("none");
    if unit.len() <= LONGEST_UNIT {
        return format!("{PREFIX}{boot}-{unit}-{run}");
    }
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(unit.as_bytes());
    format!("{PREFIX}{boot}-{:016x}-{run}", hasher.finish())
}

/// The outer folders of this name, which hold everything.
#[must_use]
pub fn outer(host: &HostFacts, name: &str) -> [String; 2] {
    roots(host).map(|root| format!("{root}/{name}"))
}

/// Where those folders are.
#[must_use]
pub fn roots(host: &HostFacts) -> [&str; 2] {
    [&host.temporary_directory, &host.large_temporary_directory]
        .map(|root| root.trim_end_matches('/'))
}

/// The folders of this name that a process sees.
#[must_use]
pub fn folders(host: &HostFacts, name: &str) -> Folders {
    let [tmp, var_tmp] = outer(host, name).map(|path| format!("{path}/{INNER}").into());
    Folders { tmp, var_tmp }
}

/// The name of the folders that a run shares with another, if it does. Everybody may make a link in `/tmp`, and the ids of runs
/// are no secret: only what the manager itself has put there counts.
#[must_use]
pub fn shared(host: &HostFacts, name: &str) -> Option<String> {
    let [link, _] = outer(host, name);
    let link = open_own(&link, FileType::Symlink)?;
    let target = rustix::fs::readlinkat(&link, c"", Vec::new()).ok()?;
    target
        .into_string()
        .ok()
        .filter(|target| target.starts_with(PREFIX) && !target.contains('/'))
}

/// Whether the manager has made folders of this name.
#[must_use]
pub fn is_made(host: &HostFacts, name: &str) -> bool {
    let [tmp, _] = outer(host, name);
    open_own(&tmp, FileType::Directory).is_some()
}

/// Whether what is at this path is the manager's to remove.
#[must_use]
pub fn is_own(path: &str) -> bool {
    [FileType::Directory, FileType::Symlink]
        .into_iter()
        .any(|kind| open_own(path, kind).is_some())
}

/// What is at this path, if it is of this kind and was made by the manager. It is the same thing that is looked at and that
/// is read, and no further name of something that was made for another run.
fn open_own(path: &str, kind: FileType) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&opened).ok()?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(stat.st_mode) == kind
        && (kind == FileType::Directory || stat.st_nlink == 1);
    is_own.then_some(opened)
}

/// Lets a run share the folders of this other name.
///
/// # Errors
/// Something is there already, or it cannot be written down.
pub fn share(host: &HostFacts, name: &str, other: &str) -> io::Result<()> {
    let [link, _] = outer(host, name);
    rustix::fs::symlinkat(other, CWD, Path::new(&link))?;
    Ok(())
}

/// Whether a name is that of a folder of another boot.
#[must_use]
pub fn is_left_over(name: &str, boot: &str) -> bool {
    let Some((front, run)) = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.rsplit_once('-'))
    else {
        return false;
    };
    let is_run = run.len() == ID_DIGITS && run.bytes().all(|b| b.is_ascii_hexdigit());
    let of = front.split('-').next().unwrap_or(front);
    is_run && of.len() == ID_DIGITS && of != boot
}

/// Makes the folders, unless they are there. Somebody else's in their place are refused: everybody may write to `/tmp`.
pub(super) fn make(folders: &Folders) -> io::Result<()> {
    for inner in [&folders.tmp, &folders.var_tmp].map(|path| Path::new(&**path)) {
        let outer = inner.parent().ok_or(io::ErrorKind::InvalidInput)?;
        match rustix::fs::mkdirat(CWD, outer, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, outer, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&opened)?;
        let closed = stat.st_mode & 0o077 == 0;
        if stat.st_uid != rustix::process::geteuid().as_raw() || !closed {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let everybody = Mode::from_raw_mode(0o1777);
        match rustix::fs::mkdirat(&opened, INNER, everybody) {
            Ok(()) => {
                // The manager's mask does not count.
                let made = rustix::fs::openat(&opened, INNER, flags, Mode::empty())?;
                rustix::fs::fchmod(&made, everybody)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(boot: &str) -> HostFacts {
        HostFacts {
            boot_id: Some(boot.into()),
            ..HostFacts::default()
        }
    }

    #[test]
    fn names_are_those_of_boot_unit_and_run() {
        let (boot, other) = ("a".repeat(32), "b".repeat(32));
        let host = host(&boot);
        let name = name(&host, "x-y@1.service", InvocationId(0xbeef));
        assert_eq!(
            name,
            format!("muster-private-{boot}-x-y@1.service-{:032x}", 0xbeef)
        );
        let seen = folders(&host, &name);
        assert_eq!(&*seen.tmp, format!("/tmp/{name}/tmp"));
        assert_eq!(&*seen.var_tmp, format!("/var/tmp/{name}/tmp"));
        assert!(!is_left_over(&name, &boot) && is_left_over(&name, &other));
        for name in [
            "muster-private-",
            "muster-private-x-y",
            "systemd-private-a-b-c",
            "x",
        ] {
            assert!(!is_left_over(name, &boot), "{name}");
        }
        let long = super::name(&host, &"u".repeat(250), InvocationId(u128::MAX));
        assert!(long.len() <= 255 && is_left_over(&long, &other));
    }

    #[test]
    fn a_run_can_share_the_folders_of_another() {
        let root = tempfile::tempdir().unwrap();
        let host = HostFacts {
            temporary_directory: root.path().to_str().unwrap().into(),
            ..host(&"a".repeat(32))
        };
        let [one, two] = [1, 2].map(|run| name(&host, "u.service", InvocationId(run)));
        assert_eq!(shared(&host, &one), None);
        share(&host, &one, &two).unwrap();
        assert_eq!(shared(&host, &one), Some(two.clone()));
        assert!(share(&host, &one, &two).is_err());
    }

    #[test]
    fn what_others_put_in_the_place_of_folders_is_not_believed() {
        muster_lab::require!(Root);
        let nobody = Some(65534);
        let root = tempfile::tempdir().unwrap();
        let place = root.path().to_str().unwrap().to_owned();
        let host = HostFacts {
            temporary_directory: place.as_str().into(),
            ..host(&"a".repeat(32))
        };
        let [one, two, three] = [1, 2, 3].map(|run| name(&host, "u.service", InvocationId(run)));
        share(&host, &one, &two).unwrap();
        std::os::unix::fs::lchown(format!("{place}/{one}"), nobody, nobody).unwrap();
        assert_eq!(shared(&host, &one), None, "a link of somebody else");
        // Where the kernel lets everybody do that, somebody gives what is right for one run another name.
        share(&host, &two, &three).unwrap();
        std::fs::hard_link(format!("{place}/{two}"), format!("{place}/{three}")).unwrap();
        assert_eq!(shared(&host, &three), None, "a further name of a link");
        std::fs::create_dir(format!("{place}/made")).unwrap();
        assert!(is_made(&host, "made") && !is_made(&host, &one) && !is_made(&host, "none"));
        std::os::unix::fs::lchown(format!("{place}/made"), nobody, nobody).unwrap();
        assert!(!is_made(&host, "made"), "a folder of somebody else");
    }

    #[test]
    fn folders_are_made_once_and_never_taken_from_others() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let path = |inner: &str| format!("{}/{inner}", root.path().display()).into();
        let folders = Folders {
            tmp: path("a/tmp"),
            var_tmp: path("b/tmp"),
        };
        make(&folders).unwrap();
        make(&folders).unwrap();
        let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&folders.tmp), 0o1777);
        let around = |path: &str| {
            Path::new(path)
                .parent()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(mode(&around(&folders.var_tmp)), 0o700);
        std::fs::set_permissions(around(&folders.tmp), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(make(&folders).is_err());
    }
}
