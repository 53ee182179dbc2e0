//! A machine with Muster's programs on it, on which an operator brings a Unit up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_lab::machine::{Binaries, Build, CommandOutput, Machine, MachineBuilder};
use muster_lab::program::Process;
use muster_lab::{muster, try_poll_for};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// For whatever takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
/// Where the Unit keeps what shall run.
pub(crate) const DESIRED: &str = "/var/lib/muster/demo/desired.yaml";

const PROGRAMS: &[(&str, &str)] = &[
    ("muster-init", "muster-init"),
    ("muster-core", "muster-core"),
    ("muster-logd", "muster-logd"),
    ("muster-buswatch", "muster-buswatch"),
    ("muster-exec", "muster-exec"),
    ("muster-sctl", "sctl"),
    ("muster-iam", "muster-iam"),
    ("muster-cm", "muster-cm"),
    ("muster-sm", "muster-sm"),
    ("muster-runtime-container", "muster-container"),
    ("muster-runtime-native", "muster-native-exec"),
    ("muster-firewall", "muster-firewall"),
    ("muster-nodemgr", "muster-nodemgr"),
];
const DEMO: [&str; 2] = ["web", "worker"];
/// Names of the demo's processes, as the kernel cuts them.
const DEMO_PROCESSES: [&str; 2] = ["muster-demo-web", "muster-demo-wor"];
const DAEMONS: [&str; 5] = [
    "muster-sm",
    "muster-cm",
    "muster-iam",
    "muster-core",
    "muster-logd",
];

/// As an operator would: from a shell that is in a group of the machine.
const SHELL: [&str; 7] = [
    "sctl",
    "run",
    "--wait",
    "--pipe",
    "--quiet",
    "--collect",
    "--",
];

/// Everything that could be left behind, a line each. What the machine's own init and mount(8) keep is theirs; of the host's
/// files, which others change meanwhile, only the places are looked at that a Unit or a container plugin could write to.
const LOOK: &str = r#"
ip -o link | sed 's/^[0-9]*: /link /'
ip -o addr | sed 's/^[0-9]*: /address /'
ip route show table all | sed 's/^/route /'
nft list ruleset | sed 's/^/rule /'
sed 's/^/forwarding /' /proc/sys/net/ipv4/ip_forward
cut -d' ' -f5 /proc/1/mountinfo | sed 's/^/mount /'
find /sys/fs/cgroup -type d -path '*muster-demo*' | sed 's/^/group /'
find /run /tmp /home /etc/muster /etc/cni /var/lib/muster /var/lib/cni /var/cache/muster -xdev 2>/dev/null \
    | grep -v -e '^/run/log/' -e '^/run/systemd/' -e '^/run/mount' -e '^/run/muster/units' | sed 's/^/file /'
"#;

/// Everything that is installed.
pub(crate) struct Programs {
    demo: TempDir,
    others: Binaries,
}

pub(crate) struct Site {
    machine: Machine,
    _programs: Programs,
}

/// The demo's programs, linked statically, as `make up` builds them.
fn demo_programs(folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/demo/src/bin");
    for name in DEMO {
        let built = Command::new("rustc")
            .args([
                "--edition",
                "2024",
                "-C",
                "target-feature=+crt-static",
                "-C",
                "strip=symbols",
            ])
            .arg(sources.join(name).with_extension("rs"))
            .arg("-o")
            .arg(folder.join(format!("muster-demo-{name}")))
            .output()
            .expect("rustc runs");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
    }
}

impl Programs {
    pub(crate) fn build() -> Self {
        let demo = tempfile::tempdir().expect("a folder");
        demo_programs(demo.path());
        let features = [
            "muster-core/fault-points",
            "muster-sm/fault-points",
            "muster-cm/fault-points",
        ];
        let others = Binaries::build(Build::Test, PROGRAMS, &features).expect("programs");
        Self { demo, others }
    }

    /// Puts the command line and the demo where packages install them.
    fn show(&self, builder: MachineBuilder) -> MachineBuilder {
        let builder = builder.bind(env!("CARGO_BIN_EXE_muster"), "/usr/bin/muster");
        DEMO.iter().fold(builder, |builder, name| {
            let name = format!("muster-demo-{name}");
            let inside = Path::new("/usr/lib/muster").join(&name);
            builder.bind(self.demo.path().join(&name), inside)
        })
    }

    /// All of them in one folder, as a build leaves them.
    pub(crate) fn copy_to(&self, folder: &Path) {
        let others = PROGRAMS.iter().map(|(_, name)| self.others.path(name));
        let demo = DEMO.map(|name| self.demo.path().join(format!("muster-demo-{name}")));
        let muster = PathBuf::from(env!("CARGO_BIN_EXE_muster"));
        for program in others.chain(demo).chain([muster]) {
            let name = program.file_name().expect("a name");
            fs::copy(&program, folder.join(name)).expect("a copy");
        }
    }
}

