//! libvirt's daemons, of the test's own. The tests of `muster machine` use them too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use muster_lab::poll_until;
use muster_lab::program::{Process, Program};
use tempfile::TempDir;

/// For what takes seconds, on a machine that may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const FOREIGN: &str = "3f1c1c6e-7f7f-4e4e-9a9a-0123456789ab";

/// Daemons in namespaces of their own, so that nothing of the host's is touched and nothing is left.
const SCRIPT: &str = r#"
set -eu
mount -t tmpfs run /run
mkdir -p /run/libvirt /run/lock
for folder in lib cache log; do
    mkdir -p /var/$folder/libvirt
    mount -t tmpfs $folder /var/$folder/libvirt
done
mount -t tmpfs etc /etc/libvirt
mkdir -p /etc/libvirt/qemu
ip link set lo up
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
dynamic_ownership = 0
CONF
mkdir -p "$1/sock"
cat >"$1/libvirtd.conf" <<CONF
unix_sock_dir = "$1/sock"
auth_unix_rw = "none"
auth_unix_ro = "none"
CONF
virtlogd -d -p "$1/virtlogd.pid"
trap : TERM
while :; do
    libvirtd -f "$1/libvirtd.conf" -p "$1/libvirtd.pid" 2>>"$1/libvirtd.log" || true
    while [ -e "$1/held" ]; do sleep 0.1; done
done
"#;

/// The image that boots in seconds, if there is one.
pub(crate) fn small_image() -> PathBuf {
    image("small.qcow2")
}

pub(crate) fn image(name: &str) -> PathBuf {
    let folder = std::env::var_os("MUSTER_LAB_MACHINES").map(PathBuf::from);
    let cache = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        cache
            .or(home)
            .unwrap_or_default()
            .join("muster/lab-machines")
    };
    folder.unwrap_or_else(cache).join(name)
}

/// Skips a test that cannot run here.
macro_rules! require_libvirt {
    ($image:expr) => {
        muster_lab::require!(
            Root,
            NetNs,
            File("/usr/sbin/libvirtd"),
            File("/usr/sbin/virtlogd"),
            Tool("qemu-system-x86_64"),
            Tool("qemu-img"),
            Tool("virsh"),
            Tool("ssh")
        );
        let image: std::path::PathBuf = $image;
        assert!(
            image.exists(),
            "{} is missing: run scripts/setup, or scripts/lab-machine-images",
            image.display()
        );
    };
}
pub(crate) use require_libvirt;

/// The daemons, and a folder that is theirs.
#[derive(Debug)]
pub(crate) struct Daemons {
    // Ends everything inside; before the folder goes.
    namespaces: Process,
    folder: TempDir,
}

impl Daemons {
    /// With mounts and processes of their own, and with what else `unshare` is told. Without `--net` their machines are reached
    /// where the test is.
    pub(crate) fn start(more: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("lv")
            .tempdir()
            .expect("a folder");
        let namespaces = Program::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(more.iter().copied())
            .args(["--propagation", "private", "sh", "-c", SCRIPT, "libvirt"])
            .arg(folder.path())
            .start()
            .expect("the daemons start");
        let daemons = Self { namespaces, folder };
        daemons.wait_up();
        daemons
    }

    pub(crate) fn wait_up(&self) {
        poll_until(PATIENCE, "libvirtd answers", || {
            let listed = self.virsh_raw(&["list"]);
            listed.status.success()
        });
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn uri(&self) -> String {
        let socket = self.path().join("sock/libvirt-sock");
        format!("qemu:///system?socket={}", socket.display())
    }

    fn virsh_raw(&self, arguments: &[&str]) -> Output {
        Command::new("virsh")
            .args(["-q", "-c", &self.uri()])
            .args(arguments)
            .output()
            .expect("virsh runs")
    }

    /// What libvirt's own client says.
    pub(crate) fn virsh(&self, arguments: &[&str]) -> String {
        let output = self.virsh_raw(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "virsh {arguments:?}: {said}");
        let said = String::from_utf8(output.stdout).expect("text");
        said.trim().to_owned()
    }

    /// The first process inside.
    pub(crate) fn first(&self) -> String {
        let pid = self.namespaces.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it runs");
        let first = children.split_whitespace().next();
        first.expect("a child").to_owned()
    }

    /// Runs a program where the daemons are.
    pub(crate) fn inside(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new("nsenter")
            .args(["-t", &self.first(), "-m", "-n", "-p", "--", program])
            .args(arguments)
            .output()
            .expect("nsenter runs")
    }

    /// Runs a domain that somebody else has made, and that has no system. Its name is its id.
    pub(crate) fn add_foreign(&self) -> &'static str {
        let xml = format!(
            "<domain type='qemu'><name>theirs</name><uuid>{FOREIGN}</uuid><memory unit='MiB'>16</memory>\
             <os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
        );
        let file = self.path().join("foreign.xml");
        fs::write(&file, xml).expect("written");
        self.virsh(&["create", file.to_str().expect("text")]);
        FOREIGN
    }

    /// Ends that domain, and tells whether it ran until now.
    pub(crate) fn end_foreign(&self) -> bool {
        let running = self.virsh(&["domstate", FOREIGN]) == "running";
        self.virsh(&["destroy", FOREIGN]);
        running
    }

    /// Fails unless nothing of any machine is left, neither here nor in the folder of machines.
    pub(crate) fn assert_nothing_left(&self, machines: &Path) {
        assert_eq!(self.virsh(&["list", "--all", "--name"]), "");
        let left: Vec<_> = fs::read_dir(machines)
            .expect("a folder")
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
        poll_until(PATIENCE, "no emulator runs", || {
            !self.inside("pgrep", &["qemu-system"]).status.success()
        });
        let saved = self.inside("find", &["/var/lib/libvirt/qemu/save", "-type", "f"]);
        assert_eq!(String::from_utf8_lossy(&saved.stdout), "");
    }
}
