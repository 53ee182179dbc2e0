//! How fast lines are taken, and how soon the last fifty of one service are shown: beside journald's
//! own reader, on the same files, in the same run.
//!
//! `cargo bench -p muster-journal`; `MUSTER_BENCH_FOLDER` chooses the disk, `MUSTER_BENCH_MB` how large
//! the journal gets (default 1024).

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_journal::{
    AppendError, EntryTime, Id128, Journal, JournalWriter, Matches, SeqnumSource, WriterOptions,
};

const UNITS: u64 = 500;
const LINES: u64 = 400_000;
const ROUNDS: usize = 20;

/// The fields of a line as a log daemon writes them; all but the message come again and again.
struct Lines {
    common: Vec<Vec<u8>>,
    per_unit: Vec<Vec<Vec<u8>>>,
}

impl Lines {
    fn new(machine: Id128, boot: Id128) -> Self {
        let bytes = |text: String| text.into_bytes();
        let common = [
            "PRIORITY=6".to_owned(),
            "_TRANSPORT=stdout".to_owned(),
            "_UID=0".to_owned(),
            "_GID=0".to_owned(),
            "_CAP_EFFECTIVE=1ffffffffff".to_owned(),
            "_SYSTEMD_SLICE=system.slice".to_owned(),
            "_HOSTNAME=host".to_owned(),
            format!("_BOOT_ID={boot}"),
            format!("_MACHINE_ID={machine}"),
        ];
        let of_unit = |unit: u64| {
            [
                format!("SYSLOG_IDENTIFIER=prog{unit}"),
                format!("_PID={}", 1000 + unit),
                format!("_COMM=prog{unit}"),
                format!("_EXE=/usr/bin/prog{unit}"),
                format!("_CMDLINE=/usr/bin/prog{unit} --serve"),
                format!("_SYSTEMD_CGROUP=/system.slice/unit{unit}.service"),
                format!("_SYSTEMD_UNIT=unit{unit}.service"),
            ]
            .map(bytes)
            .to_vec()
        };
        Self {
            common: common.map(bytes).to_vec(),
            per_unit: (0..UNITS).map(of_unit).collect(),
        }
    }

    /// Calls `each` with the fields of line `n`.
    fn with<T>(&self, n: u64, each: impl FnOnce(&[&[u8]]) -> T) -> T {
        // Services do not take turns: a cheap scatter.
        let unit = usize::try_from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or(0)
            % self.per_unit.len();
        let message = format!("MESSAGE=request {n} served in {} ms", n % 977);
        let mut fields: Vec<&[u8]> = vec![message.as_bytes()];
        fields.extend(self.common.iter().map(Vec::as_slice));
        fields.extend(self.per_unit[unit].iter().map(Vec::as_slice));
        each(&fields)
    }
}

struct Bench {
    dir: PathBuf,
    options: WriterOptions,
    lines: Lines,
    boot: Id128,
}

impl Bench {
    fn time(&self, n: u64) -> EntryTime {
        EntryTime {
            realtime: 1_700_000_000_000_000 + n * 10,
            monotonic: 1_000_000 + n * 10,
            boot_id: self.boot,
        }
    }

    fn create(&self, numbers: SeqnumSource) -> JournalWriter {
        JournalWriter::create(&self.dir.join("system.journal"), &self.options, numbers)
            .expect("a new file")
    }

    fn archive(&self, writer: JournalWriter) -> SeqnumSource {
        let done = writer.archive().expect("archive");
        let name = format!(
            "system@{}-{:016x}-{:016x}.journal",
            done.seqnum_id, done.head_seqnum, done.head_realtime
        );
        std::fs::rename(self.dir.join("system.journal"), self.dir.join(name)).expect("rename");
        done.seqnums
    }

    /// Appends lines `from..`, archiving full files, until `stop` says so; gives the next line's number.
    fn append(
        &self,
        mut writer: JournalWriter,
        from: u64,
        mut stop: impl FnMut(u64) -> bool,
    ) -> (JournalWriter, u64) {
        let mut n = from;
        while !stop(n) {
            if writer.rotation_due().is_some() {
                writer = self.create(self.archive(writer));
            }
            match self
                .lines
                .with(n, |fields| writer.append(self.time(n), fields))
            {
                Ok(_) => n += 1,
                Err(AppendError::Full { .. }) => writer = self.create(self.archive(writer)),
                Err(error) => panic!("append: {error}"),
            }
        }
        (writer, n)
    }
}

