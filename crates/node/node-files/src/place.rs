//! Where everything of a node is.

use std::path::{Path, PathBuf};

/// The folders of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What it keeps.
    pub dir: PathBuf,
    /// Sockets, and what a reboot takes away.
    pub run: PathBuf,
}

impl Place {
    /// The folder of its unit files.
    #[must_use]
    pub fn units(&self) -> PathBuf {
        self.dir.join("units")
    }

    /// What `sctl` and the Service Manager speak to.
    #[must_use]
    pub fn manager_socket(&self) -> PathBuf {
        self.run.join("io.muster.Manager")
    }

    /// Where its identity manager answers without certificates.
    #[must_use]
    pub fn iam_socket(&self) -> PathBuf {
        self.run.join("iam.sock")
    }

    /// The identity manager's own account of whether the node is a member.
    #[must_use]
    pub fn provisioning_state(&self) -> PathBuf {
        self.dir.join("provisioning-state")
    }

    /// What its init says.
    #[must_use]
    pub fn init_log(&self) -> PathBuf {
        self.run.join("init.log")
    }

    /// The number of its init.
    #[must_use]
    pub fn init_pid(&self) -> PathBuf {
        self.run.join("init.pid")
    }

    /// Its journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// Folders that its programs expect.
    #[must_use]
    pub fn folders(&self) -> [PathBuf; 5] {
        [
            self.run.clone(),
            self.units(),
            self.journal(),
            self.generators(),
            self.dir.join("init"),
        ]
    }

    fn generators(&self) -> PathBuf {
        self.dir.join("generators")
    }

    /// The command of an init beside the machine's own, which boots a unit.
    #[must_use]
    pub fn init_command(&self, programs: &Path, unit: &str, group: Option<&Path>) -> Vec<PathBuf> {
        let mut words = vec![programs.join("muster-init")];
        let fixed = [
            "--supervise",
            "--log-target",
            "stderr",
            "--",
            "--no-kernel-units",
        ];
        words.extend(fixed.map(PathBuf::from));
        let mut option = |name: &str, value: PathBuf| words.extend([name.into(), value]);
        option("--unit", unit.into());
        option("--unit-path", self.units());
        option("--runtime-dir", self.run.clone());
        option("--state-dir", self.dir.join("init"));
        // Generators of the machine are not for a node beside its init.
        option("--generator-path", self.generators());
        if let Some(group) = group {
            option("--cgroup", group.to_owned());
        }
        words
    }
}
