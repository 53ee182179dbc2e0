//! What is asked for is what comes.

use muster_api::servicemanager::v5 as wire;
use muster_logs::{LogRequest, LogSettings};
use tokio::sync::mpsc;

use crate::rig::*;

/// A hundred seconds, one line of each of two instances and of the system in each, in three files.
fn three_files(dir: &std::path::Path) -> Log {
    let mut log = Log::new(dir);
    for second in 0..100 {
        log.say(second, "ssh.service", &format!("system {second}"));
        log.say(second, &unit(1, 1 + second / 40), &format!("one {second}"));
        log.say(second, &unit(2, 1), &format!("two {second}"));
        if second % 35 == 34 {
            log.rotate();
        }
    }
    log
}

#[tokio::test]
async fn the_wanted_time_comes_complete_and_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let _log = three_files(dir.path());
    let collector = collector(settings(dir.path()));
    let numbers = |who: &str, range: std::ops::RangeInclusive<u64>| {
        range
            .map(|second| format!("{who} {second}"))
            .collect::<Vec<_>>()
    };
    let all = text(&collector, system((None, None))).await;
    assert_eq!(messages(&all).len(), 300);
    assert!(
        all.starts_with("2023-11-14T22:13:20Z info ssh.service -: system 0\n"),
        "{all}"
    );
    let some = text(&collector, system((Some(30), Some(40)))).await;
    assert_eq!(messages(&some).len(), 33);
    assert_eq!(messages(&some)[0], "system 30");
    // All starts of the instance, and nothing of others.
    let one = text(&collector, instance(1, (None, None))).await;
    assert_eq!(messages(&one), numbers("one", 0..=99));
    let one = text(&collector, instance(1, (Some(30), Some(45)))).await;
    assert_eq!(messages(&one), numbers("one", 30..=45));
    let one = text(&collector, instance(1, (Some(98), None))).await;
    assert_eq!(messages(&one), numbers("one", 98..=99));
    let one = text(&collector, instance(1, (None, Some(0)))).await;
    assert_eq!(messages(&one), numbers("one", 0..=0));
    // Of all instances.
    let both = text(&collector, instance(-1, (Some(7), Some(7)))).await;
    assert_eq!(messages(&both), ["one 7", "two 7"]);
}

#[tokio::test]
async fn the_init_systems_words_about_an_instance_are_its_log_if_it_said_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(dir.path());
    let about = |uid: u32, message: &str| {
        vec![
            format!("MESSAGE={message}"),
            format!("UNIT={}", unit(1, 1)),
            format!("_UID={uid}"),
        ]
    };
    log.append(1, &about(0, "Started"));
    log.append(2, &about(1000, "pretended"));
    let collector = collector(settings(dir.path()));
    let text = text(&collector, instance(1, (None, None))).await;
    assert_eq!(messages(&text), ["Started"]);
}

fn only(parts: &[wire::LogData]) -> (&str, Option<(i32, &str)>) {
    let [part] = parts else {
        panic!("{parts:?}");
    };
    assert!(part.data.is_empty());
    let error = part.error.as_ref();
    (
        &part.status,
        error.map(|error| (error.aos_code, &*error.message)),
    )
}

#[tokio::test]
async fn what_cannot_be_given_is_answered_with_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let _log = three_files(dir.path());
    let collector = collector(settings(dir.path()));
    for (request, status) in [
        (system((Some(1000), None)), "empty"),
        (instance(1, (Some(1000), None)), "empty"),
        // An instance that never said anything.
        (instance(3, (None, None)), "empty"),
        (crash(1), "empty"),
        (instance(1000, (None, None)), "absent"),
        (crash(1000), "absent"),
    ] {
        let parts = ask(&collector, request).await;
        assert_eq!(only(&parts), (status, None));
    }
    let parts = ask(&collector, system((Some(2), Some(1)))).await;
    assert_eq!(
        only(&parts),
        ("error", Some((6, "the wanted time ends before it begins")))
    );
    let parts = ask(&collector, instance(-7, (None, None))).await;
    let (status, error) = only(&parts);
    assert_eq!((status, error.map(|(code, _)| code)), ("error", Some(6)));
    let strange = LogRequest::System(wire::SystemLogRequest {
        from: Some(prost_types::Timestamp {
            seconds: i64::MAX,
            nanos: -1,
        }),
        ..wire::SystemLogRequest::default()
    });
    assert_eq!(only(&ask(&collector, strange).await).0, "error");

    let nowhere = crate::rig::collector(settings(&dir.path().join("nowhere")));
    let parts = ask(&nowhere, system((None, None))).await;
    let (status, error) = only(&parts);
    let (code, message) = error.expect("why");
    assert_eq!((status, code), ("error", 1));
    assert!(
        message.starts_with("cannot open the journal: cannot read journal directory"),
        "{message}"
    );
}

