//! Running a scenario once for every point.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use tempfile::TempDir;

use crate::{Action, Point};

/// One run of a scenario, with one point armed.
#[derive(Debug)]
pub struct Trial {
    point: Point,
    folder: TempDir,
}

impl Trial {
    /// A trial for one point. [`matrix`] makes one for every point of a list.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    #[must_use]
    pub fn new(point: Point) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder for the fault report");
        Self { point, folder }
    }

    /// The armed point.
    #[must_use]
    pub fn point(&self) -> Point {
        self.point
    }

    /// Makes a program kill itself when it first reaches the point.
    pub fn arm(&self, command: &mut Command) {
        self.arm_at(command, 1, Action::Kill);
    }

    /// Makes a program do `action` when it reaches the point for the `nth` time.
    pub fn arm_at(&self, command: &mut Command, nth: u64, action: Action) {
        let request = format!("{}@{nth}={}", self.point.name(), action.word());
        command
            .env("MUSTER_FAULT", request)
            .env("MUSTER_FAULT_REPORT", self.report());
    }

    /// Whether a program armed by this trial reached the point (for the asked time).
    #[must_use]
    pub fn reached(&self) -> bool {
        fs::read_to_string(self.report())
            .is_ok_and(|text| text.lines().any(|line| line == self.point.name()))
    }

    /// Fails the test unless the program died at the point, by `SIGKILL`.
    ///
    /// # Panics
    /// When it ended in another way.
    #[track_caller]
    pub fn assert_killed(&self, status: ExitStatus) {
        assert!(
            self.reached(),
            "{}: never reached; the program ended with {status}",
            self.point()
        );
        assert_eq!(
            status.signal(),
            Some(9),
            "{}: ended with {status}",
            self.point.name()
        );
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("reached")
    }
}

/// Runs the scenario once for every point; each run gets a [`Trial`] to arm its program with.
///
/// The scenario starts the program, waits for its end, starts it again unarmed and checks what must
/// hold.
///
/// # Panics
/// When the scenario does, and, after all points were tried, when some were never reached: such a
/// point is dead, or the scenario is too small.
pub fn matrix(points: &[Point], mut scenario: impl FnMut(&Trial)) {
    let mut never = Vec::new();
    for &point in points {
        // Names the culprit when the scenario panics; shown by the harness only then.
        println!("fault point {point}: {}", point.doc());
        let trial = Trial::new(point);
        scenario(&trial);
        if !trial.reached() {
            never.push(point.name());
        }
    }
    assert!(
        never.is_empty(),
        "the scenario never reached these fault points: {never:?}"
    );
}

/// The path of an example target that is built along with the running test.
///
/// Test programs are examples, not binaries: an example may use dev-dependencies (such as this crate
/// with the points compiled in) and is never installed.
///
/// # Panics
/// When it has not been built; `cargo test` and `cargo nextest run` without a target filter do so.
#[must_use]
pub fn test_program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of the running test");
    let profile = test
        .ancestors()
        .find(|folder| folder.join("examples").is_dir())
        .expect("a target folder around the running test");
    let program = profile.join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is not built; run the whole package",
        program.display()
    );
    program
}
