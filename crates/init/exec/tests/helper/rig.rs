//! Running contexts through the helper, in mount namespaces that end with their test.

use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use muster_exec::{
    Delegated, ExecContext, Failed, Launch, Prepared, Report, Sandbox, Slot, Spawned, Spawner,
    Step, Stream, delegate,
};
use rustix::fs::MemfdFlags;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use rustix::thread::UnshareFlags;

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_muster-exec");
const DEADLINE: Duration = Duration::from_secs(60);

/// What came of a context.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) status: WaitStatus,
    pub(crate) report: Report,
}

/// A process under way. It is killed if its test fails.
pub(crate) struct Running {
    spawned: Spawned,
    output: std::io::PipeReader,
    report: std::io::PipeReader,
    is_reaped: bool,
    findings: Option<Findings>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        if let Some(findings) = self.findings.take().filter(|_| !std::thread::panicking()) {
            findings.must_be_none();
        }
    }
}

/// What valgrind takes for an error and is none.
const SUPPRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/helper/valgrind.supp");
/// What it says of a call that it cannot make, which fails then.
const UNKNOWN_CALL: &str = "unhandled amd64-linux syscall: ";

/// What valgrind wrote down. It is part of the process that it looks at and goes when that executes another program, so how
/// that one ends says nothing.
struct Findings(tempfile::NamedTempFile);

impl Findings {
    /// The call that valgrind did not know, if there was one.
    #[track_caller]
    fn must_be_none(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.0.path()).unwrap();
        // Lines with `--` are about valgrind itself, such as calls that it does not know.
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with("==")).collect();
        assert!(found.is_empty(), "valgrind found something:\n{text}");
        let (_, call) = text.split_once(UNKNOWN_CALL)?;
        call.lines().next().map(str::to_owned)
    }
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        self.spawned.pid
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_reaped, true) {
            let _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::KILL);
            let _ = waitpid(Some(self.pid()), WaitOptions::empty());
        }
    }

    /// It has executed its program, or ended: what valgrind found until then fails the test.
    fn judge(&mut self) {
        let findings = self.findings.take();
        if let Some(call) = findings.and_then(|findings| findings.must_be_none()) {
            println!("valgrind does not know the call {call}: up to there, nothing was found");
            self.end();
            // What follows would be judged by what no kernel does. This process is this one test's.
            std::process::exit(0);
        }
    }

    /// Waits until it has executed its program, or failed to.
    pub(crate) fn report(&mut self) -> Report {
        let mut bytes = Vec::new();
        self.report.read_to_end(&mut bytes).unwrap();
        self.judge();
        let mut report = Report::default();
        report.take(&bytes);
        report
    }

    /// Reads the next of what the program says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        self.judge();
        String::from_utf8(line).unwrap()
    }

    pub(crate) fn finish(mut self) -> Ran {
        let report = self.report();
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let status = wait(self.pid());
        self.is_reaped = true;
        Ran {
            output,
            status,
            report,
        }
    }
}

pub(crate) fn wait(pid: Pid) -> WaitStatus {
    waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1
}

/// A shell with a sandbox that asks for nothing yet.
pub(crate) fn shell(script: &str) -> ExecContext {
    ExecContext {
        program: "/bin/sh".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        environment: vec!["PATH=/usr/sbin:/usr/bin:/sbin:/bin".into()],
        stdout: Stream::Fd(0),
        sandbox: Some(Box::default()),
        ..ExecContext::default()
    }
}

/// A shell with a sandbox.
pub(crate) fn sandboxed(script: &str, change: impl FnOnce(&mut Sandbox)) -> ExecContext {
    let mut context = shell(script);
    change(context.sandbox.get_or_insert_default());
    context
}

