//! Processes in a group with a filter.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_cgroup::{
    CgroupPath, Controllers, FileFilter, FileSystems, Hierarchy, Hook, Mode, Occasion, Offer, Plan,
    Resources, Subsystems, Tree,
};
use muster_exec::{
    ExecContext, Launch, Prepared, Slot, SpawnError, Spawned, Spawner, Stream, bpf, delegate,
};
use rustix::fs::MemfdFlags;
use rustix::process::{WaitOptions, waitpid};

use crate::guest::helper;

const PATIENCE: Duration = Duration::from_secs(60);

/// A group of the test's own, gone with everything in it when it is dropped.
pub(crate) struct Rig {
    tree: Tree,
    pub(crate) group: OwnedFd,
}

/// A process that has executed its program.
#[derive(Debug)]
pub(crate) struct Running {
    spawned: Spawned,
    output: std::io::PipeReader,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.spawned.pid.as_raw_nonzero().get()
    }

    /// Reads until something was said, and gives all of it.
    pub(crate) fn read(&mut self, last: &str) -> String {
        let mut said = String::new();
        let mut byte = [0];
        while !said.ends_with(last) && self.output.read(&mut byte).unwrap() == 1 {
            said.push(char::from(byte[0]));
        }
        said
    }

    /// Waits for its end, and gives the rest of what it says.
    pub(crate) fn end(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let ended = waitpid(Some(self.spawned.pid), WaitOptions::empty());
        let status = ended.unwrap().unwrap().1;
        assert_eq!(status.exit_status(), Some(0), "{said}");
        said
    }
}

/// A shell that writes to the first descriptor of the list.
pub(crate) fn shell(script: &str) -> ExecContext {
    ExecContext {
        program: "/bin/sh".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        environment: vec!["PATH=/lab/bin:/usr/bin:/bin".into()],
        stdout: Stream::Fd(0),
        ..ExecContext::default()
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = format!("muster-files-{}-{number}", std::process::id());
        let place = CgroupPath::root().child(&place).unwrap();
        let tree = Tree::open(&Hierarchy::detect().unwrap(), &place).unwrap();
        let group = tree.open_group(&CgroupPath::root()).unwrap();
        Self { tree, group }
    }

    /// Restricts the group, or says why that cannot be.
    pub(crate) fn restrict(&self, is_allow_list: bool, names: &[&str]) -> Result<(), String> {
        let layout = bpf::file_layout().map_err(|error| error.to_string())?;
        let mut listed = FileSystems::default();
        for name in names {
            listed.add(name).unwrap();
        }
        let filter = FileFilter {
            is_allow_list,
            listed,
            layout,
        };
        let resources = Resources {
            files: Some(filter),
            ..Resources::default()
        };
        let offer = Offer {
            mode: Mode::Unified,
            controllers: Controllers::NONE,
            legacy: Subsystems::NONE,
        };
        let plan = Plan::new(&resources, offer, Occasion::New);
        let program = plan.programs.first();
        assert!(program.is_some_and(|program| program.settings == ["RestrictFileSystems"]));
        let replaced = bpf::replace(self.group.as_fd(), Hook::FileOpen, program);
        replaced.map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", source.unwrap_or_default())
        })
    }

    /// Takes the restriction away.
    pub(crate) fn open(&self) {
        bpf::replace(self.group.as_fd(), Hook::FileOpen, None).unwrap();
    }

    /// Starts a process in the group, through the helper if it has a sandbox.
    pub(crate) fn start(&self, context: &ExecContext) -> Result<Running, SpawnError> {
        let mut context = context.clone();
        let (output, output_end) = std::io::pipe().unwrap();
        let mut fds = vec![output_end.as_fd()];
        let exemptions = bpf::exemptions(self.group.as_fd());
        if let Some(exemptions) = &exemptions {
            context.exemptions = Some(1);
            fds.push(exemptions.as_fd());
        }
        let (mut report, report_end) = std::io::pipe().unwrap();
        let mut job =
            std::fs::File::from(rustix::fs::memfd_create("job", MemfdFlags::CLOEXEC).unwrap());
        let mut outer = context;
        if outer.sandbox.is_some() {
            let count = u16::try_from(fds.len()).unwrap();
            let delegated = delegate(&outer, &helper(), count).unwrap();
            job.write_all(&delegated.job).unwrap();
            fds.extend([job.as_fd(), report_end.as_fd()]);
            outer = delegated.outer;
        }
        let mut spawner = Spawner::new().unwrap();
        let (mut slot, _memory) = Slot::create().unwrap();
        let mut prepared = Prepared::new(&outer, &fds)?;
        let target = self.tree.target(&CgroupPath::root()).unwrap();
        let launch = Launch {
            cgroup: Some(&target),
            ..Launch::default()
        };
        let spawned = spawner.spawn(&mut prepared, &launch, &mut slot)?;
        drop(prepared);
        drop((output_end, report_end));
        let mut said = String::new();
        report.read_to_string(&mut said).unwrap();
        assert!(
            !said.contains("failed") && !said.contains("dropped"),
            "{said}"
        );
        Ok(Running { spawned, output })
    }

    /// What a process in the group says.
    pub(crate) fn say(&self, context: &ExecContext) -> String {
        self.start(context).unwrap().end()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let root = CgroupPath::root();
        let _ = self.tree.kill(&root);
        let folder = self.tree.folder(&root).unwrap();
        let end = Instant::now() + PATIENCE;
        while let Err(error) = std::fs::remove_dir(&folder) {
            if Instant::now() > end {
                eprintln!("{} is left: {error}", folder.display());
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