impl Site {
    pub(crate) fn boot() -> Self {
        Self::boot_with(Programs::build(), &[])
    }

    /// A machine that has these folders of the host, too.
    pub(crate) fn boot_with(programs: Programs, folders: &[(&Path, &str)]) -> Self {
        let builder = muster::machine(&programs.others).hybrid_cgroups();
        let builder = folders.iter().fold(programs.show(builder), |it, folder| {
            it.bind(folder.0, folder.1)
        });
        let machine = muster::boot(&builder, TIME).expect("it boots");
        Self {
            machine,
            _programs: programs,
        }
    }

    pub(crate) fn muster(&self, words: &[&str]) -> CommandOutput {
        let command = ["muster"].iter().chain(words);
        self.machine
            .run_within(2 * TIME, command)
            .expect("a command")
    }

    /// Any command, however it ends.
    pub(crate) fn command(&self, words: &[&str]) -> CommandOutput {
        self.command_within(2 * TIME, words)
    }

    pub(crate) fn command_within(&self, time: Duration, words: &[&str]) -> CommandOutput {
        let done = self.machine.run_within(time, words);
        done.expect("a command")
    }

    /// A command that goes on for a while.
    pub(crate) fn begin(&self, words: &[&str]) -> Process {
        self.machine.program(words).start().expect("it starts")
    }

    /// Signals the operator's command, whatever it is doing.
    pub(crate) fn signal_muster(&self, signal: Signal) {
        let number = signal.as_raw().to_string();
        self.machine_ok(&["pkill", &format!("-{number}"), "-x", "muster"]);
    }

    pub(crate) fn kill_muster(&self) {
        self.signal_muster(Signal::KILL);
    }

    #[track_caller]
    pub(crate) fn machine_ok(&self, words: &[&str]) -> String {
        let done = self.machine.run(words).expect("a command");
        assert!(
            done.status.success(),
            "{words:?}: {}{}",
            done.stdout,
            done.stderr
        );
        done.stdout
    }

    pub(crate) fn try_up(&self, words: &[&str]) -> CommandOutput {
        self.try_up_with("muster", words)
    }

    /// With another command line than the one that is in the path.
    pub(crate) fn try_up_with(&self, muster: &str, words: &[&str]) -> CommandOutput {
        self.command(&[SHELL.as_slice(), &[muster, "up"], words].concat())
    }

    pub(crate) fn begin_up(&self, words: &[&str]) -> Process {
        self.begin_in_group(&[&["muster", "up"], words].concat())
    }

    /// A command that goes on for a while, in a group of the machine, where it may have groups of its own.
    pub(crate) fn begin_in_group(&self, words: &[&str]) -> Process {
        self.begin(&[SHELL.as_slice(), words].concat())
    }

    #[track_caller]
    pub(crate) fn up(&self, words: &[&str]) -> String {
        let done = self.try_up(words);
        assert!(
            done.status.success(),
            "{}{}\n{}",
            done.stdout,
            done.stderr,
            self.why()
        );
        done.stdout
    }

    #[track_caller]
    pub(crate) fn down(&self) {
        let done = self.muster(&["down"]);
        assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    }

    pub(crate) fn journal(&self, folder: &str) -> String {
        let words = [
            "journalctl",
            "--no-pager",
            "-q",
            "-o",
            "cat",
            "-n",
            "40",
            "-D",
            folder,
        ];
        let listed = self.machine.run(words);
        listed.map_or_else(|error| error.to_string(), |it| it.stdout)
    }