/// The node has it no more, but its log is still there.
#[tokio::test]
async fn an_instance_that_is_gone_can_be_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(dir.path());
    log.say(1, &unit(500, 1), "last words");
    let collector = collector(settings(dir.path()));
    let text = text(&collector, instance(500, (None, None))).await;
    assert_eq!(messages(&text), ["last words"]);
}

#[tokio::test]
async fn of_too_many_parts_the_newest_come_and_that_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(dir.path());
    for second in 0..1000 {
        log.say(
            second,
            "a.service",
            &format!("line {second} {}", "x".repeat(100)),
        );
    }
    let settings = LogSettings {
        part_bytes: 4096,
        part_count: 5,
        line_bytes: 1024,
        ..settings(dir.path())
    };
    let collector = collector(settings);
    let parts = ask(&collector, system((None, None))).await;
    assert_eq!(parts.len(), 5);
    let texts: Vec<String> = parts.iter().map(unpack).collect();
    assert!(
        texts
            .iter()
            .all(|text| text.len() <= 4096 && text.ends_with('\n'))
    );
    assert!(texts.iter().all(|text| text.len() > 3000));
    let (note, rest) = texts[0].split_once('\n').expect("lines");
    assert_eq!(
        note,
        "-- older entries are left out: an answer has at most 5 parts of 4096 bytes; ask for a shorter time --"
    );
    let all = [rest, &texts[1..].concat()].concat();
    let numbers: Vec<u64> = messages(&all)
        .iter()
        .map(|message| {
            message
                .split(' ')
                .nth(1)
                .expect("a number")
                .parse()
                .expect("a number")
        })
        .collect();
    let first = numbers[0];
    assert!(first > 800);
    assert_eq!(numbers, (first..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn hostile_entries_are_lines_like_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(dir.path());
    log.append(
        1,
        &[[b"MESSAGE=huge ".as_slice(), &b"x".repeat(30 << 20)].concat()],
    );
    log.append(2, &[b"MESSAGE=\x00\x1b[2J\xff\nsecond line"]);
    log.append(3, &[b"NOTHING=here"]);
    log.append(
        4,
        &[
            b"MESSAGE=a".as_slice(),
            b"MESSAGE=b",
            b"SYSLOG_IDENTIFIER=x\ny",
        ],
    );
    let collector = collector(settings(dir.path()));
    let text = text(&collector, system((None, None))).await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].len() <= 32 << 10);
    assert!(lines[0].contains(": huge xxx"), "{}", &lines[0][..100]);
    assert!(lines[0].ends_with(" bytes more)"));
    assert!(
        lines[1].ends_with(": \\u{0}\\u{1b}[2J\\xff"),
        "{}",
        lines[1]
    );
    assert_eq!(lines[2], "    second line");
    assert!(lines[3].ends_with(" - - -: "));
    assert!(lines[4].contains(" x_y: "), "{}", lines[4]);
    assert_eq!(lines.len(), 5);
}

#[tokio::test]
async fn many_are_answered_and_one_that_goes_away_is_given_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(dir.path());
    for second in 0..20_000 {
        log.say(
            second,
            &unit(second % 10, 1),
            &format!("line {second} {}", "x".repeat(100)),
        );
    }
    let settings = LogSettings {
        part_bytes: 32 << 10,
        parallel: 2,
        ..settings(dir.path())
    };
    let collector = collector(settings);
    // Both turns are taken by those who take one part and then nothing more.
    let mut stuck = Vec::new();
    for _ in 0..2 {
        let (sender, mut receiver) = mpsc::channel(1);
        let collector = collector.clone();
        let task =
            tokio::spawn(async move { collector.collect(system((None, None)), sender).await });
        let part = receiver.recv().await.expect("a part");
        assert!(part.part_count > 50);
        stuck.push((receiver, task));
    }
    // One that waits for its turn can be given up as well.
    let (sender, receiver) = mpsc::channel(1);
    let waiting = tokio::spawn({
        let collector = collector.clone();
        async move { collector.collect(system((None, None)), sender).await }
    });
    drop(receiver);
    tokio::time::timeout(TIME, waiting)
        .await
        .expect("given up")
        .expect("a task");

    let answers = (0..10).map(|number| {
        let collector = collector.clone();
        tokio::spawn(async move { text(&collector, instance(number, (None, None))).await })
    });
    let answers: Vec<_> = answers.collect();
    for (receiver, task) in stuck {
        drop(receiver);
        tokio::time::timeout(TIME, task)
            .await
            .expect("given up")
            .expect("a task");
    }
    for answer in answers {
        assert_eq!(messages(&answer.await.expect("a task")).len(), 2000);
    }
}