/// What this thread has used so far: other programs on the machine do not count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("processor time is not negative")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn last_fifty(dir: &Path, unit: &str) -> usize {
    let mut journal = Journal::open_dir(dir).expect("open");
    let mut matches = Matches::new();
    matches.add(format!("_SYSTEMD_UNIT={unit}").as_bytes());
    journal.set_matches(matches);
    journal.seek_tail().expect("seek");
    let mut messages = 0;
    while messages < 50 {
        let Some(entry) = journal.previous_entry().expect("read") else {
            break;
        };
        assert!(entry.field(b"MESSAGE").expect("read").is_some());
        messages += 1;
    }
    messages
}

fn journalctl(dir: &Path, args: &[&str]) -> usize {
    let output = Command::new("journalctl")
        .arg("-D")
        .arg(dir)
        .args(["--no-pager", "--quiet", "-o", "cat"])
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .expect("journalctl of the package systemd");
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

#[expect(clippy::cast_precision_loss, reason = "rates for a table")]
fn main() {
    if env::args().any(|arg| arg == "--list") {
        return;
    }
    let folder = env::var_os("MUSTER_BENCH_FOLDER").map_or_else(env::temp_dir, PathBuf::from);
    let megabytes: u64 = env::var("MUSTER_BENCH_MB")
        .ok()
        .and_then(|mb| mb.parse().ok())
        .unwrap_or(1024);
    let dir = tempfile::tempdir_in(folder).expect("a folder");
    let machine = Id128::random().expect("an id");
    let boot = Id128::random().expect("an id");
    let bench = Bench {
        dir: dir.path().to_owned(),
        options: WriterOptions::new(machine, boot),
        lines: Lines::new(machine, boot),
        boot,
    };

    let writer = bench.create(SeqnumSource { id: boot, next: 1 });
    let (started, busy) = (Instant::now(), cpu_time());
    let (writer, next) = bench.append(writer, 0, |n| n == LINES);
    let (took, busy) = (started.elapsed(), cpu_time() - busy);
    println!("append: {LINES} lines of 17 fields, {UNITS} services, one thread");
    println!(
        "  {:>12}  {:>12.0} lines/s of processor time  wanted >= 100000 ({:.0} by the clock)",
        "muster",
        LINES as f64 / busy.as_secs_f64(),
        LINES as f64 / took.as_secs_f64()
    );

    let mut grown = 0;
    let (writer, next) = bench.append(writer, next, |n| {
        if n.is_multiple_of(10_000) {
            grown = muster_journal::disk_usage(dir.path()).unwrap_or(0);
        }
        grown >= megabytes << 20
    });
    writer.close().expect("close");
    let files = muster_journal::list_files(dir.path()).expect("list").len();
    println!();
    println!(
        "last 50 lines of one service among {UNITS}, {next} lines, {megabytes} MB in {files} files, median of {ROUNDS}"
    );
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for round in 0..ROUNDS {
        let unit = format!("unit{}.service", round * 23 % 500);
        let started = Instant::now();
        assert_eq!(last_fifty(dir.path(), &unit), 50);
        ours.push(started.elapsed());
        let started = Instant::now();
        let field = format!("_SYSTEMD_UNIT={unit}");
        assert_eq!(journalctl(dir.path(), &[&field, "-n", "50"]), 50);
        theirs.push(started.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "  {:>12}  {:>12.2} ms  wanted <= 20",
        "muster",
        ours.as_secs_f64() * 1e3
    );
    println!(
        "  {:>12}  {:>12.2} ms  {:.1} times as long",
        "journalctl",
        theirs.as_secs_f64() * 1e3,
        theirs.as_secs_f64() / ours.as_secs_f64()
    );

    println!();
    println!("all lines of one file, messages only");
    let file = muster_journal::list_files(dir.path()).expect("list")[0]
        .path
        .clone();
    let started = Instant::now();
    let mut journal = Journal::open_files(&[&file]).expect("open");
    let mut count = 0_u64;
    while let Some(entry) = journal.next_entry().expect("read") {
        assert!(entry.field(b"MESSAGE").expect("read").is_some());
        count += 1;
    }
    let ours = count as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    let output = Command::new("journalctl")
        .arg("--file")
        .arg(&file)
        .args(["--no-pager", "--quiet", "-o", "cat"])
        .output()
        .expect("journalctl");
    let shown = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    let theirs = shown as f64 / started.elapsed().as_secs_f64();
    println!("  {:>12}  {ours:>12.0} lines/s", "muster");
    println!(
        "  {:>12}  {theirs:>12.0} lines/s  {:.1} times as fast is muster",
        "journalctl",
        ours / theirs
    );
}
