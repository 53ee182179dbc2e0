//! What the end-to-end tests share: roots in temporary folders, and both programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The exit code.
    pub(crate) code: i32,
    /// Answers.
    pub(crate) stdout: String,
    /// Remarks.
    pub(crate) stderr: String,
}

/// Runs a program in a folder, in UTC and without colours.
pub(crate) fn run(program: &str, words: &[&str], folder: &Path) -> Outcome {
    run_in_zone(program, words, folder, "UTC")
}

/// The same in another time zone.
pub(crate) fn run_in_zone(program: &str, words: &[&str], folder: &Path, zone: &str) -> Outcome {
    let output = Command::new(program)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", zone)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The program under test.
pub(crate) const SCTL: &str = env!("CARGO_BIN_EXE_sctl");

/// A system in a temporary folder, gone when dropped.
pub(crate) struct Root(tempfile::TempDir);

impl Root {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in it.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file and the folders above it.
    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let place = self.at(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
        self
    }

    /// Makes a link and the folders above it.
    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        let place = self.at(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, place).unwrap();
        self
    }

    /// Runs `sctl` on it.
    pub(crate) fn sctl(&self, words: &[&str]) -> Outcome {
        let root = format!("--root={}", self.path().display());
        let mut all = vec![root.as_str()];
        all.extend(words);
        self.hide(run(SCTL, &all, self.path()))
    }

    /// Replaces the temporary folder's name, which differs from run to run.
    pub(crate) fn hide(&self, outcome: Outcome) -> Outcome {
        let name = self.path().display().to_string();
        Outcome {
            code: outcome.code,
            stdout: outcome.stdout.replace(&name, "ROOT"),
            stderr: outcome.stderr.replace(&name, "ROOT"),
        }
    }

    /// Makes /etc and /run those of another root.
    pub(crate) fn copy_changes_of(&self, other: &Root) {
        for top in ["etc", "run"] {
            let _ = fs::remove_dir_all(self.at(top));
            if other.at(top).exists() {
                let status = Command::new("cp")
                    .arg("-a")
                    .arg(other.at(top))
                    .arg(self.at(top))
                    .status();
                assert!(status.unwrap().success(), "cp failed");
            }
        }
    }

    /// Every link with its target, and every folder below /etc and /run.
    pub(crate) fn tree(&self) -> BTreeMap<String, String> {
        let mut tree = BTreeMap::new();
        for top in ["etc", "run"] {
            walk(&self.at(top), self.path(), &mut tree);
        }
        tree
    }
}

fn walk(folder: &Path, root: &Path, tree: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if let Ok(target) = fs::read_link(&path) {
            tree.insert(name, format!("-> {}", target.display()));
        } else if path.is_dir() {
            walk(&path, root, tree);
            tree.insert(name, "folder".to_owned());
        } else {
            tree.insert(name, "file".to_owned());
        }
    }
}

/// A system with one unit of every sort that enabling treats differently.
pub(crate) fn sample() -> Root {
    let root = Root::new();
    let lib = |name: &str, text: &str| {
        root.write(&format!("lib/systemd/system/{name}"), text);
    };
    let service = |install: &str| format!("[Service]\nExecStart=/bin/true\n[Install]\n{install}");
    fs::create_dir_all(root.at("etc/systemd/system")).unwrap();
    for target in ["multi-user", "graphical", "rescue", "sockets", "timers"] {
        lib(
            &format!("{target}.target"),
            "[Unit]\nDescription=A target\n",
        );
    }
    root.link("lib/systemd/system/default.target", "graphical.target");
    lib("a.service", &service("WantedBy=multi-user.target\n"));
    lib(
        "aliased.service",
        &service("Alias=other.service\nWantedBy=multi-user.target\n"),
    );
    lib(
        "required.service",
        &service("RequiredBy=multi-user.target rescue.target\n"),
    );
    lib("plain.service", "[Service]\nExecStart=/bin/true\n");
    lib("also.service", &service("Also=a.service also.socket\n"));
    lib(
        "also.socket",
        "[Socket]\nListenStream=/run/x\n[Install]\nWantedBy=sockets.target\n",
    );
    lib(
        "also-missing.service",
        &service("WantedBy=multi-user.target\nAlso=missing.service\n"),
    );
    lib(
        "also-template.service",
        &service("WantedBy=multi-user.target\nAlso=t@.service\n"),
    );
    lib("nowhere.service", &service("WantedBy=nowhere.target\n"));
    lib("t@.service", &service("WantedBy=multi-user.target\n"));
    lib(
        "d@.service",
        &service("WantedBy=multi-user.target\nDefaultInstance=one\n"),
    );
    lib("ta@.service", &service("Alias=tb@.service\n"));
    lib("spec@.service", &service("WantedBy=%i.target\n"));
    lib("badalias.service", &service("Alias=badalias.socket\n"));
    lib("badname.service", &service("WantedBy=no/name.target\n"));
    lib(
        "broken.service",
        "[Service]\nthis is not an assignment\n[Install]\nWantedBy=multi-user.target\n",
    );
    lib("empty.service", "");
    root.link("lib/systemd/system/vendor-alias.service", "a.service");
    root.link("lib/systemd/system/vendor-masked.service", "/dev/null");
    lib("wanted.service", "[Service]\nExecStart=/bin/true\n");
    root.link(
        "lib/systemd/system/multi-user.target.wants/wanted.service",
        "../wanted.service",
    );
    root.write(
        "etc/systemd/system/local.service",
        &service("WantedBy=multi-user.target\n"),
    );
    root.write(
        "etc/systemd/system/a.service.d/local.conf",
        "[Unit]\nDescription=x\n",
    );
    root.write(
        "opt/elsewhere.service",
        &service("WantedBy=multi-user.target\n"),
    );
    root.write(
        "opt/static-elsewhere.service",
        "[Service]\nExecStart=/bin/true\n",
    );
    root.write(
        "lib/systemd/system-preset/50-x.preset",
        "enable a.service\nenable d@.service x y\ndisable aliased.service\nenable also.*\nenable t@.service\ndisable *\n",
    );
    root
}

/// Whether systemd 252's tools are there to compare with.
pub(crate) fn have_real_tools() -> bool {
    let have = |name: &str| Path::new("/usr/bin").join(name).exists();
    let version = || run("systemctl", &["--version"], Path::new("/")).stdout;
    have("systemctl")
        && have("systemd-analyze")
        && have("systemd-escape")
        && version().starts_with("systemd 252")
}
