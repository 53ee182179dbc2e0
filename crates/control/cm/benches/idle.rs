//! What a Communication Manager costs before anything is asked of it: how soon it is ready, and what it holds when idle.
//!
//! A Main Node's, without TLS, networks and nodes. Fails above the limits.

#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use muster_lab::program::{Process, Program};
use serde_json::json;

/// What must not be exceeded.
const READY_MS: u64 = 50;
const IDLE_KIB: u64 = 8 * 1024;

const TIME: Duration = Duration::from_secs(60);
/// The best of so many starts counts: everything else that a machine does only makes them longer.
const STARTS: usize = 10;
/// Memory that only the start has needed goes back within this time.
const SETTLE: Duration = Duration::from_secs(20);
/// Long enough for everything that it does now and then.
const WINDOW_SECONDS: usize = 40;

/// Starts it in an empty or used folder; how long it took until it said that it is ready.
fn start(folder: &Path) -> (Process, Duration) {
    let (config, said) = (folder.join("cm.json"), folder.join("notify"));
    let at = |name: &str| folder.join(name);
    let settings = json!({
        "insecure": "a measurement",
        "cmServerUrl": "127.0.0.1:0",
        "fileServerUrl": "127.0.0.1:0",
        "workingDir": at("work"),
        "storageDir": at("storages"),
        "stateDir": at("states"),
        "controlSocket": at("cm.sock"),
        "networks": {"mode": "off"},
    });
    fs::write(&config, settings.to_string()).unwrap();
    let _ = fs::remove_file(&said);
    let notified = UnixDatagram::bind(&said).unwrap();
    notified.set_read_timeout(Some(TIME)).unwrap();
    // As the unit file has it.
    let program = Program::new(env!("CARGO_BIN_EXE_muster-cm"))
        .arg("--config")
        .arg(config)
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_TRIM_THRESHOLD_", "65536")
        .env("NOTIFY_SOCKET", said);
    let begun = Instant::now();
    let process = program.start().unwrap();
    let mut message = [0; 4096];
    loop {
        let length = notified.recv(&mut message).expect("it gets ready");
        let text = String::from_utf8_lossy(&message[..length]);
        if text.lines().any(|line| line == "READY=1") {
            return (process, begun.elapsed());
        }
    }
}

/// Proportional share of memory, in KiB.
fn pss(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let mut best = Duration::MAX;
    let mut running = None;
    for _ in 0..STARTS {
        // Ends with the process before it: one at a time has the folder.
        drop(running.take());
        let (process, took) = start(folder.path());
        best = best.min(took);
        running = Some(process);
    }
    let process = running.expect("it was started");
    // Measurements, not synchronisation: what is looked at is what is left after a while.
    sleep(SETTLE);
    let mut memory: Vec<u64> = Vec::with_capacity(WINDOW_SECONDS);
    for _ in 0..WINDOW_SECONDS {
        sleep(Duration::from_secs(1));
        memory.push(pss(process.pid()));
    }
    memory.sort_unstable();
    let (least, most) = (memory[0], memory[WINDOW_SECONDS - 1]);
    let (ready, idle) = (
        u64::try_from(best.as_millis()).unwrap(),
        memory[WINDOW_SECONDS / 2],
    );
    println!("muster-cm, without nodes");
    println!("  {:<36} {:>8} {:>8}", "", "found", "limit");
    println!(
        "  {:<36} {ready:>8} {READY_MS:>8}",
        format!("ready, ms (best of {STARTS})")
    );
    println!("  {:<36} {idle:>8} {IDLE_KIB:>8}", "idle, PSS in KiB");
    println!("  memory over {WINDOW_SECONDS} s: {least} to {most} KiB");
    if ready <= READY_MS && idle <= IDLE_KIB {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
