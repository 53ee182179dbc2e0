//! The point that this process is to stop at, and stopping there.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
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
const FILE: &str = "MUSTER_FAULT_FILE";

struct Armed {
    request: Request,
    report: Option<PathBuf>,
    hits: AtomicU64,
}

/// What the environment asks for.
enum Wish {
    Nothing,
    /// A request that stands from the start.
    Request(Armed),
    /// A file that may hold a request at any time.
    File(StandingFile),
}

struct StandingFile {
    path: PathBuf,
    known: Vec<Point>,
    /// How often the wanted point was reached since the file came.
    hits: AtomicU64,
}

static WISH: OnceLock<Wish> = OnceLock::new();

/// Reads `MUSTER_FAULT` and checks it against the points that the program has.
///
/// Called first in `main`, with the lists of all crates that are linked in. A request that cannot
/// be met ends the process with a message and `SIGABRT`.
pub fn init(known: &[&[Point]]) {
    WISH.get_or_init(|| match env::var_os(FILE) {
        Some(path) => Wish::File(StandingFile {
            path: path.into(),
            known: known.concat(),
            hits: AtomicU64::new(0),
        }),
        None => read(|text| Request::parse(text, known)),
    });
}

/// Marks a moment at which a test may kill the program.
///
/// Does nothing unless `MUSTER_FAULT` names this point; then see the crate's documentation.
pub fn hit(point: Point) {
    let unchecked = || Err(ArmFault::NotInitialised(point.name()));
    match WISH.get_or_init(|| read(|_| unchecked())) {
        Wish::Nothing => {}
        Wish::Request(armed) => armed.hit(point),
        Wish::File(file) => file.hit(point),
    }
}

fn read(parse: impl FnOnce(&str) -> Result<Request, ArmFault>) -> Wish {
    let Some(text) = env::var_os(FAULT) else {
        return Wish::Nothing;
    };
    let request = text.to_str().ok_or(ArmFault::NotText).and_then(parse);
    let request = request.unwrap_or_else(|refused| give_up(&refused.to_string()));
    let report = env::var_os(REPORT).map(PathBuf::from);
    Wish::Request(Armed {
        request,
        report,
        hits: AtomicU64::new(0),
    })
}

impl StandingFile {
    fn hit(&self, point: Point) {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.hits.store(0, Ordering::SeqCst);
                return;
            }
            Err(error) => give_up(&format!(
                "{FILE}: cannot read {}: {error}",
                self.path.display()
            )),
        };
        let request = Request::parse(text.trim_end(), &[&self.known])
            .unwrap_or_else(|refused| give_up(&refused.to_string()));
        if request.point.name() != point.name()
            || self.hits.fetch_add(1, Ordering::SeqCst) + 1 != request.nth.get()
        {
            return;
        }
        let mut reached = self.path.clone().into_os_string();
        reached.push(".reached");
        if let Err(error) = fs::rename(&self.path, reached) {
            give_up(&format!(
                "{FILE}: cannot rename {}: {error}",
                self.path.display()
            ));
        }
        act(request.action);
    }
}

impl Armed {
    fn hit(&self, point: Point) {
        if self.request.point.name() != point.name()
            || self.hits.fetch_add(1, Ordering::SeqCst) + 1 != self.request.nth.get()
        {
            return;
        }
        if let Some(path) = &self.report {
            report(path, self.request.point);
        }
        act(self.request.action);
    }
}

fn act(action: Action) {
    match action {
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
