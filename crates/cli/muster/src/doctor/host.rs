//! Who runs this, and what there is of time, space and ports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::Finding;
use super::machine::Machine;
use crate::text::size;

/// Of these, one keeps the clock right.
const TIME_KEEPERS: [&str; 8] = [
    "chronyd",
    "ntpd",
    "openntpd",
    "systemd-timesyn",
    "systemd-timesyncd",
    "ptp4l",
    "phc2sys",
    "ntpsec",
];
/// Below this, images do not fit.
const LITTLE_SPACE: u64 = 2 << 30;
/// Below this, even databases do not.
const NO_SPACE: u64 = 128 << 20;
/// As many files as the layers of a few images have.
const FEW_FILES: u64 = 50_000;
/// Public and protected port of the identity manager, and the Communication Manager's.
const PORTS: [(u16, Owner); 3] = [(8090, Owner::Iam), (8089, Owner::Iam), (8093, Owner::Cm)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Iam,
    Cm,
}

pub(super) fn user(machine: &Machine) -> Finding {
    const CHECK: &str = "user";
    match machine.uid == 0 {
        true => Finding::ok(CHECK, "root"),
        false => Finding::warning(
            CHECK,
            "not root: no containers, networks and limits; the runtime native works, and so does `muster up` with it",
            "run this, and Muster, as root",
        ),
    }
}

pub(super) fn clock(machine: &Machine) -> Finding {
    const CHECK: &str = "clock";
    // Whatever made these files lies in the past.
    let known = ["/etc/os-release", "/etc/machine-id", "/etc/passwd"];
    let newest = known.iter().filter_map(|path| {
        let changed = fs::metadata(machine.file(path)).ok()?.modified().ok()?;
        Timestamp::try_from(changed).ok()
    });
    if newest.max().is_some_and(|newest| machine.now < newest) {
        return Finding::error(
            CHECK,
            format!(
                "{} lies before files of this machine were written",
                machine.now
            ),
            "set the clock: certificates of a wrong time are refused",
        );
    }
    let synchronised = machine.has("/run/systemd/timesync/synchronized");
    let processes = machine.processes();
    let keeper = processes
        .iter()
        .find(|name| TIME_KEEPERS.contains(&name.as_str()));
    match (keeper, synchronised) {
        (Some(keeper), _) => Finding::ok(CHECK, format!("kept right by {keeper}")),
        (None, true) => Finding::ok(CHECK, "synchronised"),
        (None, false) => Finding::warning(
            CHECK,
            "nothing keeps the clock right; certificates and logs depend on it",
            "apt-get install chrony, or systemd-timesyncd",
        ),
    }
}

pub(super) fn disk(folder: &Path) -> Finding {
    const CHECK: &str = "disk";
    let there = folder.ancestors().find(|it| it.exists());
    let there = there.unwrap_or(Path::new("/"));
    let space = match rustix::fs::statvfs(there) {
        Ok(space) => space,
        Err(error) => {
            return Finding::warning(
                CHECK,
                format!("the space of {} cannot be told: {error}", there.display()),
                "mount it",
            );
        }
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    judge_space(folder, free, space.f_favail, space.f_files)
}

fn judge_space(folder: &Path, free: u64, free_files: u64, files: u64) -> Finding {
    const CHECK: &str = "disk";
    let folder = folder.display();
    let message = format!("{} free for {folder}", size(free));
    // Some file systems make room for as many files as there is space.
    let few_files = files > 0 && free_files < FEW_FILES;
    match free {
        ..NO_SPACE => Finding::error(CHECK, message, "make room, or name another folder"),
        NO_SPACE..LITTLE_SPACE => Finding::warning(
            CHECK,
            message,
            format!(
                "images may not fit; make room for at least {}",
                size(LITTLE_SPACE)
            ),
        ),
        _ if few_files => Finding::warning(
            CHECK,
            format!("{message}, but only {free_files} more files"),
            "layers of images may not fit; use a file system with more inodes",
        ),
        _ => Finding::ok(CHECK, message),
    }
}

/// Ports on which somebody listens, of a table of the kernel.
fn listening(table: &str) -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    let port = |line: &str| {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?;
        let state = words.nth(1)?;
        let (_, port) = local.rsplit_once(':')?;
        (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// Ports are free, or our own daemons have them.
pub(super) fn ports(machine: &Machine, iam_answers: bool, cm_answers: bool) -> Finding {
    const CHECK: &str = "ports";
    let mut taken = listening(&machine.text("/proc/net/tcp"));
    taken.extend(listening(&machine.text("/proc/net/tcp6")));
    let ours = |owner| match owner {
        Owner::Iam => iam_answers,
        Owner::Cm => cm_answers,
    };
    let strangers: Vec<String> = (PORTS.into_iter())
        .filter(|(port, owner)| taken.contains(port) && !ours(*owner))
        .map(|(port, _)| port.to_string())
        .collect();
    match strangers.is_empty() {
        true => {
            let ports: Vec<String> = PORTS.iter().map(|(port, _)| port.to_string()).collect();
            Finding::ok(CHECK, format!("{} free or Muster's own", ports.join(", ")))
        }
        false => Finding::warning(
            CHECK,
            format!("{} used, maybe by another program", strangers.join(", ")),
            "ss -ltnp tells by whom; end it, or configure other ports",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn space_is_judged_by_bytes_and_files() {
        let judge = |free, free_files, files| {
            judge_space(Path::new("/var/lib/muster"), free, free_files, files).state
        };
        assert_eq!(judge(1 << 20, 1 << 20, 1 << 20), Verdict::Error);
        assert_eq!(judge(1 << 30, 1 << 20, 1 << 20), Verdict::Warning);
        assert_eq!(judge(8 << 30, 100, 1 << 20), Verdict::Warning);
        assert_eq!(judge(8 << 30, 0, 0), Verdict::Ok);
        assert_eq!(judge(8 << 30, 1 << 20, 1 << 20), Verdict::Ok);
    }

    #[test]
    fn only_listeners_take_a_port() {
        let table = "  sl  local_address rem_address   st\n\
             0: 00000000:1F9D 00000000:0000 0A 0 0\n\
             1: 0100007F:1F9A 0100007F:9F4C 06 0 0\n\
             garbage\n";
        assert_eq!(listening(table), BTreeSet::from([8093]));
    }
}
