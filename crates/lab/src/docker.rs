//! Docker's engine: the real one, in namespaces for processes, mounts and the network, with a folder and control groups that
//! go when it goes.
//!
//! [`Docker::start`] gives an engine that answers and has one image, [`IMAGE`]: busybox under all its names, a shell that finds
//! programs where they are, and the users `root`, `worker` and `nobody`. [`Docker::cli`] is Docker's own client, for a second
//! opinion, and [`Docker::traces`] is everything that containers leave in an engine. A test that wants one begins with
//! [`require_docker!`](crate::require_docker).

mod groups;
mod root;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use self::groups::Group;
use crate::command::run_tool;
use crate::program::{Process, Program, ProgramError};

pub use crate::command::ToolError;

/// The image that every engine has.
pub const IMAGE: &str = "box";

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// `/run` is its own too: that is where an engine, its network and its containers' runtime leave traces.
const START: &str = r#"set -e
mount -t tmpfs tmpfs /run
ip link set lo up
exec dockerd --host "unix://$1/docker.sock" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/docker.pid" \
  --bip 10.213.0.1/24 --userland-proxy=false --cgroup-parent "/$2" --shutdown-timeout 1"#;

/// What went wrong with an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DockerError {
    /// A file of its folder or image could not be made.
    #[error("cannot prepare {} for an engine", path.display())]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// A tool that its image is made with failed.
    #[error("cannot make the engine's image")]
    Image(#[source] ToolError),
    /// Its program failed.
    #[error("the engine's program failed")]
    Program(#[source] ProgramError),
    /// Docker's client failed.
    #[error("docker's client failed")]
    Client(#[source] ToolError),
    /// It could not be looked at from outside.
    #[error("cannot look at the engine's mounts")]
    Mounts(#[source] io::Error),
    /// Its network could not be looked at.
    #[error("cannot look at the engine's links")]
    Links(#[source] ToolError),
}

fn unprepared(path: &Path) -> impl FnOnce(io::Error) -> DockerError {
    let path = path.to_owned();
    move |source| DockerError::Prepare { path, source }
}

/// An engine that answers. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Docker {
    process: Process,
    group: Group,
    folder: TempDir,
}

/// What an engine has, as far as containers leave traces in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces {
    containers: BTreeSet<String>,
    volumes: BTreeSet<String>,
    networks: BTreeSet<String>,
    mounts: BTreeSet<String>,
    links: BTreeSet<String>,
    groups: BTreeSet<PathBuf>,
}

impl Docker {
    /// Starts an engine, and gives it its image.
    ///
    /// # Errors
    /// When it does not come to answer, or does not take the image.
    pub fn start() -> Result<Self, DockerError> {
        groups::sweep();
        let folder = tempfile::tempdir().map_err(unprepared(&std::env::temp_dir()))?;
        let group = Group::new();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = format!("{}:/usr/sbin:/sbin", path.to_string_lossy());
        let namespaces = ["--mount", "--net", "--pid", "--mount-proc"];
        let process = Program::new("unshare")
            .args(namespaces)
            .args(["--fork", "--kill-child", "sh", "-c", START, "sh"])
            .arg(folder.path())
            .arg(group.name())
            .env("PATH", path)
            .start();
        let mut docker = Self {
            process: process.map_err(DockerError::Program)?,
            group,
            folder,
        };
        let answers = docker.process.wait_for_line("API listen on", PATIENCE);
        answers.map_err(DockerError::Program)?;
        let archive = docker.folder.path().join("image.tar");
        fs::write(&archive, root::archive()?).map_err(unprepared(&archive))?;
        docker.cli(&["import", &archive.to_string_lossy(), IMAGE])?;
        fs::remove_file(&archive).map_err(unprepared(&archive))?;
        Ok(docker)
    }

    /// The socket on which it answers.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    /// The same as clients write it: `unix://PATH`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A program that works in the engine's network.
    #[must_use]
    pub fn in_network(&self, program: &str) -> Program {
        let target = self.pid().to_string();
        Program::new("nsenter").args(["--net", "--target", &target, "--", program])
    }

    /// The engine itself: the one child of what made its namespaces.
    fn pid(&self) -> i32 {
        let pid = self.process.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let child = children.split_whitespace().next();
        child.and_then(|it| it.parse().ok()).unwrap_or(pid)
    }

    /// What Docker's own client says.
    ///
    /// # Errors
    /// When it fails, with what it complained about.
    pub fn cli(&self, words: &[&str]) -> Result<String, DockerError> {
        let mut command = Command::new("docker");
        command
            .args(words)
            .env("DOCKER_HOST", self.host())
            .env("DOCKER_CONFIG", self.folder.path().join("config"));
        let said = run_tool(&mut command, "").map_err(DockerError::Client)?;
        Ok(said.trim().to_owned())
    }

    fn lines(&self, words: &[&str]) -> Result<BTreeSet<String>, DockerError> {
        let said = self.cli(words)?;
        Ok(said.lines().map(ToOwned::to_owned).collect())
    }

    /// The ids of all containers, running or not, that a filter of the client's lets through: `label=NAME`.
    ///
    /// # Errors
    /// When the client fails.
    pub fn containers(&self, filter: Option<&str>) -> Result<BTreeSet<String>, DockerError> {
        let mut words = vec!["ps", "--all", "--quiet", "--no-trunc"];
        words.extend(filter.into_iter().flat_map(|it| ["--filter", it]));
        self.lines(&words)
    }

    /// Everything that containers leave.
    ///
    /// # Errors
    /// When the client fails, or the engine has ended.
    pub fn traces(&self) -> Result<Traces, DockerError> {
        let pid = self.pid().to_string();
        let mounts = fs::read_to_string(format!("/proc/{pid}/mounts"));
        let mounts = mounts.map_err(DockerError::Mounts)?;
        let mut links = Command::new("nsenter");
        links.args(["--net", "--target", &pid, "ip", "-o", "link"]);
        let links = run_tool(&mut links, "").map_err(DockerError::Links)?;
        // Their numbers only grow.
        let name = |line: &str| line.split(": ").nth(1).unwrap_or(line).to_owned();
        Ok(Traces {
            containers: self.containers(None)?,
            volumes: self.lines(&["volume", "ls", "--quiet"])?,
            networks: self.lines(&["network", "ls", "--quiet", "--no-trunc"])?,
            mounts: mounts.lines().map(ToOwned::to_owned).collect(),
            links: links.lines().map(name).collect(),
            groups: self.group.below(),
        })
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        // Its first process takes everything in its namespaces along, and is gone only when that is.
        if let Some(pid) = Pid::from_raw(self.pid()) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.process.wait(PATIENCE);
    }
}

/// [`require!`](crate::require) with what [`Docker`](crate::docker::Docker) needs, and whatever is given beside it.
#[macro_export]
macro_rules! require_docker {
    ($($need:expr),* $(,)?) => {
        $crate::require!(
            Root,
            File("/usr/sbin/dockerd"),
            Tool("docker"),
            Tool("ldd"),
            File("/bin/busybox")
            $(, $need)*
        )
    };
}
