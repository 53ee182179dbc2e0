//! Handing controllers on, and writing limits.

use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::{Backing, Tree};
use crate::controllers::Controllers;
use crate::error::CgroupError;
use crate::files::{Files, keyed};
use crate::path::CgroupPath;
use crate::resources::{Attribute, Occasion, Offer, Plan, Unapplied};

/// Files with a line per device, and what takes a device's line away.
const PER_DEVICE: [(&str, &str); 3] = [
    ("io.max", "rbps=max wbps=max riops=max wiops=max"),
    ("io.latency", "target=0"),
    ("io.weight", "default"),
];

/// How often limits of a group were reached. Absent is what the machine's controllers do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// New tasks that were refused.
    pub tasks: Option<u64>,
    /// Times that memory ran out, whether or not somebody was ended for it.
    pub memory: Option<u64>,
    /// Processes that the kernel ended for lack of memory.
    pub killed: Option<u64>,
}

impl Tree {
    /// What units can be given here.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer {
            mode: self.mode,
            controllers: self.offered,
            legacy: self.legacy.subsystems(),
        }
    }

    /// Hands controllers on to a group and writes its limits; gives what the kernel did not take. The programs of the plan are
    /// somebody else's to attach, to [`Tree::open_group`].
    ///
    /// # Errors
    /// The group cannot be made.
    pub fn limit(
        &self,
        path: &CgroupPath,
        plan: &Plan,
        occasion: Occasion,
    ) -> Result<Vec<Unapplied>, CgroupError> {
        let files = match &self.backing {
            Backing::V2(files) => files,
            Backing::V1(files) => {
                self.create(path)?;
                return Ok(self.legacy.limit(path, plan, occasion, files));
            }
            Backing::Sessions(_) => return Ok(Vec::new()),
        };
        self.create(path)?;
        let mut unapplied = self.legacy.limit(path, plan, occasion, files);
        let lacking = self.hand_on_to(files, path, plan.controllers);
        self.hand_on_from(files, path, plan);
        if occasion == Occasion::Change {
            forget_devices(files, path, plan);
        }
        for attribute in &plan.attributes {
            let written = files.write(&path.file(attribute.file), &attribute.value);
            let Err(error) = written else { continue };
            if error == Errno::NOENT && attribute.is_optional {
                continue;
            }
            let known = |known: &Unapplied| known.setting == attribute.setting;
            if !unapplied.iter().any(known) {
                unapplied.push(refused(attribute, error, lacking));
            }
        }
        Ok(unapplied)
    }

    /// Makes the groups above hand these on. Gives those that one of them does not; whoever needs them will miss their files.
    fn hand_on_to(&self, files: &Files, path: &CgroupPath, wanted: Controllers) -> Controllers {
        let of = |path: &CgroupPath| {
            let list = files.read(&path.file("cgroup.controllers"));
            Controllers::parse(&list.unwrap_or_default())
        };
        // One question suffices where an earlier unit asked for the same.
        if wanted.is_empty() || wanted.without(of(path)).is_empty() {
            return Controllers::NONE;
        }
        let mut above = vec![CgroupPath::root()];
        above.extend(path.steps().filter_map(|step| CgroupPath::parse(step).ok()));
        above.pop();
        for group in &above {
            hand_on(files, group, wanted);
        }
        wanted.without(of(path))
    }

    fn hand_on_from(&self, files: &Files, path: &CgroupPath, plan: &Plan) {
        hand_on(files, path, plan.hands_on);
        for controller in plan.withholds.iter() {
            let word = Controllers::from(controller).signed('-');
            // One that it never had is not handed on either.
            let _ = files.write(&path.file("cgroup.subtree_control"), &word);
        }
    }

    /// Tasks that all groups together may have: what whoever gave us the root allows it; `None` if that is no limit.
    #[must_use]
    pub fn task_limit(&self) -> Option<u64> {
        let own = match &self.backing {
            Backing::V2(files) => files.read(&CgroupPath::root().file("pids.max")).ok(),
            _ => None,
        };
        let text = own.or_else(|| self.legacy.task_limit())?;
        text.trim().parse().ok()
    }

    /// How often the limits of a group were reached.
    #[must_use]
    pub fn refusals(&self, path: &CgroupPath) -> Refusals {
        let text = |file| match &self.backing {
            Backing::V2(files) => files.read(&path.file(file)).ok(),
            _ => None,
        };
        let (tasks, memory) = (text("pids.events"), text("memory.events"));
        let of = |text: &Option<String>, key| text.as_deref().and_then(|text| keyed(text, key));
        let killed = of(&memory, "oom_kill");
        Refusals {
            tasks: of(&tasks, "max").or_else(|| self.legacy.refused_tasks(path)),
            memory: of(&memory, "oom"),
            killed: killed.or_else(|| self.legacy.oom_kills(path)),
        }
    }

    /// The file to watch for modification: the kernel may have ended a process for lack of memory. `None` where it does not
    /// say.
    #[must_use]
    pub fn memory_events_file(&self, path: &CgroupPath) -> Option<PathBuf> {
        let controllers = self.offered;
        let has_memory = controllers.contains(crate::controllers::Controller::Memory);
        match &self.backing {
            Backing::V2(files) if has_memory => Some(files.full_path(path).join("memory.events")),
            _ => None,
        }
    }

    /// Where there is no such file: a descriptor that can be read when memory of a group runs out, shortly before the kernel
    /// ends somebody for it. `None` where nobody says so either.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn memory_alarm(&self, path: &CgroupPath) -> Result<Option<OwnedFd>, CgroupError> {
        self.legacy.memory_alarm(path)
    }

    /// The folder of a group if the kernel measures the pressure on its memory.
    #[must_use]
    pub fn pressure_folder(&self, path: &CgroupPath) -> Option<PathBuf> {
        match &self.backing {
            Backing::V2(files) if self.has_pressure => Some(files.full_path(path)),
            _ => None,
        }
    }

    /// The folder of a group, for programs that are attached to it.
    ///
    /// # Errors
    /// There are no groups of that kind, or this one is gone.
    pub fn open_group(&self, path: &CgroupPath) -> Result<OwnedFd, CgroupError> {
        match &self.backing {
            Backing::V2(files) => files
                .open_folder(path.relative())
                .map_err(|error| CgroupError::new("open", path, error)),
            _ => Err(CgroupError::Unsupported {
                operation: "attach programs to".into(),
                path: path.clone(),
            }),
        }
    }

    /// Lets a user ask the kernel to tell of pressure on the memory of a group.
    ///
    /// # Errors
    /// The kernel refuses, or does not measure it.
    pub fn give_pressure_to(
        &self,
        path: &CgroupPath,
        user: u32,
        group: u32,
    ) -> Result<(), CgroupError> {
        let Backing::V2(files) = &self.backing else {
            return Ok(());
        };
        files
            .give(&path.file("memory.pressure"), user, group)
            .map_err(|error| CgroupError::new("give the pressure file away of", path, error))
    }

    /// Gives a group away: its processes may make groups below it and move between them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give_to(&self, path: &CgroupPath, user: u32, group: u32) -> Result<(), CgroupError> {
        const FILES: [&str; 4] = [
            ".",
            "cgroup.procs",
            "cgroup.subtree_control",
            "cgroup.threads",
        ];
        let Backing::V2(files) = &self.backing else {
            return Ok(());
        };
        for file in FILES {
            files
                .give(&path.file(file), user, group)
                .map_err(|error| CgroupError::new("give away", path, error))?;
        }
        Ok(())
    }
}

