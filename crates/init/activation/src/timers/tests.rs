use super::*;
use muster_unit_file::calendar::CalendarSpec;
use muster_unit_file::timespan::TimeSpan;

fn calendar(text: &str) -> TimerSpec {
    TimerSpec::Calendar(Box::new(CalendarSpec::parse(text).unwrap()))
}

#[test]
fn calendar_lines_are_answered_in_their_order() {
    let config = TimerConfig {
        timers: vec![
            calendar("*-*-* 12:00:00"),
            TimerSpec::Monotonic {
                base: muster_unit_file::config::TimerBase::Boot,
                span: TimeSpan::from_secs(1),
            },
            calendar("1999-01-01"),
            calendar("*:0/15"),
        ],
        ..TimerConfig::default()
    };
    let after = 1_000_000_000_000_000; // 2001-09-09 01:46:40 UTC
    let answer = next_elapses(&config, after, &TimeZone::UTC);
    let noon = 1_000_036_800_000_000;
    let next_hour = 1_000_000_800_000_000;
    assert_eq!(answer, [Some(noon), None, Some(next_hour)]);
    assert_eq!(next_elapses(&config, i64::MAX, &TimeZone::UTC), [None; 3]);
}

#[test]
fn stamps_keep_the_microsecond_and_survive_being_read_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let stamps = StampFolder::new(&dir.path().join("a/b"));
    assert_eq!(stamps.read("x.timer").unwrap(), None);
    for at in [1_700_000_000_123_456, 0, 1_600_000_000_999_999] {
        stamps.write("x.timer", at).unwrap();
        assert_eq!(stamps.read("x.timer").unwrap(), Some(at));
    }
    let file = dir.path().join("a/b/stamp-x.timer");
    let modified = file.metadata().unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_micros(), 1_600_000_000_999_999);
    stamps.remove("x.timer").unwrap();
    stamps.remove("x.timer").unwrap();
    assert_eq!(stamps.read("x.timer").unwrap(), None);
}

#[test]
fn stamp_errors_name_the_file_and_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let stamps = StampFolder::new(&dir.path().join("file"));
    let error = stamps.write("x.timer", 1).unwrap_err();
    assert!(error.to_string().ends_with("file/stamp-x.timer"), "{error}");
    let stamps = StampFolder::new(dir.path());
    std::os::unix::fs::symlink("file", dir.path().join("stamp-y.timer")).unwrap();
    assert!(stamps.write("y.timer", 1).is_err());
}

#[test]
fn zone_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("localtime");
    assert_eq!(local_zone(&link), TimeZone::UTC);
    muster_lab::require!(File("/usr/share/zoneinfo/Europe/Berlin"));
    std::os::unix::fs::symlink("/usr/share/zoneinfo/Europe/Berlin", &link).unwrap();
    let zone = local_zone(&link);
    assert_eq!(zone.iana_name(), Some("Europe/Berlin"));
    let summer = Timestamp::from_second(1_720_000_000).unwrap();
    assert_eq!(zone.to_offset(summer).seconds(), 7200);
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "not a zone").unwrap();
    assert_eq!(local_zone(&link), TimeZone::UTC);
}

#[test]
fn setting_the_clock_is_noticed() {
    muster_lab::require!(Root);
    let watch = ClockWatch::open().unwrap();
    assert!(!watch.clock_was_set().unwrap());
    // Setting it to what it shows is a change for the kernel, and the smallest one for everybody else.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    match rustix::time::clock_settime(rustix::time::ClockId::Realtime, now) {
        Ok(()) => {}
        Err(error) => {
            println!("skipped: setting_the_clock_is_noticed: cannot set the clock: {error}");
            return;
        }
    }
    assert_eq!(crate::sockets::incoming(&[&watch]).unwrap(), Some(0));
    assert!(watch.clock_was_set().unwrap());
    assert!(!watch.clock_was_set().unwrap());
}
