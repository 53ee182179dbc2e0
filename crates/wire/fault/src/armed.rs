//! The point that this process is to stop at, and stopping there.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::request::Request;
use crate::{Action, ArmFault, Point};

const FAULT: &str = "MUSTER_FAULT";
const REPORT: &str = "MUSTER_FAULT_REPORT";

struct Armed {
    request: Request,
    report: Option<PathBuf>,
    hits: AtomicU64,
}

/// `None` inside: the environment asks for nothing.
static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Reads `MUSTER_FAULT` and checks it against the points that the program has.
///
/// Called first in `main`, with the lists of all crates that are linked in. A request that cannot
/// be met ends the process with a message and `SIGABRT`.
pub fn init(known: &[&[Point]]) {
    ARMED.get_or_init(|| read(|text| Request::parse(text, known)));
}

/// Marks a moment at which a test may kill the program.
///
/// Does nothing unless `MUSTER_FAULT` names this point; then see the crate's documentation.
pub fn hit(point: Point) {
    let armed = ARMED.get_or_init(|| read(|_| Err(ArmFault::NotInitialised(point.name()))));
    if let Some(armed) = armed
        && armed.request.point.name() == point.name()
        && armed.hits.fetch_add(1, Ordering::SeqCst) + 1 == armed.request.nth.get()
    {
        armed.fire();
    }
}

fn read(parse: impl FnOnce(&str) -> Result<Request, ArmFault>) -> Option<Armed> {
    let text = env::var_os(FAULT)?;
    let request = text.to_str().ok_or(ArmFault::NotText).and_then(parse);
    let request = request.unwrap_or_else(|refused| give_up(&refused.to_string()));
    let report = env::var_os(REPORT).map(PathBuf::from);
    Some(Armed {
        request,
        report,
        hits: AtomicU64::new(0),
    })
}

impl Armed {
    fn fire(&self) {
        if let Some(path) = &self.report {
            report(path, self.request.point);
        }
        match self.request.action {
            Action::Kill => {
                signal(Signal::KILL);
                // Death is certain once the signal is sent; nothing of this thread may follow.
                hang()
            }
            Action::Stop => {
                signal(Signal::STOP);
                // The kernel lets another thread take the signal and stops this one a moment
                // later. Time spent here is spent stopped, and ends soon after SIGCONT.
                thread::sleep(Duration::from_millis(20));
            }
            Action::Hang => hang(),
        }
    }
}

/// One `write` to a file opened for appending: lines of several processes do not mix.
fn report(path: &Path, point: Point) {
    let line = format!("{}\n", point.name());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        give_up(&format!(
            "{REPORT}: cannot write {}: {error}",
            path.display()
        ));
    }
}

fn signal(signal: Signal) {
    if let Err(error) = kill_process(getpid(), signal) {
        give_up(&format!(
            "cannot send {signal:?} to the own process: {error}"
        ));
    }
}

fn hang() -> ! {
    loop {
        thread::park();
    }
}

fn give_up(message: &str) -> ! {
    eprintln!("muster-fault: {message}");
    std::process::abort()
}
