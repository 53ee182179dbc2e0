//! Following a journal.

use std::path::Path;

use muster_alert::{AlertSettings, JournalSettings};
use muster_api::domain::{Alert, AlertKind};

use crate::rig::*;

fn texts(alerts: &[Alert]) -> Vec<&str> {
    alerts.iter().map(text).collect()
}

#[tokio::test]
async fn entries_become_alerts_by_priority_unit_and_filter() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    log.say(3, "history");
    let settings = JournalSettings {
        dirs: vec![dir],
        filters: vec!["^known .* noise$".to_owned()],
        ..JournalSettings::default()
    };
    let node = Node::with(folder.path(), AlertSettings::default(), Some(settings)).await;
    node.has_begun().await;

    log.say(3, "an error");
    log.say(4, "only a warning");
    log.say(2, "known harmless noise");
    let unit = instance_unit();
    let of = |unit: &str, priority: u8, message: &str| {
        vec![
            format!("MESSAGE={message}"),
            format!("PRIORITY={priority}"),
            format!("_SYSTEMD_UNIT={unit}"),
        ]
    };
    log.append(&of(&unit, 3, "the instance fails"));
    log.append(&of(&unit, 4, "the instance warns"));
    log.append(&of("muster-iam.service", 4, "a manager warns"));
    log.append(&of(
        "muster-sm.service",
        3,
        "ERROR muster_alert::alerts: about alerts",
    ));
    let about = |uid: &str, priority: u8, message: &str| {
        vec![
            format!("MESSAGE={message}"),
            format!("PRIORITY={priority}"),
            "SYSLOG_IDENTIFIER=muster-core".to_owned(),
            "_SYSTEMD_UNIT=x.service".to_owned(),
            format!("_UID={uid}"),
            format!("UNIT={unit}"),
        ]
    };
    log.append(&about("0", 4, "the instance was killed"));
    log.append(&about("1000", 3, "somebody pretends"));
    log.append(&["PRIORITY=0", "SYSLOG_IDENTIFIER=kernel", "MESSAGE=last"]);

    let alerts = node.take_until("last").await;
    let instance = |message: &str| AlertKind::Instance {
        instance: ident(),
        version: "1.2.3".to_owned(),
        message: message.to_owned(),
    };
    let system = |message: &str| AlertKind::System {
        message: message.to_owned(),
    };
    let expected = [
        system("a.service: an error"),
        instance("the instance fails"),
        AlertKind::Core {
            component: "IAM".to_owned(),
            message: "a manager warns".to_owned(),
        },
        instance("the instance was killed"),
        system("x.service: somebody pretends"),
        system("kernel: last"),
    ];
    let kinds: Vec<_> = alerts.into_iter().map(|alert| alert.kind).collect();
    assert_eq!(kinds, expected);
    node.stop().await;
}

#[tokio::test]
async fn what_is_written_while_nobody_looks_is_found_later_and_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let mut expected = Vec::new();
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    node.stop().await;
    let mut found = Vec::new();
    for round in 0..4 {
        // More than one look takes, over several files.
        for number in 0..150 {
            let message = letters(round * 1000 + number);
            log.say(3, &message);
            log.say(6, "of no interest");
            expected.push(format!("a.service: {message}"));
            if number == 75 {
                log.rotate();
            }
        }
        let node = Node::follow(folder.path(), &[&dir]).await;
        let last = expected.last().expect("some");
        found.extend(node.take_until(last).await);
        node.stop().await;
    }
    assert_eq!(texts(&found), expected);
}

#[tokio::test]
async fn rotation_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    for number in 0..20 {
        log.say(3, &letters(number));
        let found = node.take_until(&letters(number)).await;
        assert_eq!(texts(&found), [format!("a.service: {}", letters(number))]);
        log.rotate();
        if number % 5 == 4 {
            // What was read may go.
            log.vacuum();
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn entries_that_were_removed_unread_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    log.say(3, "seen");
    node.take_until("seen").await;
    node.stop().await;

    for number in 0..10 {
        log.say(3, &letters(number));
    }
    log.rotate();
    log.vacuum();
    log.say(3, "left");
    let node = Node::follow(folder.path(), &[&dir]).await;
    let found = node.take_until("left").await;
    assert_eq!(
        texts(&found),
        [
            "10 entries of the journal (numbers 2 to 11) were removed before they were looked at; \
             going on with the oldest that is left",
            "a.service: left",
        ]
    );
    // Said once.
    node.stop().await;
    let node = Node::follow(folder.path(), &[&dir]).await;
    log.say(3, "next");
    assert_eq!(texts(&node.take_until("next").await), ["a.service: next"]);
    node.stop().await;
}

#[tokio::test]
async fn a_journal_that_is_removed_and_made_anew_is_told_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    log.say(3, "seen");
    node.take_until("seen").await;
    drop(log);
    std::fs::remove_dir_all(&dir).expect("removed");
    let told = node.take_until("was not looked at").await;
    assert_eq!(
        texts(&told),
        ["a journal was removed; what it held after entry number 1 was not looked at"]
    );
    let mut log = Log::new(&dir, "another");
    log.say(3, "anew");
    assert_eq!(texts(&node.take_until("anew").await), ["a.service: anew"]);
    node.stop().await;
}

#[tokio::test]
async fn a_folder_that_comes_later_is_read_from_its_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let dirs = ["run", "var"].map(|name| folder.path().join(name));
    let both: Vec<&Path> = dirs.iter().map(AsRef::as_ref).collect();
    let node = Node::follow(folder.path(), &both).await;
    node.has_begun().await;
    for (dir, name) in dirs.iter().zip(["one", "two"]) {
        let mut log = Log::new(dir, name);
        log.say(3, name);
        assert_eq!(
            texts(&node.take_until(name).await),
            [format!("a.service: {name}")]
        );
    }
    node.stop().await;
}