/// The memory file and the pipe that go behind a context's descriptors.
pub(crate) fn job_file(job: &[u8]) -> OwnedFd {
    let file = rustix::fs::memfd_create("job", MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(file);
    file.write_all(job).unwrap();
    file.rewind().unwrap();
    file.into()
}

pub(crate) fn start(context: &ExecContext) -> Running {
    start_with(delegate(context, HELPER, 1).unwrap(), &[])
}

/// Starts what was delegated with one descriptor for the output and the given ones before the helper's own.
pub(crate) fn start_with(delegated: Delegated, more: &[BorrowedFd<'_>]) -> Running {
    let (output, output_end) = std::io::pipe().unwrap();
    let (report, report_end) = std::io::pipe().unwrap();
    let job = job_file(&delegated.job);
    let mut fds = vec![output_end.as_fd()];
    fds.extend(more);
    fds.extend([job.as_fd(), report_end.as_fd()]);
    let (outer, findings) = checked(delegated.outer);
    let mut spawner = Spawner::new().unwrap();
    let (mut slot, _memory) = Slot::create().unwrap();
    let mut prepared = Prepared::new(&outer, &fds).unwrap();
    let spawned = spawner
        .spawn(&mut prepared, &Launch::default(), &mut slot)
        .unwrap();
    Running {
        spawned,
        output,
        report,
        is_reaped: false,
        findings,
    }
}

/// With `MUSTER_VALGRIND` set, the helper runs under valgrind until it executes, and nothing may be found.
fn checked(mut outer: ExecContext) -> (ExecContext, Option<Findings>) {
    if std::env::var_os("MUSTER_VALGRIND").is_none() {
        return (outer, None);
    }
    let findings = tempfile::NamedTempFile::new().unwrap();
    let log = format!("--log-file={}", findings.path().display());
    let helper = std::mem::replace(&mut outer.program, "/usr/bin/valgrind".into());
    let known = format!("--suppressions={SUPPRESSIONS}");
    // Nobody attaches a debugger, and whoever becomes another user could not remove its pipes.
    let words = [
        "valgrind",
        "--quiet",
        "--vgdb=no",
        "--error-exitcode=99",
        &*known,
        &*log,
    ];
    let words = words.map(Into::into);
    outer.argv.splice(..1, words.into_iter().chain([helper]));
    let options = std::env::var("VALGRIND_OPTS").unwrap_or_default();
    outer.environment = vec![format!("VALGRIND_OPTS={options}").into()];
    (outer, Some(Findings(findings)))
}

pub(crate) fn run(context: &ExecContext) -> Ran {
    start(context).finish()
}

/// Runs a context that works out, and gives what it says.
pub(crate) fn output(context: &ExecContext) -> String {
    let ran = run(context);
    assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
    assert_eq!(ran.report, Report::default(), "nothing is missing");
    ran.output
}

/// Runs a context that fails, checks that nothing was executed, and gives the step and what was said.
pub(crate) fn failure(context: &ExecContext) -> (Step, Failed) {
    let ran = run(context);
    assert_eq!(ran.output, "", "nothing was executed");
    let failed = ran.report.failed.expect("a reason is given");
    let step = failed.step().expect("it is a step");
    let code = i32::from(step.exit_code());
    assert_eq!(ran.status.exit_status(), Some(code), "{failed:?}");
    assert!(!failed.detail.is_empty());
    (step, failed)
}

/// Runs a context that works out without something, and gives what it says and what it lacks.
pub(crate) fn without(context: &ExecContext) -> (String, Vec<String>) {
    let ran = run(context);
    assert_eq!(ran.status.exit_status(), Some(0), "{ran:?}");
    assert_eq!(ran.report.failed, None);
    let dropped = ran.report.dropped.iter().map(ToString::to_string);
    (ran.output, dropped.collect())
}

/// Does something in a mount namespace of its own: whatever is mounted there ends with it.
#[expect(unsafe_code, reason = "the test's thread leaves the machine's view")]
pub(crate) fn isolated<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(|| {
        // SAFETY: the table of descriptors stays shared; folder and mask of this thread become its own.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).unwrap();
        work()
    });
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped, it needs root");
    }
    root
}

/// A field of `/proc/self/status`, as it stands there.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {status:?}"));
    line.split_once(':').unwrap().1.trim()
}

/// A field of `/proc/self/status` that is a mask.
pub(crate) fn mask(status: &str, name: &str) -> u64 {
    u64::from_str_radix(field(status, name), 16).unwrap()
}
