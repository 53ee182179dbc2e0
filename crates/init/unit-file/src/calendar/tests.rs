use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::CalendarSpec;

fn next_in(expression: &str, after: &str, local: &TimeZone, count: usize) -> Vec<String> {
    let spec = CalendarSpec::parse(expression).unwrap();
    let mut at: Timestamp = after.parse().unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        let Some(next) = spec.next_elapse(at, local) else {
            break;
        };
        assert!(next > at, "{expression}: {next} is not after {at}");
        found.push(next.to_string());
        at = next;
    }
    found
}

fn next(expression: &str, count: usize) -> Vec<String> {
    next_in(expression, "2026-01-01T00:00:00Z", &TimeZone::UTC, count)
}

#[test]
fn normal_forms_are_systemds() {
    for (text, normal) in [
        ("*:0/5:00.5", "*-*-* *:00/5:00.500000"),
        ("*-*-1..8/3", "*-*-01..07/3 00:00:00"),
        ("Mon,", "Mon *-*-* 00:00:00"),
        ("1,2,3-1", "*-01,02,03-01 00:00:00"),
        ("@1700000000", "2023-11-14 22:13:20 UTC"),
        (
            "Mon *-*-* 1:2 Europe/Berlin",
            "Mon *-*-* 01:02:00 Europe/Berlin",
        ),
        ("5:30", "*-*-* 05:30:00"),
        ("anually", "*-01-01 00:00:00"),
        ("*:*:0/0.5", "*-*-* *:*:00/0.500000"),
        ("*:*:0..10/2.5", "*-*-* *:*:00..10/2.500000"),
        ("*-*~07/1", "*-*~07/1 00:00:00"),
        ("99-1-1", "1999-01-01 00:00:00"),
        ("12..14,10,13,12:20", "*-*-* 10,12,12..14,13:20:00"),
        ("daily UTC", "*-*-* 00:00:00 UTC"),
        (
            "Sat,Thu,Mon..Wed,Sat..Sun",
            "Mon..Thu,Sat,Sun *-*-* 00:00:00",
        ),
        ("Mon-Fri 8:00", "Mon..Fri *-*-* 08:00:00"),
        ("monday..SUNDAY 1:1", "*-*-* 01:01:00"),
        ("*:*:*", "*-*-* *:*:*"),
        ("semi-annually", "*-01,07-01 00:00:00"),
        ("WEEKLY", "Mon *-*-* 00:00:00"),
    ] {
        assert_eq!(
            CalendarSpec::parse(text).unwrap().to_string(),
            normal,
            "{text}"
        );
    }
}

#[test]
fn what_is_not_a_calendar_expression_is_refused() {
    for text in [
        "",
        " UTC",
        "*:*/10",
        "*-*~3..1",
        "mon fri",
        "Fri..Mon",
        "hourly europe/berlin",
        "Mon..",
        "1-2-3-4",
        "25:00",
        "12:60",
        "12:00:60",
        "*-13-1",
        "*-*-32",
        "*:0/0",
        "*:0/70",
        "1969-1-1",
        "2200-1-1",
        "*~*~1",
        "12:00:00.",
        "5",
        "@",
        "@x",
        "Mon-Tue-Wed",
        "Mony",
        "12:00 Nowhere/Land",
    ] {
        assert!(CalendarSpec::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_end_of_the_month_counts_backwards() {
    assert_eq!(
        next("*-02~01", 3),
        [
            "2026-02-28T00:00:00Z",
            "2027-02-28T00:00:00Z",
            "2028-02-29T00:00:00Z"
        ]
    );
    assert_eq!(
        next("*-*~5/2", 3),
        [
            "2026-01-27T00:00:00Z",
            "2026-01-29T00:00:00Z",
            "2026-01-31T00:00:00Z"
        ]
    );
    assert_eq!(next("Mon *-05~07/1", 1), ["2026-05-25T00:00:00Z"]);
}

#[test]
fn impossible_and_past_dates_never_elapse() {
    for text in ["2026-02-30", "*-02-31", "2023-11-14", "Mon 2026-01-01"] {
        assert!(next(text, 1).is_empty(), "{text}");
    }
}

#[test]
fn an_hour_that_the_zone_skips_is_carried_over() {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let found = next_in("*-*-* 02:30:00", "2026-03-28T12:00:00Z", &berlin, 2);
    // 02:30 does not exist on the 29th; the systemd of Debian 12 waits for the 30th as well.
    assert_eq!(found, ["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]);
}

#[test]
fn an_hour_that_comes_twice_does_not_stop_the_clock() {
    let found = next_in(
        "*:00/30 Europe/Berlin",
        "2026-10-24T23:45:00Z",
        &TimeZone::UTC,
        6,
    );
    assert_eq!(
        found.first().map(String::as_str),
        Some("2026-10-25T00:00:00Z")
    );
    assert!(
        found
            .iter()
            .any(|moment| moment.as_str() > "2026-10-25T02:00:00Z"),
        "{found:?}"
    );
}

#[test]
fn fractions_of_a_second_are_kept() {
    assert_eq!(
        next("*:*:0/0.5", 2),
        ["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z"]
    );
}

proptest! {
    #[test]
    fn the_normal_form_is_a_fixed_point(text in "((Mon|Tue..Fri|Sat,Sun) )?(\\*|20[0-9]{2})-(\\*|1?[0-2])[-~](\\*|[1-9](/[1-3])?) (\\*|[0-9](\\.\\.1[0-9])?):[0-5]?[0-9](/7)?(:[0-5][0-9](\\.[0-9]{1,7})?)?( UTC| Asia/Tokyo)?") {
        if let Ok(spec) = CalendarSpec::parse(&text) {
            let normal = spec.to_string();
            let again = CalendarSpec::parse(&normal).unwrap();
            prop_assert_eq!(again.to_string(), normal);
            prop_assert_eq!(again, spec);
        }
    }

    #[test]
    fn elapses_grow(text in "\\*-\\*-[1-9](/[1-9])? [0-9](/[1-9])?:[0-9](/[1-9])?", from in 0i64..4_000_000_000) {
        let spec = CalendarSpec::parse(&text).unwrap();
        let from = Timestamp::from_second(from).unwrap();
        if let Some(found) = spec.next_elapse(from, &TimeZone::UTC) {
            prop_assert!(found > from);
            // The last microsecond before it leads to the same moment: nothing was skipped.
            let just_before = Timestamp::from_microsecond(found.as_microsecond() - 1).unwrap();
            prop_assert_eq!(spec.next_elapse(just_before, &TimeZone::UTC), Some(found));
        }
    }

    #[test]
    fn any_text_is_taken_without_panic(text in "[-*~.,:/ @0-9a-zA-Z]{0,30}") {
        if let Ok(spec) = CalendarSpec::parse(&text) {
            let _ = spec.next_elapse(Timestamp::UNIX_EPOCH, &TimeZone::UTC);
        }
    }
}
