//! Handing controllers on, and writing limits.

use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::{Backing, Tree};
use crate::controllers::Controllers;
use crate::error::CgroupError;
use crate::files::{Files, keyed};
use crate::path::CgroupPath;
use crate::resources::{Attribute, Need, Occasion, Offer, Plan, Unapplied};

/// Files with a line per device, and what takes a device's line away.
const PER_DEVICE: [(&str, &str); 3] = [
    ("io.latency", "target=0"),
    ("io.weight", "default"),
    ("io.bfq.weight", "default"),
];
/// The one with a line per device whose limits are written one by one: what is not written stays.
const PER_KEY: &str = "io.max";

/// How often limits of a group were reached. Absent is what the machine's controllers do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// New tasks that were refused.
    pub tasks: Option<u64>,
    /// Times that the group's own limit of memory left nothing, rather than one above or below it, whether or not somebody was
    /// ended for it.
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
    /// somebody else's to attach, to [`Tree::open_group`]. A new group was made by [`Tree::make`]; one in use is made again if it
    /// has gone.
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
            Backing::V2(files) | Backing::V1(files) => files,
            Backing::Sessions(_) => return Ok(Vec::new()),
        };
        if occasion == Occasion::Change {
            self.create(path)?;
        }
        if matches!(self.backing, Backing::V1(_)) {
            return Ok(self.legacy.limit(path, plan, occasion, files));
        }
        let mut unapplied = self.legacy.limit(path, plan, occasion, files);
        let lacking = self.hand_on_to(files, path, plan.controllers);
        self.hand_on_from(files, path, plan);
        if occasion == Occasion::Change {
            forget_devices(files, path, plan);
        }
        let write = |file: &str, value: &str| files.write(&path.file(file), value);
        for (attribute, error) in write_all(&plan.attributes, write) {
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
        let own = text("memory.events.local");
        let of = |text: &Option<String>, key| text.as_deref().and_then(|text| keyed(text, key));
        let killed = of(&memory, "oom_kill");
        Refusals {
            tasks: of(&tasks, "max").or_else(|| self.legacy.refused_tasks(path)),
            memory: of(&own, "oom").or_else(|| self.legacy.refused_memory(path)),
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

/// Writes files in their order; gives those that had to be written and are not.
fn write_all(
    attributes: &[Attribute],
    mut write: impl FnMut(&str, &str) -> Result<(), Errno>,
) -> Vec<(&Attribute, Errno)> {
    // What stands for the same: the setting, and the device where it is about one.
    let part = |one: &Attribute| {
        let about = one.value.split(' ').next().unwrap_or_default();
        (one.setting, about.to_owned())
    };
    let mut failed: Vec<(&Attribute, Errno)> = Vec::new();
    let mut written = Vec::new();
    for attribute in attributes {
        match write(attribute.file, &attribute.value) {
            Ok(()) if attribute.need == Need::OneOfThese => written.push(part(attribute)),
            Ok(()) => {}
            Err(Errno::NOENT) if attribute.need == Need::Nothing => {}
            Err(error) => failed.push((attribute, error)),
        }
    }
    failed.retain(|(one, _)| one.need != Need::OneOfThese || !written.contains(&part(one)));
    // Why a file that is there was not written says more than that another one is not there.
    failed.sort_by_key(|(one, error)| one.need == Need::OneOfThese && *error == Errno::NOENT);
    failed
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

/// Takes away lines of devices, and limits in them, that the plan does not mention.
fn forget_devices(files: &Files, path: &CgroupPath, plan: &Plan) {
    for (file, nothing) in PER_DEVICE {
        let text = files.read(&path.file(file)).unwrap_or_default();
        for device in text.lines().filter_map(|line| line.split(' ').next()) {
            if device.contains(':') && !is_planned(plan, file, device, "") {
                // A device that is gone took its limits with it.
                let _ = files.write(&path.file(file), &format!("{device} {nothing}"));
            }
        }
    }
    let text = files.read(&path.file(PER_KEY)).unwrap_or_default();
    for line in text.lines().filter_map(|line| withdrawn(line, plan)) {
        let _ = files.write(&path.file(PER_KEY), &line);
    }
}

/// Whether a line is to be written about a device that says something of this key.
fn is_planned(plan: &Plan, file: &str, device: &str, key: &str) -> bool {
    plan.attributes.iter().any(|attribute| {
        let mut words = attribute.value.split(' ');
        attribute.file == file
            && words.next() == Some(device)
            && words.any(|word| word.starts_with(key))
    })
}

/// What takes the limits of a device away that the plan does not mention, from the line that says which it has.
fn withdrawn(line: &str, plan: &Plan) -> Option<String> {
    let (device, limits) = line.split_once(' ')?;
    let keys = limits.split(' ').filter_map(|limit| {
        let (key, value) = limit.split_once('=')?;
        (value != "max").then_some(key)
    });
    let keys = keys.filter(|key| !is_planned(plan, PER_KEY, device, &format!("{key}=")));
    let keys: String = keys.map(|key| format!(" {key}=max")).collect();
    (!keys.is_empty()).then(|| format!("{device}{keys}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [(&str, &str, &str); 4] = [
        ("IOWeight", "io.weight", "default 200"),
        ("IOWeight", "io.bfq.weight", "default 109"),
        ("IODeviceWeight", "io.weight", "8:0 50"),
        ("IODeviceWeight", "io.bfq.weight", "8:0 50"),
    ];

    fn attributes() -> Vec<Attribute> {
        let weights = WEIGHTS.map(|(setting, file, value)| Attribute {
            setting,
            file,
            value: value.to_owned(),
            need: Need::OneOfThese,
        });
        weights.into()
    }

    #[test]
    fn a_weight_that_one_scheduler_takes_is_applied() {
        for missing in ["io.weight", "io.bfq.weight", "none"] {
            let mut taken = Vec::new();
            let attributes = attributes();
            let failed = write_all(&attributes, |file, value| {
                taken.push(value.to_owned());
                if file == missing {
                    Err(Errno::NOENT)
                } else {
                    Ok(())
                }
            });
            assert!(failed.is_empty(), "without {missing}: {failed:?}");
            assert_eq!(taken.len(), 4, "all are tried");
        }
    }

    #[test]
    fn a_weight_that_no_scheduler_takes_is_refused_for_the_reason_that_says_most() {
        let attributes = attributes();
        let failed = write_all(&attributes, |file, value| match file {
            "io.weight" => Err(Errno::NOENT),
            _ if value.starts_with("8:0") => Err(Errno::OPNOTSUPP),
            _ => Ok(()),
        });
        let failed: Vec<_> = failed
            .iter()
            .map(|(one, error)| (one.file, *error))
            .collect();
        assert_eq!(
            failed,
            [
                ("io.bfq.weight", Errno::OPNOTSUPP),
                ("io.weight", Errno::NOENT)
            ]
        );
    }

    #[test]
    fn limits_of_a_device_that_nobody_asks_for_any_more_are_taken_away() {
        let line = |value: &str| Attribute {
            setting: "IOReadBandwidthMax",
            file: "io.max",
            value: value.to_owned(),
            need: Need::Itself,
        };
        let plan = |values: &[&str]| Plan {
            attributes: values.iter().map(|value| line(value)).collect(),
            ..Plan::default()
        };
        let now = "8:0 rbps=1000 wbps=2000 riops=max wiops=10";
        for (planned, expected) in [
            (&[][..], Some("8:0 rbps=max wbps=max wiops=max")),
            (&["8:16 rbps=1000"], Some("8:0 rbps=max wbps=max wiops=max")),
            (&["8:0 rbps=1000"], Some("8:0 wbps=max wiops=max")),
            (&["8:0 rbps=1", "8:0 wbps=2000", "8:0 wiops=max"], None),
        ] {
            let withdrawn = withdrawn(now, &plan(planned));
            assert_eq!(withdrawn.as_deref(), expected, "{planned:?}");
        }
    }

    #[test]
    fn a_file_that_only_goes_back_need_not_be_there() {
        let mut attribute = attributes().remove(0);
        for (need, count) in [(Need::Nothing, 0), (Need::Itself, 1)] {
            attribute.need = need;
            let one = [attribute.clone()];
            let failed = write_all(&one, |_, _| Err(Errno::NOENT));
            assert_eq!(failed.len(), count);
        }
    }
}
