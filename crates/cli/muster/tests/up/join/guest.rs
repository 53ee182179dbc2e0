//! Virtual machines of libvirt that join: one that has little more than a shell, and one with systemd and the real cloud-init.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use muster_lab::machine::{Binaries, Build};
use tempfile::TempDir;

use super::{BOOT_TIME, BROUGHT, JOIN_TIME, Manager, PROGRAMS, UNIT, brought, strip};
use crate::rig::{Programs, Site, TIME};

const HELPER: &str = "muster-libvirt-helper";
/// Where the disks of test machines are, in the machine.
const DISKS: &str = "/disks";

/// libvirt has the machine for itself.
const LIBVIRT: &str = r#"
set -eu
mkdir -p /tmp/lv/sock /run/libvirt /run/lock /etc/libvirt/qemu
for folder in lib cache log; do
    mkdir -p /var/$folder/libvirt
    mount -t tmpfs $folder /var/$folder/libvirt
done
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
dynamic_ownership = 0
CONF
cat >/tmp/lv/libvirtd.conf <<CONF
unix_sock_dir = "/tmp/lv/sock"
auth_unix_rw = "none"
auth_unix_ro = "none"
CONF
virtlogd -d -p /tmp/lv/virtlogd.pid
exec libvirtd -f /tmp/lv/libvirtd.conf -p /tmp/lv/libvirtd.pid
"#;
const PROVIDER: &str = r#""docker": {"enabled": false},
    "libvirt": {"uri": "qemu:///system?socket=/tmp/lv/sock/libvirt-sock", "folder": "/tmp/guests"}"#;
const TEMPLATES: &str = "\
name: small
image: /disks/small.qcow2
user: root
memoryMB: 1024
---
name: debian
image: /disks/debian.qcow2
cpus: 2
memoryMB: 1024
";

/// Where the lab keeps disks, as the script that makes them says.
fn disks() -> PathBuf {
    let named = std::env::var_os("MUSTER_LAB_MACHINES").map(PathBuf::from);
    let cache = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = cache.or(home).unwrap_or_default();
        cache.join("muster/lab-machines")
    };
    named.unwrap_or_else(cache)
}

/// Libraries that a program is linked with and the small disk lacks, in one folder.
fn libraries(program: &Path, folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let linked = Command::new("ldd").arg(program).output().expect("ldd runs");
    let linked = String::from_utf8(linked.stdout).expect("text");
    let named = linked.split_whitespace().filter(|it| it.starts_with('/'));
    for library in named.filter(|it| it.contains("libgcc_s") || it.contains("libm.")) {
        let name = Path::new(library).file_name().expect("a name");
        fs::copy(library, folder.join(name)).expect("a copy");
    }
}

struct Rig {
    site: Site,
    _brought: TempDir,
    _helper: Binaries,
    _libvirt: muster_lab::program::Process,
}

impl Rig {
    fn start(disk: &str) -> Self {
        let disk = disks().join(disk);
        assert!(
            disk.exists(),
            "{} is missing: run scripts/setup, or scripts/lab-machine-images",
            disk.display()
        );
        let programs = Programs::build();
        let helper = Binaries::build(Build::Test, &[(HELPER, HELPER)], &[]).expect("the helper");
        let brought = brought(&programs, PROVIDER, TEMPLATES);
        let bin = brought.path().join("programs");
        fs::copy(helper.path(HELPER), bin.join(HELPER)).expect("a copy");
        strip(&bin);
        libraries(&bin.join("muster-sm"), &brought.path().join("libraries"));
        let folders = [(brought.path(), BROUGHT), (&disks(), DISKS)];
        let site = Site::boot_with(programs, &folders);
        site.up(&[]);
        let libvirt = site.begin_in_group(&["sh", "-c", LIBVIRT]);
        site.wait_until("libvirtd answers", TIME, |site| virsh(site, &["list"]).0);
        Self {
            site,
            _brought: brought,
            _helper: helper,
            _libvirt: libvirt,
        }
    }

