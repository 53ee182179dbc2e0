//! How the process ends.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Probe, command};

#[test]
fn sigterm_and_sigint_end_the_process_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut probe = Probe::start(&mut command("plain"));
        probe.wait_for("ready");
        probe.signal(signal);
        assert_eq!(probe.wait().code(), Some(0), "{signal:?}");
        let log = probe.rest().join("\n");
        assert!(
            log.contains("asked to end; a second signal ends at once"),
            "{log}"
        );
    }
}

#[test]
fn a_second_signal_ends_at_once_with_128_and_its_number_even_if_everything_hangs() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut probe = Probe::start(&mut command("hung"));
        probe.wait_for("hanging");
        probe.signal(Signal::TERM);
        probe.wait_for("asked to end");
        let begun = Instant::now();
        probe.signal(signal);
        assert_eq!(probe.wait().code(), Some(code));
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
        assert!(
            probe
                .rest()
                .join("\n")
                .contains("a second signal: ending at once")
        );
    }
}

#[test]
fn a_task_that_does_not_end_in_time_is_named_and_costs_the_exit_code() {
    let mut probe = Probe::start(&mut command("stubborn"));
    probe.wait_for("ready");
    let begun = Instant::now();
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(1));
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "the grace period was cut short"
    );
    let log = probe.rest().join("\n");
    assert!(
        log.contains("did not end in time") && log.contains("\"stubborn task\""),
        "{log}"
    );
}

#[test]
fn a_task_that_fails_or_panics_ends_the_daemon_and_is_named() {
    let mut probe = Probe::start(&mut command("failing"));
    assert_eq!(probe.wait().code(), Some(1));
    let log = probe.rest().join("\n");
    assert!(
        log.contains("the task failed") && log.contains("\"failing task\""),
        "{log}"
    );
    assert!(
        log.contains("out of luck") && !log.contains("\"good task\""),
        "{log}"
    );

    let mut probe = Probe::start(&mut command("panicking"));
    assert_eq!(probe.wait().code(), Some(1));
    let log = probe.rest().join("\n");
    assert!(
        log.contains("panicked") && log.contains("at the disco"),
        "{log}"
    );
    assert!(log.contains("\"panicking task\""), "{log}");
}
