//! `kill -9` at every fault point: whatever was under way, doing it again finishes it, nothing that was
//! acknowledged is lost, and nothing is left lying around.

use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use muster_fault::{Point, Trial, matrix, test_program};
use muster_keys::FAULT_POINTS;
use muster_lab::pki::{CertSpec, Pki};
use tempfile::TempDir;

/// A node whose processes are killed.
struct Node {
    plugin: &'static str,
    folder: TempDir,
    pki: Pki,
    /// Commands that are left alone before one may be killed: points that every command reaches are
    /// also tried at later ones.
    spared: Cell<usize>,
}

impl Node {
    fn new(plugin: &'static str, spared: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokens = folder.path().join("tokens");
        fs::create_dir(&tokens).expect("the folder of tokens");
        let text = format!(
            "directories.tokendir = {}\nlog.level = ERROR\n",
            tokens.display()
        );
        fs::write(folder.path().join("softhsm2.conf"), text).expect("SoftHSM's configuration");
        // With an intermediate, so that there is an issuer to store.
        let pki = Pki::new("system-1")
            .expect("a root")
            .intermediate()
            .expect("an authority");
        Self {
            plugin,
            folder,
            pki,
            spared: Cell::new(spared),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, trial: Option<&Trial>, command: &[&str], input: &str) -> Output {
        let mut program = Command::new(test_program("keys_flow"));
        program
            .arg(self.plugin)
            .arg(self.folder.path())
            .args(command)
            .env("SOFTHSM2_CONF", self.path("softhsm2.conf"))
            .env_remove("MUSTER_FAULT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(trial) = trial {
            trial.arm(&mut program);
        }
        let mut child = program.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("its standard input");
        // Whoever is killed may not have read everything.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("the program's end");
        match trial {
            Some(trial) if trial.reached() => trial.assert_killed(output.status),
            _ => assert!(
                output.status.success(),
                "{command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
        }
        output
    }

    /// Runs a command until it was not killed, and gives what it said then.
    fn persist(&self, trial: &Trial, command: &[&str], input: &str) -> String {
        let spared = self.spared.get();
        self.spared.set(spared.saturating_sub(1));
        let armed = (spared == 0 && !trial.reached()).then_some(trial);
        let output = self.run(armed, command, input);
        if armed.is_some() && trial.reached() {
            return self.said(command, input);
        }
        String::from_utf8(output.stdout).expect("text")
    }

    fn said(&self, command: &[&str], input: &str) -> String {
        String::from_utf8(self.run(None, command, input).stdout).expect("text")
    }

    fn sign(&self, csr: &str) -> String {
        let spec = CertSpec::node("n1", "sm");
        self.pki.sign_request(csr, &spec).expect("a certificate")
    }

    /// Keys and certificates, as files or objects.
    fn stock(&self) -> usize {
        match self.plugin {
            "file" => count(&self.path("keys")),
            _ => fs::read_dir(self.path("tokens"))
                .expect("the tokens")
                .map(|token| count(&token.expect("a token").path()))
                .sum(),
        }
    }

    /// Files of one key with its certificate.
    fn one(&self) -> usize {
        match self.plugin {
            "file" => 2,
            // Two halves of the key, leaf and issuer.
            _ => 4,
        }
    }
}

fn count(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .filter(|name| {
            let name = name.to_string_lossy();
            name.ends_with(".pem") || (name.ends_with(".object") && name != "token.object")
        })
        .count()
}

/// The whole life: owner, key, another key instead, certificate, a second one that displaces it, clear.
fn life(plugin: &'static str, trial: &Trial, spared: usize) {
    let node = Node::new(plugin, spared);
    node.persist(trial, &["own"], "");
    let abandoned = node.persist(trial, &["key", "one"], "");
    let csr = node.persist(trial, &["key", "two"], "");
    assert_ne!(abandoned, csr);
    assert_eq!(
        node.said(&["key", "two"], ""),
        csr,
        "what was acknowledged is given again"
    );
    let chain = node.sign(&csr);
    let first = node.persist(trial, &["cert"], &chain);
    assert_eq!(node.said(&["newest"], ""), first);
    assert_eq!(node.stock(), node.one());

    let csr = node.persist(trial, &["key", "three"], "");
    assert_eq!(
        node.said(&["newest"], ""),
        first,
        "the old one serves until the new one is there"
    );
    let chain = node.sign(&csr);
    let second = node.persist(trial, &["cert"], &chain);
    assert_ne!(first, second);
    assert_eq!(
        node.said(&["cert"], &chain),
        second,
        "once more changes nothing"
    );
    assert_eq!(node.said(&["newest"], ""), second);
    assert_eq!(
        node.stock(),
        node.one(),
        "the displaced one is gone with its key"
    );

    node.persist(trial, &["clear"], "");
    assert_eq!(node.said(&["newest"], "").trim(), "none");
    assert_eq!(node.stock(), 0);
    for folder in ["index", "keys"] {
        assert_eq!(leftovers(&node.path(folder)), Vec::<PathBuf>::new());
    }
}

/// Killed at the first command that reaches the point, then at ones while a certificate is in use.
fn lives(plugin: &'static str, trial: &Trial, later: &[usize]) {
    life(plugin, trial, 0);
    for spared in later {
        let again = Trial::new(trial.point());
        life(plugin, &again, *spared);
    }
}

fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// Reached only while a token is made.
const OWNING: [&str; 3] = ["keys.pin-recorded", "keys.token-made", "keys.token-owned"];

#[test]
fn keys_in_files_survive_a_kill_at_every_step() {
    let of_files =
        |point: &Point| !OWNING.contains(&point.name()) && point.name() != "keys.issuers-stored";
    let points: Vec<_> = FAULT_POINTS.iter().copied().filter(of_files).collect();
    matrix(&points, |trial| lives("file", trial, &[2, 4, 5, 6]));
}

#[test]
fn keys_in_a_token_survive_a_kill_at_every_step() {
    muster_lab::require!(File("/usr/lib/softhsm/libsofthsm2.so"));
    matrix(FAULT_POINTS, |trial| {
        let once = OWNING.contains(&trial.point().name());
        lives("pkcs11", trial, if once { &[] } else { &[4] });
    });
}
