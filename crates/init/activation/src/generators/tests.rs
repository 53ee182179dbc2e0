use std::os::unix::fs::symlink;
use std::time::Instant;

use super::*;

const TIME: Duration = Duration::from_secs(20);

struct Rig {
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        fs::create_dir(dir.path().join("lib")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn settings(&self) -> GeneratorSettings {
        GeneratorSettings {
            folders: vec![self.path("etc"), self.path("lib")],
            output: OutputFolders {
                normal: self.path("run/generator"),
                early: self.path("run/generator.early"),
                late: self.path("run/generator.late"),
            },
            environment: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("KIND".into(), "test".into()),
            ],
            time_limit: TIME,
        }
    }

    fn run(&self) -> Vec<GeneratorReport> {
        let mut run = GeneratorRun::start(&self.settings()).unwrap();
        assert!(run.wait_at_most(TIME).unwrap());
        run.finish().unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("run").join(name)).unwrap()
    }

    fn names_in_run(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("run")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn generators_get_three_folders_and_what_they_write_is_put_in_place() {
    let rig = Rig::new();
    rig.script(
        "lib/b",
        r#"echo "$KIND $#" > "$1/b"; echo e > "$2/b"; echo l > "$3/b"; pwd"#,
    );
    rig.script(
        "lib/c",
        r#"mkdir "$1/x.wants"; ln -s "$1/b" "$1/x.wants/b"; ln -s ../b "$1/x.wants/r""#,
    );
    let reports = rig.run();
    assert!(
        reports.iter().all(|report| report.outcome.is_success()),
        "{reports:?}"
    );
    assert_eq!(reports[0].printed, "/\n");
    assert_eq!(rig.read("generator/b"), "test 3\n");
    assert_eq!(rig.read("generator.early/b"), "e\n");
    assert_eq!(rig.read("generator.late/b"), "l\n");
    // Links to the folder that they were made in lead to where it is now.
    assert_eq!(rig.read("generator/x.wants/b"), "test 3\n");
    let link = fs::read_link(rig.path("run/generator/x.wants/r")).unwrap();
    assert_eq!(link, PathBuf::from("../b"));
    let names = ["generator", "generator.early", "generator.late"];
    assert_eq!(rig.names_in_run(), names);
}

#[test]
fn earlier_folders_hide_later_ones_and_masks_hide_all() {
    let rig = Rig::new();
    for name in ["lib/a", "lib/b", "lib/c", "lib/d", "lib/.e"] {
        rig.script(name, "exit 0");
    }
    rig.script("etc/a", "exit 7");
    symlink("/dev/null", rig.path("etc/b")).unwrap();
    fs::write(rig.path("etc/c"), "").unwrap();
    fs::write(rig.path("lib/f"), "not executable").unwrap();
    fs::create_dir(rig.path("lib/g")).unwrap();
    let found = find_generators(&rig.settings().folders);
    assert_eq!(found, [rig.path("etc/a"), rig.path("lib/d")]);
    let reports = rig.run();
    assert_eq!(reports[0].outcome, GeneratorOutcome::Exited(7));
    assert!(find_generators(&[rig.path("none")]).is_empty());
}

#[test]
fn old_output_goes_and_unchanged_files_stay_the_same() {
    use std::os::unix::fs::MetadataExt;
    let rig = Rig::new();
    rig.script("lib/a", r#"echo same > "$1/same"; echo "$(cat /proc/sys/kernel/random/uuid)" > "$1/other"; echo x > "$1/once""#);
    rig.run();
    let inode = |name: &str| {
        fs::metadata(rig.path("run/generator").join(name))
            .unwrap()
            .ino()
    };
    let (same, other) = (inode("same"), rig.read("generator/other"));
    rig.script(
        "lib/a",
        r#"echo same > "$1/same"; echo "$(cat /proc/sys/kernel/random/uuid)" > "$1/other""#,
    );
    rig.run();
    assert_eq!(inode("same"), same);
    assert_ne!(rig.read("generator/other"), other);
    assert!(!rig.path("run/generator/once").exists());
}

#[test]
fn a_run_that_is_given_up_leaves_the_old_output_and_no_process() {
    let rig = Rig::new();
    rig.script("lib/a", r#"echo old > "$1/f""#);
    rig.run();
    let pids = rig.path("pids");
    let text = format!(
        r#"echo new > "$1/f"; sleep 600 & echo $$ $! > {}; wait"#,
        pids.display()
    );
    rig.script("lib/a", &text);
    let mut run = GeneratorRun::start(&rig.settings()).unwrap();
    let both = muster_lab::poll_for(TIME, "the generator to run", || {
        assert!(!run.advance().unwrap());
        let text = fs::read_to_string(&pids).ok()?;
        text.ends_with('\n').then_some(text)
    });
    drop(run);
    assert_eq!(rig.read("generator/f"), "old\n");
    assert_eq!(rig.names_in_run().len(), 3);
    for pid in both.split_whitespace() {
        muster_lab::poll_until(TIME, "its processes to be gone", || !runs(pid));
    }
}

/// Whether a process is there and not merely waiting to be reaped by somebody else.
fn runs(pid: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !stat
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn one_that_hangs_is_killed_and_the_others_count() {
    let rig = Rig::new();
    rig.script("lib/hangs", "trap '' TERM; while :; do sleep 600; done");
    rig.script("lib/works", r#"echo x > "$1/x""#);
    rig.script("lib/crashes", "kill -SEGV $$");
    fs::write(rig.path("lib/odd"), [0x7f, b'E', b'L', b'F', 1, 2, 3]).unwrap();
    fs::set_permissions(rig.path("lib/odd"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = rig.settings();
    settings.time_limit = Duration::from_millis(300);
    let start = Instant::now();
    let mut run = GeneratorRun::start(&settings).unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(250),
        "starting does not wait"
    );
    assert!(run.wait_at_most(TIME).unwrap());
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < TIME,
        "{took:?}"
    );
    let reports = run.finish().unwrap();
    let outcome = |name: &str| {
        let report = reports.iter().find(|report| report.program.ends_with(name));
        report.unwrap().outcome.clone()
    };
    assert_eq!(outcome("hangs"), GeneratorOutcome::TimedOut);
    assert_eq!(outcome("works"), GeneratorOutcome::Exited(0));
    assert_eq!(outcome("crashes"), GeneratorOutcome::Killed(11));
    assert!(matches!(outcome("odd"), GeneratorOutcome::NotStarted(_)));
    assert_eq!(rig.read("generator/x"), "x\n");
}

#[test]
fn finishing_early_kills_what_runs() {
    let rig = Rig::new();
    rig.script("lib/a", r#"echo x > "$1/x"; sleep 600"#);
    let run = GeneratorRun::start(&rig.settings()).unwrap();
    let reports = run.finish().unwrap();
    assert_eq!(reports[0].outcome, GeneratorOutcome::TimedOut);
}

#[test]
fn output_is_kept_up_to_a_limit_and_an_early_end_of_it_does_not_spin() {
    let rig = Rig::new();
    rig.script(
        "lib/loud",
        "head -c 100000 /dev/zero | tr '\\0' x; echo end >&2",
    );
    let fifo = rig.path("go");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let text = format!("exec >/dev/null 2>&1; read line < {}", fifo.display());
    rig.script("lib/quiet", &text);
    let mut run = GeneratorRun::start(&rig.settings()).unwrap();
    // The descriptor is readable only when there is something to do.
    let ready = |run: &GeneratorRun| crate::sockets::incoming(&[run]).unwrap().is_some();
    muster_lab::poll_until(
        TIME,
        "the loud one to end and the quiet one to be quiet",
        || {
            run.advance().unwrap();
            run.running == 1 && !ready(&run)
        },
    );
    fs::write(&fifo, "go\n").unwrap();
    assert!(run.wait_at_most(TIME).unwrap());
    let reports = run.finish().unwrap();
    assert_eq!(reports[0].printed.len(), MAX_OUTPUT);
    assert_eq!(reports[0].lost, 100_004 - MAX_OUTPUT as u64);
    assert!(reports[1].outcome.is_success());
}

#[test]
fn errors_name_the_folder() {
    let rig = Rig::new();
    fs::write(rig.path("run"), "a file").unwrap();
    let error = GeneratorRun::start(&rig.settings()).unwrap_err();
    assert!(error.to_string().contains(".generator.new"), "{error}");
}
