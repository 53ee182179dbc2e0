//! What an idle identity manager costs: memory, and how often it wakes up.
//!
//! A Main Node, provisioned, with both ports open and nobody connected. Fails above the limits.

#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

#[path = "../tests/daemon/rig.rs"]
#[expect(dead_code, reason = "tests use more of the rig")]
mod rig;

use std::fs;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use rig::{Operator, Site, block_on};

/// What must not be exceeded, in KiB.
const MEMORY: u64 = 6 * 1024;
/// Threads that were at work end after this long without.
const SETTLE: Duration = Duration::from_secs(12);
const WINDOW: Duration = Duration::from_secs(20);

/// Proportional share of memory, in KiB.
fn pss(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// How often any thread has gone to sleep, and with it how often one has woken up.
fn wake_ups(pid: i32) -> (u64, Vec<String>) {
    let mut names = Vec::new();
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let count: u64 = field("voluntary_ctxt_switches:").parse().unwrap_or(0);
        total += count;
        names.push(format!("{} {count}", field("Name:")));
    }
    (total, names)
}

fn main() -> ExitCode {
    let site = Site::new();
    let node = site.node("main");
    // As the unit file has it.
    let program = node
        .program()
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_TRIM_THRESHOLD_", "65536");
    let daemon = rig::Daemon::start(&program);
    block_on(async {
        let operator = Operator {
            channel: node.local().await,
            pki: &site.pki,
            target: "",
            node: "main",
        };
        operator.provision().await.expect("provisioned");
    });
    let pid = daemon.process.pid();
    // A measurement, not a synchronisation: what is looked at is what happens in a while.
    sleep(SETTLE);
    let (before, _) = wake_ups(pid);
    sleep(WINDOW);
    let (after, threads) = wake_ups(pid);
    let (memory, woken) = (pss(pid), after - before);
    println!("idle muster-iam, provisioned Main Node, both ports open");
    println!("  {:<28} {:>8} {:>8}", "", "found", "limit");
    println!("  {:<28} {memory:>8} {MEMORY:>8}", "PSS, KiB");
    println!(
        "  {:<28} {woken:>8} {:>8}",
        format!("wake-ups in {WINDOW:?}"),
        0
    );
    println!(
        "  threads (name, wake-ups since start): {}",
        threads.join(", ")
    );
    daemon.end();
    if memory <= MEMORY && woken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
