//! Machines with the units in them, whatever their init.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use muster_lab::guest::Guest;
use muster_lab::machine::{Machine, MachineBuilder};
use tempfile::TempDir;

use crate::case::{Case, FOLDER, RESULTS};
use crate::expectation::Observed;
use crate::report;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
/// For all units of a file.
pub(crate) const RUN_TIME: Duration = Duration::from_secs(280);

/// What whoever makes a container does for the init in it: mounts of the system arrive in the services' own trees.
pub(crate) const SHARED_MOUNTS: &str = "mount --make-rshared / && exec";

const UNITS: &str = "/etc/systemd/system";
/// Who there is: the tests' own user and group have numbers that nobody else has.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
                      tester:x:1234:1234::/home/tester:/bin/sh\nother:x:1235:1235::/home/other:/bin/sh\n\
                      messagebus:x:101:101::/nonexistent:/usr/sbin/nologin\nsshd:x:102:65534::/run/sshd:/usr/sbin/nologin\n\
                      nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nadm:x:4:\nshadow:x:42:\ntester:x:1234:\nother:x:1235:\n\
                     extra:x:1300:\nmembers:x:1301:tester\nmessagebus:x:101:\nnogroup:x:65534:\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n";

/// What every machine has, as path, content and mode.
fn common_files() -> Vec<(PathBuf, String, u32)> {
    let folder = Path::new(FOLDER);
    vec![
        ("/etc/passwd".into(), PASSWD.to_owned(), 0o644),
        ("/etc/group".into(), GROUP.to_owned(), 0o644),
        ("/etc/nsswitch.conf".into(), NSSWITCH.to_owned(), 0o644),
        ("/home/tester/at-home".into(), "home\n".to_owned(), 0o644),
        ("/srv/data/file".into(), "data\n".to_owned(), 0o644),
        ("/root/of-root".into(), "root\n".to_owned(), 0o644),
        ("/boot/image".into(), "boot\n".to_owned(), 0o644),
        ("/opt/tree/inner/file".into(), "inner\n".to_owned(), 0o644),
        ("/var/tmp/.lab".into(), String::new(), 0o644),
        (folder.join("run"), include_str!("run.sh").to_owned(), 0o755),
        (
            folder.join("facts"),
            include_str!("facts.sh").to_owned(),
            0o755,
        ),
    ]
}

/// Everything that these cases need in a machine, as path, content and mode.
pub(crate) fn files(cases: &[Case]) -> Vec<(PathBuf, String, u32)> {
    let unit = |name: &str| Path::new(UNITS).join(name);
    let mut files = common_files();
    for case in cases {
        let units = case.unit_files();
        files.extend(units.map(|(name, text)| (unit(&name), text, 0o644)));
        let others = case.files();
        files.extend(others.map(|(path, content)| (path, content, 0o644)));
    }
    files.push((unit("keep.target"), keep(cases), 0o644));
    files.push((Path::new(FOLDER).join("list"), list(cases), 0o644));
    files
}

/// A unit that refers to all of them, so that none is forgotten.
fn keep(cases: &[Case]) -> String {
    let after = |case: &Case| format!("After=check-{}.service\n", case.name);
    let lines: String = cases.iter().map(after).collect();
    format!("[Unit]\n{lines}")
}

fn list(cases: &[Case]) -> String {
    cases.iter().map(|case| case.line() + "\n").collect()
}

/// A machine in namespaces with these cases, and the folder that it leaves results in.
pub(crate) struct World {
    cases: Vec<Case>,
    out: TempDir,
    /// What the machine must have: without it, cases would not run.
    promised: &'static [&'static str],
}

impl World {
    pub(crate) fn new(cases: Vec<Case>) -> Self {
        let out = tempfile::tempdir().unwrap();
        fs::set_permissions(out.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            cases,
            out,
            promised: &[],
        }
    }

    /// The machine has these facts, or it is not the one that is meant.
    pub(crate) fn on_a_machine_with(self, promised: &'static [&'static str]) -> Self {
        Self { promised, ..self }
    }

    /// Puts everything into a machine.
    pub(crate) fn furnish(&self, mut builder: MachineBuilder) -> MachineBuilder {
        for (path, content, mode) in common_files() {
            builder = builder.file(path, content, mode);
        }
        for case in &self.cases {
            for (name, text) in case.unit_files() {
                builder = builder.unit(name, text);
            }
            for (path, content) in case.files() {
                builder = builder.file(path, content, 0o644);
            }
        }
        builder
            .unit("keep.target", keep(&self.cases))
            .file(Path::new(FOLDER).join("list"), list(&self.cases), 0o644)
            .bind(
                env!("CARGO_BIN_EXE_muster-probe"),
                Path::new(FOLDER).join("muster-probe"),
            )
            .bind(self.out.path(), RESULTS)
    }

    /// Runs the units of a machine that is up, with the manager's own tool, and judges them.
    #[track_caller]
    pub(crate) fn run(&self, place: &str, machine: &Machine, tool: &str) {
        let driver = Path::new(FOLDER).join("run");
        let words = [
            "/bin/sh".as_ref(),
            driver.as_os_str(),
            tool.as_ref(),
            RESULTS.as_ref(),
        ];
        let output = machine.run_within(RUN_TIME, words).unwrap();
        let read = |name: &str| fs::read_to_string(self.out.path().join(name));
        let complain = |error: io::Error| panic!("{place}: {error}: {output:?}");
        let results = read("results").unwrap_or_else(complain);
        let facts = read("facts").unwrap_or_default();
        self.judge(place, &facts, &results, &read("shown").unwrap_or_default());
    }

    fn judge(&self, place: &str, facts: &str, results: &str, shown: &str) {
        println!("{place}: this machine has {}", facts.replace('\n', " "));
        let facts: BTreeSet<String> = facts.lines().map(str::to_owned).collect();
        for fact in self.promised {
            assert!(facts.contains(*fact), "{place}: this machine has no {fact}");
        }
        let seen: BTreeMap<String, Observed> = Observed::read(results, shown);
        report::judge(place, &self.cases, &facts, &seen);
    }

    /// Puts everything into a guest, which runs the units, and then switches itself off.
    #[track_caller]
    pub(crate) fn run_guest(&self, place: &str, mut guest: Guest) {
        for (path, content, mode) in files(&self.cases) {
            guest = guest.file(path, content, mode);
        }
        let unit = |name: &str| Path::new(UNITS).join(name);
        let driver = format!(
            "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\n\
             Environment=PATH=/lab/muster:/usr/sbin:/usr/bin:/sbin:/bin\n\
             ExecStart=/bin/sh -c 'sh {FOLDER}/run sctl {RESULTS} >{RESULTS}/driver 2>&1; sctl poweroff --no-block'\n"
        );
        let outcome = guest
            .host_file(
                env!("CARGO_BIN_EXE_muster-probe"),
                Path::new(FOLDER).join("muster-probe"),
            )
            .file(unit("driver.service"), driver, 0o644)
            .file(
                unit("default.target"),
                "[Unit]\nWants=basic.target driver.service\n",
                0o644,
            )
            .memory_mib(512)
            .run(RUN_TIME)
            .unwrap();
        let text = |name: &str| outcome.text(name);
        let results =
            text("results").unwrap_or_else(|| panic!("{place}: {}", outcome.console.join("\n")));
        if let Some(complaints) = text("driver").filter(|text| !text.is_empty()) {
            println!("{place}: {complaints}");
        }
        let shown = text("shown").unwrap_or_default();
        self.judge(place, &text("facts").unwrap_or_default(), &results, &shown);
    }
}
