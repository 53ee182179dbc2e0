//! What `/proc` says about a process, remembered for a moment.
//!
//! A process that sends a thousand lines is looked at once a second, not a thousand times. One that has
//! ended meanwhile keeps what was known of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::cgroup::{path_of, unit_of_cgroup};
use crate::entry::Fields;
use crate::sys::Sender;

/// How long facts are believed, in microseconds.
const FRESH_US: u64 = 1_000_000;
/// The most processes that are remembered.
const PROCESSES_MAX: usize = 1024;
/// The most runs of units that are remembered.
const UNITS_MAX: usize = 65_536;
/// The longest command line that is kept.
const CMDLINE_MAX: usize = 4096;
/// No file that is read here is longer.
const FILE_MAX: usize = 64 << 10;

/// What is known of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The process itself: `_PID=`, `_COMM=` and so on.
    pub process: Fields,
    /// Where it belongs, by its cgroup: `_SYSTEMD_UNIT=` and so on.
    pub place: Fields,
    /// Its unit; the key of rate limits.
    pub unit: Option<Box<str>>,
    /// Its name, for entries that bring none.
    pub name: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Known {
    facts: ProcessFacts,
    sender: Sender,
    read_us: u64,
}

/// The processes that have written lately, and the runs of units that the manager has told of.
#[derive(Debug)]
pub struct Origins {
    proc: PathBuf,
    known: HashMap<i32, Known>,
    invocations: HashMap<Box<str>, Box<str>>,
}

impl Origins {
    /// Reads from this `/proc`.
    #[must_use]
    pub fn new(proc: PathBuf) -> Self {
        Self {
            proc,
            known: HashMap::new(),
            invocations: HashMap::new(),
        }
    }

    /// Takes the manager's word on which run of a unit is the current one.
    pub fn learn_invocation(&mut self, unit: &str, invocation: &str) {
        if invocation.is_empty() {
            return;
        }
        if self.invocations.len() >= UNITS_MAX && !self.invocations.contains_key(unit) {
            self.invocations.clear();
        }
        self.invocations.insert(unit.into(), invocation.into());
    }

    /// What is known of the sender of a message.
    pub fn of(&mut self, sender: Sender, now_us: u64) -> &ProcessFacts {
        let is_fresh = self.known.get(&sender.pid).is_some_and(|known| {
            known.sender == sender && now_us.saturating_sub(known.read_us) < FRESH_US
        });
        if !is_fresh {
            self.look_at(sender, now_us);
        }
        &self.known[&sender.pid].facts
    }

    fn look_at(&mut self, sender: Sender, now_us: u64) {
        if self.known.len() >= PROCESSES_MAX {
            self.known
                .retain(|_, known| now_us.saturating_sub(known.read_us) < FRESH_US);
        }
        if self.known.len() >= PROCESSES_MAX {
            self.known.clear();
        }
        let folder = self.proc.join(sender.pid.to_string());
        let read = (sender.pid > 0)
            .then(|| self.read(&folder, sender))
            .flatten();
        let facts = match (read, self.known.remove(&sender.pid)) {
            (Some(facts), _) => facts,
            // It has ended; it was this one when it was last seen.
            (None, Some(known)) if known.sender == sender => known.facts,
            (None, _) => ProcessFacts {
                process: identity(sender),
                ..ProcessFacts::default()
            },
        };
        let known = Known {
            facts,
            sender,
            read_us: now_us,
        };
        self.known.insert(sender.pid, known);
    }

    /// Reads a process's folder; `None` if there is no such process.
    fn read(&self, folder: &Path, sender: Sender) -> Option<ProcessFacts> {
        let name = read_small(&folder.join("comm"))?;
        let name = name.trim_ascii_end();
        let mut facts = ProcessFacts {
            process: identity(sender),
            place: Fields::default(),
            unit: None,
            name: (!name.is_empty()).then(|| name.into()),
        };
        let fields = &mut facts.process;
        fields.push("_COMM", name);
        let exe = std::fs::read_link(folder.join("exe")).ok();
        fields.push_some(
            "_EXE",
            exe.as_ref().map(|path| path.as_os_str().as_encoded_bytes()),
        );
        let cmdline = read_small(&folder.join("cmdline")).filter(|text| !text.is_empty());
        fields.push_some("_CMDLINE", cmdline.map(|text| command_line(&text)));
        let status = read_small(&folder.join("status")).unwrap_or_default();
        fields.push_some("_CAP_EFFECTIVE", effective_capabilities(&status));
        let label = read_small(&folder.join("attr/current"));
        let label = label.map(|text| text.trim_ascii_end().trim_suffix_nul().to_vec());
        fields.push_some("_SELINUX_CONTEXT", label.filter(|text| !text.is_empty()));
        let cgroups = read_small(&folder.join("cgroup")).unwrap_or_default();
        let cgroups = String::from_utf8_lossy(&cgroups);
        // The root says nothing.
        if let Some(path) = path_of(&cgroups).filter(|path| *path != "/") {
            self.push_cgroup(&mut facts, path);
        }
        Some(facts)
    }

