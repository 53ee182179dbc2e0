//! A process of its own for a test that looks at its process from outside.

use std::time::Duration;

use crate::program::Program;

/// Set in the process that runs one test only.
const ALONE_VARIABLE: &str = "MUSTER_LAB_ALONE";
/// Longer than any runner lets a test take.
const TIME: Duration = Duration::from_secs(600);

/// Behind [`alone!`](crate::alone!): whether the test was run in another process, and has passed there.
///
/// # Panics
/// Panics with the other process's output when the test failed there.
#[track_caller]
pub fn ran_elsewhere(here: &str) -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is(ALONE_VARIABLE, "1") || is("NEXTEST_EXECUTION_MODE", "process-per-test") {
        return false;
    }
    let test = test_name(here);
    let run = || {
        let mut process = Program::new(std::env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(ALONE_VARIABLE, "1")
            .start()?;
        let status = process.wait(TIME)?;
        Ok::<_, Box<dyn std::error::Error>>((status, process.lines()))
    };
    let (status, lines) = run().unwrap_or_else(|error| panic!("cannot run {test} alone: {error}"));
    let lines: Vec<_> = lines.into_iter().map(|line| line.text).collect();
    assert!(
        status.success()
            && lines
                .iter()
                .any(|line| line.starts_with("test result: ok. 1 passed")),
        "{test}, run alone, ended with {status}:\n{}",
        lines.join("\n")
    );
    true
}

/// The test's name as its own runner knows it: without the crate, and what is inside the function.
fn test_name(here: &str) -> &str {
    let path = here
        .trim_end_matches("::here")
        .trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_, name)| name)
}

/// Runs the test in a process of its own, whatever runner there is; to be called first.
///
/// A runner with a process per test does so anyway. Others run tests as threads of one process, in which
/// a [`Snapshot`](crate::leaks::Snapshot) would see what other tests have started.
#[macro_export]
macro_rules! alone {
    () => {
        fn here() {}
        if $crate::alone::ran_elsewhere(::std::any::type_name_of_val(&here)) {
            return;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_is_named_as_its_runner_knows_it() {
        assert_eq!(
            test_name("muster_lab::leaks::tests::x::here"),
            "leaks::tests::x"
        );
        assert_eq!(test_name("chaos::survives::{{closure}}::here"), "survives");
    }

    #[test]
    fn only_one_test_runs_in_the_process() {
        crate::alone!();
        assert!(
            std::env::args().any(|arg| arg == "alone::tests::only_one_test_runs_in_the_process")
        );
    }
}