/// Two daemons write at the same time. What one of them writes late, with an earlier time than the other's last entry, is
/// read nevertheless, also when the reader was restarted in between.
#[tokio::test]
async fn an_entry_that_is_written_late_is_not_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let (mut one, mut two) = (Log::new(&dir, "one"), Log::new(&dir, "two"));
    let entry = |message: &str| [format!("MESSAGE={message}"), "PRIORITY=3".to_owned()];
    two.append_at(500, &entry("history"));
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    one.append_at(2000, &entry("prompt"));
    assert_eq!(texts(&node.take_until("prompt").await), ["prompt"]);
    node.stop().await;
    two.append_at(1000, &entry("late"));
    one.append_at(3000, &entry("last"));
    let node = Node::follow(folder.path(), &[&dir]).await;
    assert_eq!(texts(&node.take_until("last").await), ["late", "last"]);
    two.append_at(2500, &entry("later still"));
    assert_eq!(
        texts(&node.take_until("later still").await),
        ["later still"]
    );
    node.stop().await;
}

/// journald moves entries from memory to the disk under new numbers.
#[tokio::test]
async fn a_copy_of_an_entry_is_the_same_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, var) = (folder.path().join("run"), folder.path().join("var"));
    let mut memory = Log::new(&run, "memory");
    let node = Node::follow(folder.path(), &[&run, &var]).await;
    node.has_begun().await;
    let entry = |message: &str| [format!("MESSAGE={message}"), "PRIORITY=3".to_owned()];
    memory.append_at(1000, &entry("once"));
    assert_eq!(texts(&node.take_until("once").await), ["once"]);
    node.stop().await;
    let mut disk = Log::new(&var, "disk");
    disk.append_at(1000, &entry("once"));
    disk.append_at(2000, &entry("more"));
    let node = Node::follow(folder.path(), &[&run, &var]).await;
    assert_eq!(texts(&node.take_until("more").await), ["more"]);
    node.stop().await;
}

fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let value = value.and_then(|rest| rest.trim().strip_suffix(" kB"));
    value.expect("a size").trim().parse().expect("a number")
}

#[tokio::test]
async fn hostile_entries_are_bounded_and_readable() {
    muster_lab::alone!();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    node.stop().await;
    let huge = [b"MESSAGE=huge ".as_slice(), &b"x".repeat(60 << 20)].concat();
    log.append(&[&huge[..], b"PRIORITY=3"]);
    let mut noise = vec![0_u8; 20 << 20];
    let mut state = 1_u64;
    for byte in &mut noise {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = state.to_le_bytes()[7];
    }
    log.append(&[
        &[b"MESSAGE=noise ".as_slice(), &noise].concat()[..],
        b"PRIORITY=3",
    ]);
    log.append(&[&b"MESSAGE=\x1b[2J\x00\xff"[..], b"PRIORITY=3"]);
    log.append(&[b"MESSAGE=".as_slice(), b"PRIORITY=3"]);
    log.append(&[b"MESSAGE=not a priority".as_slice(), b"PRIORITY=high"]);
    log.append(&[b"PRIORITY=3".as_slice(), b"OTHER=no message"]);
    log.append(&[b"MESSAGE=last".as_slice(), b"PRIORITY=3"]);
    drop((huge, noise));

    // From here on the peak counts.
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = memory_kib("VmRSS:");
    let node = Node::follow(folder.path(), &[&dir]).await;
    let found = node.take_until("last").await;
    let grown = memory_kib("VmHWM:").saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB for entries of 80 MiB");
    let texts = texts(&found);
    assert!(texts[0].starts_with("huge xxx") && texts[0].len() <= 8192);
    assert!(texts[1].starts_with("noise ") && texts[1].len() <= 8192);
    assert_eq!(
        texts[2..],
        ["\u{fffd}[2J\u{fffd}\u{fffd}", "(an empty line)", "last"]
    );
    node.stop().await;
}

/// How often threads of this process were woken up.
fn wake_ups() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        switches.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}

#[tokio::test]
async fn a_quiet_journal_costs_a_few_wake_ups_a_minute() {
    muster_lab::alone!();
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("journal");
    let mut log = Log::new(&dir, "system");
    let node = Node::follow(folder.path(), &[&dir]).await;
    node.has_begun().await;
    log.say(3, "seen");
    node.take_until("seen").await;
    // The flood's window and the look after the last entry are over by then.
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    let before = wake_ups();
    // Long enough for two looks at the folders.
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    let woken = wake_ups() - before;
    assert!(woken <= 20, "{woken} wake-ups in 11 s");
    node.stop().await;
}

#[tokio::test]
async fn damage_in_a_file_hides_nothing_in_others() {
    use std::os::unix::fs::FileExt as _;
    for round in 1..=8_u64 {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("journal");
        let mut log = Log::new(&dir, "system");
        let node = Node::follow(folder.path(), &[&dir]).await;
        node.has_begun().await;
        node.stop().await;
        for number in 0..50 {
            log.say(3, &letters(number));
        }
        let path = log.rotate();
        let file = std::fs::File::options()
            .write(true)
            .open(&path)
            .expect("the file");
        let size = file.metadata().expect("a size").len();
        // Some bytes here and there, each time elsewhere, but not in the header.
        let mut place = round;
        for _ in 0..200 {
            place = place
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let offset = 4096 + (place >> 20) % (size - 4096 - 8);
            file.write_all_at(&place.to_le_bytes(), offset)
                .expect("damaged");
        }
        log.say(3, "last");
        let node = Node::follow(folder.path(), &[&dir]).await;
        let found = node.take_until("a.service: last").await;
        assert!(found.len() <= 51);
        node.stop().await;
    }
}