fn hand_on(files: &Files, group: &CgroupPath, wanted: Controllers) {
    if wanted.is_empty() {
        return;
    }
    let file = group.file("cgroup.subtree_control");
    let had = Controllers::parse(&files.read(&file).unwrap_or_default());
    // One by one: a controller that somebody else keeps busy must not take the others with it.
    for controller in wanted.without(had).iter() {
        let word = Controllers::from(controller).signed('+');
        // What came of it is asked at the end, of the group that needs it.
        let _ = files.write(&file, &word);
    }
}

fn refused(attribute: &Attribute, error: Errno, lacking: Controllers) -> Unapplied {
    let file = attribute.file;
    let controller = file.split('.').next().unwrap_or_default();
    let reason = match error {
        Errno::NOENT if !Controllers::parse(controller).within(lacking).is_empty() => {
            format!("the groups above do not hand the {controller} controller on")
        }
        Errno::NOENT => format!("this kernel has no {file}"),
        error => format!(
            "the kernel refuses {:?} for {file} ({error})",
            attribute.value
        ),
    };
    Unapplied {
        setting: attribute.setting,
        reason,
    }
}

/// Takes lines of devices away that the plan does not mention.
fn forget_devices(files: &Files, path: &CgroupPath, plan: &Plan) {
    for (file, nothing) in PER_DEVICE {
        let text = files.read(&path.file(file)).unwrap_or_default();
        for device in text.lines().filter_map(|line| line.split(' ').next()) {
            let is_planned = plan.attributes.iter().any(|attribute| {
                let mut words = attribute.value.split(' ');
                attribute.file == file && words.next() == Some(device)
            });
            if device.contains(':') && !is_planned {
                // A device that is gone took its limits with it.
                let _ = files.write(&path.file(file), &format!("{device} {nothing}"));
            }
        }
    }
}
