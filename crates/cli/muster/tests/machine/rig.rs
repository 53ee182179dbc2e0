//! Runs `muster machine`, and the node manager that it calls.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use muster_lab::program::{Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// For whatever takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);

pub(crate) const TEMPLATES: &str = "\
name: small
image: debian
cpus: 2
memoryMB: 256
labels: { team: build }
---
name: smaller
extends: small
cpus: 1
";

const MAPPINGS: &str = "\
mapping:
- match: { image: debian }
  overrides:
    sim: { image: 'debian:12' }
";

/// What one run of the program did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// It ended with this code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        let said = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.status.code(), Some(code), "{said}");
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.code(0)
    }

    /// It ended with this code and said these words about it.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Self {
        let run = self.code(code);
        for word in words {
            assert!(run.stderr.contains(word), "no {word:?} in {:?}", run.stderr);
        }
        run
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let run = self.ok();
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
    }
}

/// A folder with a node manager's configuration, and the manager.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    manager: Option<Process>,
    /// What the manager finds in its environment.
    env: Vec<(&'static str, &'static str)>,
}

impl Site {
    /// With the simulated cloud and this machine, and the manager running.
    pub(crate) fn new() -> Self {
        Self::with(json!({}))
    }

    /// The same with other keys of the configuration.
    pub(crate) fn with(changes: Value) -> Self {
        Self::with_env(changes, &[])
    }

    /// The same, and with these variables.
    pub(crate) fn with_env(changes: Value, env: &[(&'static str, &'static str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut site = Self {
            folder,
            manager: None,
            env: env.to_vec(),
        };
        site.write("templates.yaml", TEMPLATES);
        site.write("mappings.yaml", MAPPINGS);
        let mut config = json!({
            "stateDir": "state",
            "socket": "nodemgr.sock",
            "templates": ["templates.yaml"],
            "mappings": ["mappings.yaml"],
            "providers": { "docker": { "enabled": false }, "sim": {}, "local": {} },
            "registry": { "poll": "20ms", "retry": "50ms" },
        });
        for (key, value) in changes.as_object().expect("an object") {
            config[key] = value.clone();
        }
        site.write("nodemgr.json", &config.to_string());
        site.start();
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    pub(crate) fn daemon(&self) -> Program {
        let program = Program::new(muster_fault::test_program("nodemgr_daemon"))
            .arg("--config")
            .arg(self.path("nodemgr.json"))
            .env("DOCKER_HOST", "");
        let variables = self.env.iter();
        variables.fold(program, |program, (name, value)| program.env(name, value))
    }

    pub(crate) fn start(&mut self) {
        let mut process = self.daemon().start().expect("started");
        process.wait_for_line(" ready", TIME).expect("ready");
        self.manager = Some(process);
    }

    /// The manager dies at a point of what is done, and another one goes on.
    pub(crate) fn dies_at(&mut self, point: &str, work: impl FnOnce(&Self)) {
        self.kill();
        let daemon = self.daemon().env("MUSTER_FAULT", point);
        let mut process = daemon.start().expect("started");
        process.wait_for_line(" ready", TIME).expect("ready");
        work(self);
        let status = process.wait(TIME).expect("it dies");
        assert_eq!(status.signal(), Some(9), "{point}");
        self.start();
    }

    /// As a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut manager = self.manager.take().expect("it runs");
        manager.kill9().expect("killed");
    }

    /// The manager loses its records, and another one goes on with the same identity.
    pub(crate) fn lose_records(&mut self) {
        self.kill();
        for name in ["nodemgr.db", "nodemgr.db-wal", "nodemgr.db-shm"] {
            let path = self.path("state").join(name);
            if path.exists() {
                fs::remove_file(path).expect("removed");
            }
        }
        self.start();
        assert_eq!(self.json(&["list", "--all"]), json!([]));
    }

    /// `muster machine`, in this folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command
            .arg("machine")
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("MUSTER_MANAGER", self.path("nodemgr.sock"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[&["-o", "json"], arguments].concat()).json()
    }

    /// A machine of the simulated cloud; its id.
    pub(crate) fn provision(&self, more: &[&str]) -> String {
        let words = [&["provision", "-t", "small", "-p", "sim"], more].concat();
        let machine = self.json(&words);
        machine["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn state(&self, machine: &str) -> String {
        let shown = self.json(&["show", machine]);
        shown["state"].as_str().expect("a state").to_owned()
    }
}

pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().expect("the program runs");
    Run {
        status: output.status,
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
