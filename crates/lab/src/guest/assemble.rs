//! The guest's root folder, and the init that runs a script in it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::modules::load_order;
use super::running::GuestError;
use super::{Content, FileEntry, Guest, Start};

/// Where the init and what it needs lie in the guest.
pub(super) const INIT: &str = "/lab/init";
/// How the line begins that says how the script ended.
pub(super) const STATUS_LINE: &str = "lab: status ";
/// The line that says that the script starts now.
pub(super) const READY_LINE: &str = "lab: ready";

/// Mounts the usual, loads modules, runs the script and switches the guest off.
const INIT_SCRIPT: &str = r#"#!/lab/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin
/lab/bin/busybox --install -s /lab/bin
mkdir -p /proc /sys /dev /tmp /run /out
mount -t proc proc /proc
mount -t sysfs sys /sys
# A kernel with a real root has mounted this one itself.
[ -e /dev/null ] || mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
ip link set lo up
while read -r module; do
    insmod "/lab/modules/$module" || echo "lab: cannot load $module"
done </lab/load
while read -r options host guest; do
    mkdir -p "$guest"
    mount -t hostfs -o "$options,$host" none "$guest" || echo "lab: cannot share $host"
done </lab/shares
count=0
results=
for disk in /dev/ubd[a-z] /dev/vd[a-z]; do
    [ -b "$disk" ] || continue
    if [ "$count" = "$(cat /lab/disks)" ]; then
        results=$disk
    else
        ln -s "$disk" "/dev/disk$count"
    fi
    count=$((count + 1))
done
echo "lab: ready"
sh /lab/script </dev/null
status=$?
[ -z "$results" ] || tar -c -f "$results" -C /out .
sync
printf '\nlab: status %s\n' "$status"
poweroff -f
"#;

/// Where a kernel's modules lie.
#[derive(Debug)]
pub(super) struct ModuleTree {
    pub(super) folder: PathBuf,
}

/// Fills an empty folder with what the guest's root file system is to hold.
pub(super) fn assemble(
    guest: &Guest,
    modules: &[String],
    tree: &ModuleTree,
    root: &Path,
) -> Result<(), GuestError> {
    let failed = |source| GuestError::Prepare {
        path: root.to_owned(),
        source,
    };
    // The kernel mounts some of these before any program runs.
    for folder in ["proc", "sys", "dev", "tmp", "run", "out", "bin", "lab/bin"] {
        fs::create_dir_all(root.join(folder)).map_err(failed)?;
    }
    fs::copy("/bin/busybox", root.join("lab/bin/busybox")).map_err(failed)?;
    symlink("/lab/bin/busybox", root.join("bin/sh")).map_err(failed)?;
    // Whoever is PID 1 loads them: the init of the lab, or the program under test.
    let load = copy_modules(modules, tree, root)?;
    fs::write(root.join("lab/load"), load).map_err(failed)?;
    if let Start::Script(script) = &guest.start {
        let shares: String = guest
            .shares
            .iter()
            .map(|share| {
                let options = if share.writable { "rw" } else { "ro" };
                format!(
                    "{options} {} {}\n",
                    share.host.display(),
                    share.guest.display()
                )
            })
            .collect();
        let write = |name: &str, content: &str| fs::write(root.join("lab").join(name), content);
        write("init", INIT_SCRIPT)
            .and_then(|()| {
                fs::set_permissions(root.join("lab/init"), Permissions::from_mode(0o755))
            })
            .and_then(|()| write("script", script))
            .and_then(|()| write("shares", &shares))
            .and_then(|()| write("disks", &guest.disks.len().to_string()))
            .map_err(failed)?;
    }
    for file in &guest.files {
        place(file, root).map_err(|source| GuestError::Prepare {
            path: file.path.clone(),
            source,
        })?;
    }
    Ok(())
}

fn place(file: &FileEntry, root: &Path) -> io::Result<()> {
    let relative = file.path.strip_prefix("/").unwrap_or(&file.path);
    let path = root.join(relative);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match &file.content {
        Content::Link(target) => return symlink(target, path),
        Content::Bytes(content) => fs::write(&path, content)?,
        Content::HostFile(host) => {
            fs::copy(host, &path)?;
        }
    }
    fs::set_permissions(path, Permissions::from_mode(file.mode))
}

/// Copies the modules and says in which order they are loaded.
fn copy_modules(modules: &[String], tree: &ModuleTree, root: &Path) -> Result<String, GuestError> {
    if modules.is_empty() {
        return Ok(String::new());
    }
    let read = |name: &str| {
        let path = tree.folder.join(name);
        fs::read_to_string(&path).map_err(|source| GuestError::Prepare { path, source })
    };
    let files = load_order(&read("modules.dep")?, &read("modules.builtin")?, modules)
        .map_err(GuestError::NoSuchModule)?;
    let folder = root.join("lab/modules");
    let mut load = String::new();
    for file in files {
        let name = Path::new(&file).file_name().unwrap_or_default();
        let source = tree.folder.join(&file);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::copy(&source, folder.join(name)))
            .map_err(|error| GuestError::Prepare {
                path: source.clone(),
                source: error,
            })?;
        load.push_str(&format!("{}\n", name.to_string_lossy()));
    }
    Ok(load)
}