    fn push_cgroup(&self, facts: &mut ProcessFacts, path: &str) {
        let fields = &mut facts.place;
        let found = unit_of_cgroup(path);
        fields.push("_SYSTEMD_CGROUP", path);
        fields.push_some("_SYSTEMD_UNIT", found.unit);
        fields.push_some("_SYSTEMD_SLICE", found.slice);
        fields.push_some("_SYSTEMD_USER_UNIT", found.user_unit);
        let invocation = found.unit.and_then(|unit| self.invocations.get(unit));
        fields.push_some("_SYSTEMD_INVOCATION_ID", invocation.map(|id| id.as_bytes()));
        facts.unit = found.unit.map(Into::into);
    }
}

/// What the kernel says with the message itself.
fn identity(sender: Sender) -> Fields {
    let mut fields = Fields::default();
    if let Some(pid) = u64::try_from(sender.pid).ok().filter(|pid| *pid > 0) {
        fields.push_number("_PID", pid);
    }
    fields.push_number("_UID", u64::from(sender.uid));
    fields.push_number("_GID", u64::from(sender.gid));
    fields
}

/// Reads a file of `/proc` whole; `None` if it is not there.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(FILE_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// `CapEff:` of a status file, without leading zeros as journald writes it.
fn effective_capabilities(status: &[u8]) -> Option<String> {
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"CapEff:"))?;
    let text = std::str::from_utf8(line).ok()?.trim();
    u64::from_str_radix(text, 16)
        .ok()
        .map(|bits| format!("{bits:x}"))
}

/// The arguments with blanks between them, in quotes where a shell would need them.
fn command_line(arguments: &[u8]) -> Vec<u8> {
    let arguments = arguments.trim_suffix_nul();
    let mut line = Vec::new();
    for argument in arguments.split(|byte| *byte == 0) {
        if !line.is_empty() {
            line.push(b' ');
        }
        let plain = |byte: &u8| {
            byte.is_ascii_alphanumeric() || b"%+,-./:=@_^~#".contains(byte) || *byte >= 128
        };
        if !argument.is_empty() && argument.iter().all(plain) {
            line.extend_from_slice(argument);
        } else {
            line.push(b'"');
            for byte in argument {
                if b"\"\\`$".contains(byte) {
                    line.push(b'\\');
                }
                line.push(*byte);
            }
            line.push(b'"');
        }
        if line.len() > CMDLINE_MAX {
            line.truncate(CMDLINE_MAX);
            break;
        }
    }
    line
}

trait TrimNul {
    fn trim_suffix_nul(&self) -> &[u8];
}

impl TrimNul for [u8] {
    fn trim_suffix_nul(&self) -> &[u8] {
        let length = self
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        &self[..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Sender {
        Sender {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }
    }

    #[test]
    fn a_process_is_described_by_proc() {
        let mut origins = Origins::new("/proc".into());
        let facts = origins.of(own(), 0).clone();
        let text = |name| {
            facts
                .process
                .get(name)
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(text("_PID"), Some(own().pid.to_string()));
        assert_eq!(text("_UID"), Some(own().uid.to_string()));
        let exe = std::env::current_exe().expect("a path");
        assert_eq!(text("_EXE"), Some(exe.to_string_lossy().into_owned()));
        assert!(text("_CMDLINE").is_some_and(|line| line.contains("muster_logd")));
        assert!(text("_CAP_EFFECTIVE").is_some());
    }

    #[test]
    fn a_process_that_ended_keeps_what_was_known_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = folder.path().join("77");
        std::fs::create_dir(&process).expect("made");
        std::fs::write(process.join("comm"), "worker\n").expect("written");
        std::fs::write(process.join("cgroup"), "0::/system.slice/w.service\n").expect("written");
        let mut origins = Origins::new(folder.path().into());
        origins.learn_invocation("w.service", "abc");
        let sender = Sender {
            pid: 77,
            uid: 1,
            gid: 2,
        };
        assert_eq!(origins.of(sender, 0).unit.as_deref(), Some("w.service"));
        std::fs::remove_dir_all(&process).expect("removed");
        let facts = origins.of(sender, 10 * FRESH_US);
        assert_eq!(facts.process.get("_COMM"), Some(&b"worker"[..]));
        assert_eq!(facts.place.get("_SYSTEMD_INVOCATION_ID"), Some(&b"abc"[..]));
        // The number is somebody else's now.
        let other = Sender { uid: 9, ..sender };
        assert_eq!(origins.of(other, 11 * FRESH_US).process.get("_COMM"), None);
    }

    #[test]
    fn the_number_of_remembered_processes_is_bounded() {
        let mut origins = Origins::new("/nonexistent".into());
        for pid in 1..=3 * i32::try_from(PROCESSES_MAX).expect("small") {
            origins.of(
                Sender {
                    pid,
                    uid: 0,
                    gid: 0,
                },
                0,
            );
            assert!(origins.known.len() <= PROCESSES_MAX);
        }
    }

    #[test]
    fn arguments_are_quoted_where_needed() {
        assert_eq!(
            command_line(b"sh\0-c\0echo \"$x\"\0\0"),
            br#"sh -c "echo \"\$x\"""#
        );
        assert_eq!(command_line(b"a\0\0b\0"), b"a \"\" b");
        assert_eq!(command_line(b"nginx: worker\0\0\0"), b"\"nginx: worker\"");
        assert_eq!(
            command_line(&vec![b'x'; 3 * CMDLINE_MAX]).len(),
            CMDLINE_MAX
        );
    }
}
