//! `muster-init` with the fake core, and what tests do to them.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_lab::program::{Mark, Process, Program};
use muster_lab::{poll_for, poll_until};
use tempfile::TempDir;

/// For everything that should take milliseconds, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(20);

/// The program under test.
pub(crate) fn init_program() -> PathBuf {
    env!("CARGO_BIN_EXE_muster-init").into()
}

/// The core that does as it is told.
pub(crate) fn fake_core() -> PathBuf {
    init_program().with_file_name("examples").join("fake-core")
}

/// An init that supervises a fake core.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) init: Process,
    /// Lines before this one do not count.
    mark: Option<Mark>,
}

impl Rig {
    /// With options of init.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_program(&init_program(), &fake_core(), options)
    }

    /// With programs of the test's own.
    pub(crate) fn start_program(init: &Path, core: &Path, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::new(init)
            .arg("--supervise")
            .arg("--core")
            .arg(core)
            .args(options)
            .arg("--")
            .arg(folder.path());
        Self::start_as(folder, &program)
    }

    /// By another command line.
    pub(crate) fn start_as(folder: TempDir, program: &Program) -> Self {
        Self {
            folder,
            init: program.start().unwrap(),
            mark: None,
        }
    }

    /// Waits for a line since the last call of [`Rig::now`], or since the start.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let line = match self.mark {
            Some(mark) => self.init.wait_for_line_after(mark, text, TIME),
            None => self.init.wait_for_line(text, TIME),
        };
        line.unwrap_or_else(|error| panic!("{error}")).text
    }

    /// Lines that were printed before do not count any more.
    pub(crate) fn now(&mut self) {
        self.mark = Some(self.init.mark());
    }

    /// Lines on either stream that contain the text.
    pub(crate) fn count(&self, text: &str) -> usize {
        let lines = self.init.lines();
        lines.iter().filter(|line| line.text.contains(text)).count()
    }

    /// Tells the present core what to do; it may not have opened its socket yet.
    pub(crate) fn tell(&mut self, command: &str) {
        let path = self.folder.path().join("control");
        let socket = UnixDatagram::unbound().unwrap();
        poll_for(TIME, "core takes commands", || {
            socket.send_to(command.as_bytes(), &path).ok()
        });
    }

    /// Tells core what to do, and waits until it is done.
    pub(crate) fn order(&mut self, command: &str) {
        self.now();
        self.tell(command);
        self.wait_for(&format!("done {command}"));
    }

    /// Lets core start a child of init; its pid. Until the child has become another program it looks like a core, so this
    /// waits for that.
    pub(crate) fn spawn(&mut self, command: &str) -> i32 {
        self.now();
        self.tell(&format!("spawn {command}"));
        let line = self.wait_for("spawned ");
        let pid = line.trim_start_matches("spawned ").parse().unwrap();
        poll_until(TIME, "the child is no copy of core", || {
            !looks_like_core(pid)
        });
        pid
    }

    /// Waits for a core that is ready; its first line.
    pub(crate) fn wait_for_core(&mut self) -> String {
        let begun = self.wait_for("begun pid=");
        self.wait_for("ready");
        begun
    }

    /// Ends everything by way of core.
    pub(crate) fn shut_down(mut self) {
        self.tell("shutdown exit 7");
        assert_eq!(self.init.wait(TIME).unwrap().code(), Some(7));
    }
}

/// A value of a line like `begun pid=7 kept=3`.
pub(crate) fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let key = format!(" {name}=");
    let at = line
        .find(&key)
        .unwrap_or_else(|| panic!("no {name} in {line:?}"));
    let value = &line[at + key.len()..];
    value.split(' ').next().unwrap()
}

/// How many of a process's descriptors are of something that `wanted` accepts.
pub(crate) fn open_files(pid: i32, wanted: impl Fn(&str) -> bool) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|target| wanted(&target.to_string_lossy()))
        .count()
}

/// Whether a process has a core's command line: a core, or a child of one that has not become another program yet.
pub(crate) fn looks_like_core(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.starts_with("muster-core\0"))
}

/// Whether a process exists, be it as a zombie.
pub(crate) fn exists(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
