//! A big journal of many instances.

use crate::rig::*;

/// The busy one among a hundred.
const BUSY: u64 = 42;

fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let value = value.and_then(|rest| rest.trim_start_matches(':').trim().strip_suffix(" kB"));
    value.expect("a size").trim().parse().expect("a number")
}

fn bytes_in(dir: &std::path::Path) -> u64 {
    muster_journal::disk_usage(dir).expect("a size")
}

/// Writes lines of a hundred instances until the journal has this size; how many seconds they cover.
fn fill(dir: &std::path::Path, mebibytes: u64) -> u64 {
    let mut log = Log::new(dir);
    let mut second = 0;
    loop {
        for line in 0..40 {
            let message = format!("busy {second} {line} {:0300}", second * 40 + line);
            log.say(second, &unit(BUSY, 1), &message);
        }
        let other = second % 100;
        if other != BUSY {
            log.say(second, &unit(other, 1), &format!("other {second}"));
        }
        second += 1;
        if second.is_multiple_of(100) && bytes_in(dir) >= mebibytes << 20 {
            return second;
        }
    }
}

/// With MUSTER_SOAK=1 a gigabyte, else less.
#[tokio::test]
async fn ten_minutes_of_a_big_journal_come_complete_in_little_memory() {
    muster_lab::alone!();
    let dir = tempfile::tempdir().expect("a folder");
    let mebibytes = u64::from(muster_lab::rounds(96, 1024));
    let seconds = fill(dir.path(), mebibytes);
    assert!(seconds > 1200, "{seconds} s");
    // From here on the peak counts.
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = memory_kib("VmRSS");
    let collector = collector(settings(dir.path()));
    let from = seconds / 2;
    let bounds = (i64::try_from(from).ok(), i64::try_from(from + 599).ok());
    let started = std::time::Instant::now();
    // Parts are looked at one by one: this test must not be the one who needs memory.
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let busy = i64::try_from(BUSY).expect("small");
    let collecting =
        tokio::spawn(async move { collector.collect(instance(busy, bounds), sender).await });
    let (mut next, mut parts) = (from * 40, 0);
    while let Some(part) = receiver.recv().await {
        parts += 1;
        assert_eq!(part.part, parts);
        for message in messages(&unpack(&part)) {
            let expected = format!("busy {} {} ", next / 40, next % 40);
            assert!(
                message.starts_with(&expected),
                "{message} instead of {expected}"
            );
            next += 1;
        }
    }
    collecting.await.expect("a task");
    let took = started.elapsed();
    assert_eq!(next, (from + 600) * 40, "complete");
    let grown = memory_kib("VmHWM").saturating_sub(before);
    println!("{mebibytes} MiB of journal: {parts} parts in {took:?}, {grown} KiB above idle");
    assert!(grown <= 16 << 10, "{grown} KiB above idle");
}
