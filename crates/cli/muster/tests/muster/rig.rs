//! Runs `muster`, and the identity manager that it calls.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use muster_lab::program::{Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// For whatever takes a moment, on a machine that may be busy.
const TIME: Duration = Duration::from_secs(60);

/// What one run of the program did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(
            self.status.code(),
            Some(0),
            "{}{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// It ended with this code and said these words about it, on one line.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{}{}",
            self.stdout,
            self.stderr
        );
        let last = self.stderr.lines().last().unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "no {word:?} in {last:?}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let run = self.ok();
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
    }
}

/// A folder with an authority in it, for any number of commands.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    /// With the authority of system `unit-7`.
    pub(crate) fn new() -> Self {
        let site = Self::empty();
        site.run(&["pki", "init", "--system-id", "unit-7"]).ok();
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `muster`, in this folder, with the authority in `pki` and nothing else from the environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("MUSTER_PKI_DIR", self.path("pki"))
            .env("MUSTER_IAM", self.path("iam.sock"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Starts the identity manager of node `main`, unprovisioned, with key types `iam` and `sm` in files.
    pub(crate) fn iam(&self) -> Daemon {
        self.iam_with(json!({}))
    }

    /// The same with other keys of its configuration.
    pub(crate) fn iam_with(&self, changes: Value) -> Daemon {
        let module = |id: &str| {
            json!({
                "id": id, "plugin": "swmodule", "maxItems": 2,
                "extendedKeyUsage": ["clientAuth", "serverAuth"],
                "alternativeNames": ["main.plant"],
                "params": { "storagePath": self.path(&format!("keys-{id}")) },
            })
        };
        fs::write(self.path("node-id"), "main").expect("written");
        fs::write(self.path("system-id"), "unit-7").expect("written");
        let mut config = json!({
            "publicServerUrl": "127.0.0.1:0",
            "protectedServerUrl": "127.0.0.1:0",
            "caCert": self.path("pki/root.crt.pem"),
            "certRevocationLists": [self.path("pki/crl.pem")],
            "workingDir": self.path("work"),
            "localSocket": self.path("iam.sock"),
            "nodeInfo": {
                "nodeIDPath": self.path("node-id"),
                "provisioningStatePath": self.path("state"),
                "nodeType": "test",
                "maxDMIPS": 1000,
            },
            "identifier": { "plugin": "file", "params": { "systemIDPath": self.path("system-id") } },
            "certModules": [module("iam"), module("sm")],
        });
        for (key, value) in changes.as_object().expect("an object") {
            config[key] = value.clone();
        }
        fs::write(self.path("iam.json"), config.to_string()).expect("written");
        let program = Program::new(muster_fault::test_program("iam_daemon"))
            .arg("--config")
            .arg(self.path("iam.json"));
        let mut process = program.start().expect("started");
        process.wait_for_line(" ready", TIME).expect("ready");
        Daemon { process }
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

/// A running identity manager; it ends with the value.
pub(crate) struct Daemon {
    process: Process,
}

impl Daemon {
    /// Where the protected port listens, once it does so with TLS.
    pub(crate) fn protected(&mut self) -> SocketAddr {
        const OPEN: &str = "open port=protected port address=";
        let line = self
            .process
            .wait_for_line(OPEN, TIME)
            .expect("an open port");
        let (_, rest) = line.text.split_once("address=").expect("an address");
        let address = rest.split_whitespace().next().expect("an address");
        address.parse().expect("an address")
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).expect("the file").permissions().mode() & 0o777
}

/// Waits for something that another process does.
#[track_caller]
pub(crate) fn until(what: &str, is: impl Fn() -> bool) {
    muster_lab::poll_until(TIME, what, is);
}