    /// What the daemons said, for a test that has failed.
    fn why(&self) -> String {
        let mut said = String::new();
        for node in ["main", "second"] {
            let folder = format!("/var/lib/muster/demo/{node}/journal");
            said.push_str(&format!("--- {node}\n{}", self.journal(&folder)));
        }
        said
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Option<Vec<Value>> {
        let done = self.muster(&[words, &["-o", "json"]].concat());
        serde_json::from_str(&done.stdout).ok()
    }

    /// None while nobody answers.
    pub(crate) fn instances(&self) -> Vec<Value> {
        self.json(&["get", "instances"]).unwrap_or_default()
    }

    pub(crate) fn is_connected(&self, node: &str) -> bool {
        let nodes = self.json(&["get", "nodes"]).unwrap_or_default();
        nodes
            .iter()
            .any(|it| it["id"] == node && it["connected"] == true)
    }

    /// Both nodes are connected, and everything is active.
    pub(crate) fn is_well(&self) -> bool {
        let instances = self.instances();
        self.is_connected("main")
            && self.is_connected("second")
            && !instances.is_empty()
            && instances.iter().all(|it| it["state"] == "active")
    }

    /// What an instance of the web service answers; nothing while it does not.
    pub(crate) fn curl(&self, web: &Value) -> String {
        let url = format!(
            "http://{}:8080/",
            web["address"].as_str().unwrap_or_default()
        );
        let done = self
            .machine
            .run(["curl", "--silent", "--show-error", "--max-time", "5", &url]);
        done.expect("a command").stdout
    }

    /// Everything that the nodes' instances wrote.
    pub(crate) fn worker_log(&self) -> String {
        let done = self.muster(&["logs", "worker"]);
        done.stdout
    }

    pub(crate) fn pids_of(&self, name: &str) -> BTreeSet<i32> {
        // The machine's own init has a core and a log daemon, too.
        let processes = self.machine.processes().expect("a list");
        let of_unit = processes
            .into_iter()
            .filter(|it| it.name == name && !it.zombie && it.cgroup.contains("muster-demo-"));
        of_unit.map(|it| it.pid).collect()
    }

    pub(crate) fn demo_pids(&self) -> BTreeMap<&'static str, BTreeSet<i32>> {
        let listed = |name: &'static str| {
            let pids = self
                .machine
                .run(["pgrep", "-x", name])
                .expect("a list")
                .stdout;
            let pids = pids.lines().map(|it| it.parse().expect("a pid")).collect();
            (name, pids)
        };
        DEMO_PROCESSES.map(listed).into()
    }

    pub(crate) fn daemon_pids(&self) -> BTreeMap<&'static str, BTreeSet<i32>> {
        DAEMONS.map(|name| (name, self.pids_of(name))).into()
    }

    pub(crate) fn init_of(&self, node: &str) -> i32 {
        let noted = self.read(&format!("/run/muster/{node}/init.pid"));
        noted.trim().parse().expect("a pid")
    }

    pub(crate) fn kill9(&self, pid: i32) {
        self.machine_ok(&["kill", "-9", &pid.to_string()]);
    }

    /// Has a daemon end at once whenever it is started, on every node.
    pub(crate) fn break_program(&self, name: &str) {
        let path = format!("/usr/lib/muster/{name}");
        self.machine_ok(&["mv", &path, &format!("{path}.whole")]);
        self.machine_ok(&["cp", "/bin/false", &path]);
    }

    pub(crate) fn mend_program(&self, name: &str) {
        let path = format!("/usr/lib/muster/{name}");
        self.machine_ok(&["mv", &format!("{path}.whole"), &path]);
    }

    /// The Main Node's end of the link to the second.
    pub(crate) fn link(&self) -> String {
        let links = self.machine_ok(&["sh", "-c", "ls /sys/class/net | grep '^mu.*l$'"]);
        links.trim().to_owned()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        self.machine.read(path).expect("a file")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        self.machine.write(path, text).expect("it is written");
    }

    pub(crate) fn edit_desired(&self, from: &str, to: &str) {
        let text = self.read(DESIRED);
        assert!(text.contains(from), "{text}");
        fs::write(self.machine.path(DESIRED), text.replace(from, to)).expect("it is written");
    }

    /// Everything that could be left behind.
    pub(crate) fn picture(&self) -> BTreeSet<String> {
        let processes = self.machine.processes().expect("a list");
        let processes = processes.iter().map(|it| format!("process {}", it.name));
        let look = self.machine_ok(&["sh", "-c", LOOK]);
        processes.chain(look.lines().map(str::to_owned)).collect()
    }

    /// What was there before is there, and nothing else.
    #[track_caller]
    pub(crate) fn assert_as(&self, before: &BTreeSet<String>) {
        let now = self.picture();
        let left: Vec<&String> = now.difference(before).collect();
        let lost: Vec<&String> = before.difference(&now).collect();
        assert!(
            left.is_empty() && lost.is_empty(),
            "left behind: {left:#?}, lost: {lost:#?}"
        );
    }

    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        what: &str,
        time: Duration,
        mut holds: impl FnMut(&Self) -> bool,
    ) {
        let held = try_poll_for(time, || holds(self).then_some(()));
        if held.is_none() {
            let instances = self.muster(&["get", "instances"]);
            let nodes = self.muster(&["get", "nodes"]);
            panic!(
                "not within {time:?}: {what}\n{}{}{}{}\n{}",
                instances.stdout,
                instances.stderr,
                nodes.stdout,
                nodes.stderr,
                self.why()
            );
        }
    }
}
