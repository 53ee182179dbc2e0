//! A node in namespaces of its own, and its instances.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use muster_fault::test_program;
use muster_lab::machine::{Binaries, Build};
use muster_lab::net::Host;
use muster_lab::program::{Process, Program};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

/// What a node's run folder is, inside of its own `/run`.
const RUN: &str = "/run/muster";

/// The programs that plugins are, built once for all tests of this process.
pub(crate) fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<Binaries> = OnceLock::new();
    let build = || {
        let programs = [("muster-firewall", "muster-firewall")];
        Binaries::build(Build::Test, &programs, &[]).unwrap()
    };
    PROGRAMS.get_or_init(build).folder()
}

/// A machine: a network and mounts of its own, held by one process, and a disk.
pub(crate) struct Node {
    holder: Process,
    disk: tempfile::TempDir,
    settings: Vec<String>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// A machine on a host's network, with an empty `/run`.
    pub(crate) fn new(host: &Host, settings: &[&str]) -> Self {
        let script = "mount -t tmpfs -o size=8m none /run && ip link set lo up && echo ready && exec sleep 3600";
        let mut holder = Program::new("/usr/bin/unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .on(host)
            .start()
            .unwrap();
        holder
            .wait_for_line("ready", std::time::Duration::from_secs(20))
            .unwrap();
        Self {
            holder,
            disk: tempfile::tempdir().unwrap(),
            settings: settings.iter().map(|it| (*it).to_owned()).collect(),
            running: None,
        }
    }

    /// A command on the machine.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("/usr/bin/nsenter");
        let target = self.holder.pid().to_string();
        command
            .args(["--target", &target, "--mount", "--net", "--"])
            .arg(program);
        command
    }

    /// Runs a shell script on the machine and answers what it printed.
    pub(crate) fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The daemon's command, for whoever wants to change its environment.
    pub(crate) fn daemon(&self) -> Command {
        let mut command = self.command(test_program("network_node"));
        command
            .arg(self.disk.path().join("sm.db"))
            .arg(RUN)
            .arg(programs())
            .args(&self.settings);
        command
    }

    /// Starts the daemon and waits until it takes requests.
    pub(crate) fn start(&mut self) {
        let command = self.daemon();
        self.start_with(command);
        assert_eq!(self.answer().unwrap(), json!("ready"));
    }

    pub(crate) fn start_with(&mut self, mut command: Command) {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        self.running = Some(Running {
            child,
            input,
            output,
        });
    }

    /// Waits for the daemon's end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut running = self.running.take().unwrap();
        drop(running.input);
        running.child.wait().unwrap()
    }

    /// Ends the daemon as it ends when it crashes.
    pub(crate) fn kill(&mut self) {
        let mut running = self.running.take().unwrap();
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Takes the database away from a daemon that does not run.
    pub(crate) fn lose_database(&self) {
        for file in std::fs::read_dir(self.disk.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }

    /// Sends a request; whether there is anybody to take it is seen by the answer.
    pub(crate) fn send(&mut self, request: &Value) {
        let running = self.running.as_mut().unwrap();
        // A daemon that was killed takes nothing.
        let _ = writeln!(running.input, "{request}");
    }

    /// `Err` with the daemon's words, or `"gone"` when it ended.
    pub(crate) fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let running = self.running.as_mut().unwrap();
        if running.output.read_line(&mut line).unwrap_or(0) == 0 {
            return Err("gone".to_owned());
        }
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Result<Value, String> {
        self.send(request);
        self.answer()
    }

    pub(crate) fn update(&mut self, networks: Value) -> Result<Value, String> {
        self.ask(&json!({"update": networks}))
    }

    pub(crate) fn attach(&mut self, instance: &Value) -> Instance {
        let answer = self.ask(&json!({"attach": instance})).unwrap();
        self.instance(answer["namespace"].as_str().unwrap(), &answer)
    }

    pub(crate) fn detach(&mut self, item: &str) {
        self.ask(&json!({"detach": item})).unwrap();
    }

    /// A namespace of this machine, by the name that it has there.
    fn instance(&self, namespace: &str, answer: &Value) -> Instance {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        let path = root.join(namespace.trim_start_matches('/'));
        Instance {
            namespace: File::open(path).unwrap(),
            address: answer["address"].as_str().unwrap().parse().unwrap(),
            answer: answer.clone(),
        }
    }

    /// The machine's own network.
    pub(crate) fn network(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.pid()))
    }

    /// Everything of the machine that networks may change, one fact per line.
    pub(crate) fn facts(&self) -> Facts {
        // Names of pairs are random, sets have no order, and whether a bridge has ports is told by the ports.
        let script = r"
            ip -o link | sed -E 's/^[0-9]+: //; s/@if[0-9]+/@/; s/veth[0-9a-f]{8}/veth/; s/: <.*//'
            ip -o -4 address | sed -E 's/^[0-9]+: //'
            ip route show table main | sed 's/ linkdown//'
            nft -s list ruleset | tr ',' '\n' | sed -E 's/^[[:space:]]*//; s/elements = [{] //; s/ [}]$//; /^[}]?$/d'
            find /run -type f -not -name '*.lock' -not -path '/run/mount/*'
            grep ' /run/' /proc/self/mountinfo | cut -d' ' -f5 | sed 's/^/mounted: /'
        ";
        let mut facts: Vec<String> = self.sh(script).lines().map(str::to_owned).collect();
        facts.sort_unstable();
        Facts(facts)
    }

    /// The machine's facts without the packet filter's foundations, which stay for the next network.
    pub(crate) fn facts_without_foundations(&self) -> Facts {
        self.sh("nft delete table inet muster 2>/dev/null || true");
        self.facts()
    }
}

/// The state of a machine, for comparison.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Facts(Vec<String>);

impl Facts {
    pub(crate) fn contain(&self, part: &str) -> bool {
        self.0.iter().any(|fact| fact.contains(part))
    }

    #[track_caller]
    pub(crate) fn assert_same(&self, expected: &Self, what: &str) {
        let only = |these: &Self, those: &Self| {
            let mut rest = those.0.clone();
            let absent =
                these
                    .0
                    .iter()
                    .filter(|fact| match rest.iter().position(|it| it == *fact) {
                        Some(at) => {
                            rest.swap_remove(at);
                            false
                        }
                        None => true,
                    });
            absent.cloned().collect::<Vec<_>>()
        };
        let (more, less) = (only(self, expected), only(expected, self));
        assert!(
            more.is_empty() && less.is_empty(),
            "{what}: too much: {more:#?}, too little: {less:#?}"
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            // It may have ended already.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// An instance: a place from which connections can be made.
pub(crate) struct Instance {
    namespace: File,
    pub(crate) address: std::net::Ipv4Addr,
    pub(crate) answer: Value,
}

impl Instance {
    /// Runs in a thread inside of the instance's network.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        in_network(&self.namespace, work)
    }
}

/// Runs in a thread inside of a network namespace: namespaces belong to threads, and this one ends.
pub(crate) fn in_network<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The list of networks that most tests use.
pub(crate) fn two_networks() -> Value {
    json!([
        {"id": "front", "subnet": "172.17.0.0/16", "ip": "172.17.0.1"},
        {"id": "back", "subnet": "172.18.0.0/16", "ip": "172.18.0.1"},
    ])
}

/// An instance of one of these networks.
pub(crate) fn member(item: &str, network: &str, last: u8) -> Value {
    let second = if network == "front" { 17 } else { 18 };
    json!({
        "item": item,
        "network": network,
        "subnet": format!("172.{second}.0.0/16"),
        "ip": format!("172.{second}.0.{last}"),
    })
}