    /// Nothing of any machine is left.
    #[track_caller]
    fn assert_nothing_left(&self) {
        let (_, domains) = virsh(&self.site, &["list", "--all", "--name"]);
        assert_eq!(domains.trim(), "");
        let files = self
            .site
            .machine_ok(&["ls", "/tmp/guests/machines/machines"]);
        assert_eq!(files.trim(), "");
        self.site.wait_until("no emulator runs", TIME, |site| {
            !site.command(&["pgrep", "qemu-system"]).status.success()
        });
    }
}

/// Whether libvirt's own client succeeds, and what it says.
fn virsh(site: &Site, words: &[&str]) -> (bool, String) {
    let uri = "qemu:///system?socket=/tmp/lv/sock/libvirt-sock";
    let done = site.command(&[&["virsh", "-q", "-c", uri], words].concat());
    (done.status.success(), done.stdout)
}

/// Whether this is no long run. Nothing here has hardware to help it, so that a guest takes minutes while others work.
fn is_short(test: &str) -> bool {
    let is_short = muster_lab::rounds(0, 1) == 0;
    if is_short {
        println!("skipped: {test}: only with MUSTER_SOAK=1");
    }
    is_short
}

macro_rules! require_guests {
    () => {
        require_unit!(
            File("/usr/sbin/libvirtd"),
            File("/usr/sbin/virtlogd"),
            Tool("qemu-system-x86_64"),
            Tool("qemu-img"),
            Tool("virsh"),
            Tool("strip")
        )
    };
}

/// The small machine lives in memory that was there before any mount, from which no process can be given another root: it runs no
/// instances.
#[test]
fn soak_a_virtual_machine_becomes_a_node_and_vanishes() {
    if is_short("soak_a_virtual_machine_becomes_a_node_and_vanishes") {
        return;
    }
    require_guests!();
    let rig = Rig::start("small.qcow2");
    let manager = Manager::start(&rig.site);
    let id = manager.provision(&["-t", "small"]);
    rig.site.wait_until("the machine answers", JOIN_TIME, |_| {
        let done = manager.machine(&["exec", &id, "--", "true"]);
        done.status.success()
    });
    let to = format!("{id}:/lib/x86_64-linux-gnu");
    // What it holds, whether or not there is such a folder.
    manager.machine_ok(&["cp", &format!("{BROUGHT}/libraries/."), &to]);
    manager.machine_ok(&["join", &id, UNIT, "--programs", PROGRAMS]);
    manager.assert_joined(&id);
    manager.assert_leaves(&id);
    rig.assert_nothing_left();
    rig.site.down();
}

#[test]
fn soak_a_virtual_machine_with_systemd_joins_works_and_comes_back_after_a_reboot() {
    if is_short("soak_a_virtual_machine_with_systemd_joins_works_and_comes_back_after_a_reboot") {
        return;
    }
    require_guests!();
    let rig = Rig::start("debian.qcow2");
    let manager = Manager::start(&rig.site);
    let begin = Instant::now();
    let reached = |what: &str| println!("{what} after {} s", begin.elapsed().as_secs());
    let words = ["-t", "debian", "--join", UNIT, "--programs", PROGRAMS];
    let id = manager.provision(&words);
    reached("joined");
    manager.assert_joined(&id);
    reached("joined again");
    manager.assert_works(&id);
    reached("worked");

    let init = ["systemctl", "is-active", "muster-node.service"];
    let is_active = manager.machine_ok(&[&["exec", &id, "--"], &init[..]].concat());
    assert_eq!(is_active.trim(), "active");
    manager.machine_ok(&["reboot", &id]);
    rig.site
        .wait_until("the node is missed", BOOT_TIME, |site| {
            !site.is_connected(&id)
        });
    reached("missed");
    rig.site.wait_until("the node is back", BOOT_TIME, |site| {
        let instances = site.instances();
        let mut there = instances.iter();
        site.is_connected(&id) && there.any(|it| it["node"] == *id && it["state"] == "active")
    });
    reached("back");
    manager.assert_leaves(&id);
    reached("gone");
    rig.assert_nothing_left();
    rig.site.down();
}
