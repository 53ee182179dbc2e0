use proptest::prelude::*;

use super::*;

fn millis(text: &str) -> u128 {
    text.parse::<Duration>()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .get()
        .as_millis()
}

#[test]
fn plain_and_iso_forms_are_read() {
    for (text, expected) in [
        ("0", 0),
        ("0s", 0),
        ("500ms", 500),
        ("10s", 10_000),
        ("1.5s", 1_500),
        ("1m30s", 90_000),
        ("1h 5m", 3_900_000),
        (" 24h ", 86_400_000),
        ("30d", 2_592_000_000),
        ("1w", 604_800_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("PT1M", 60_000),
        ("PT0.5S", 500),
        ("P1D", 86_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("pt5s", 5_000),
    ] {
        assert_eq!(millis(text), expected, "{text}");
    }
    assert_eq!(
        "3us7ns".parse::<Duration>().unwrap().get().as_nanos(),
        3_007
    );
    assert_eq!("3µs".parse::<Duration>().unwrap().get().as_nanos(), 3_000);
}

#[test]
fn what_is_no_duration_is_refused_with_its_reason() {
    use ParseDurationError::{NoUnit, TooLong, UnitOrder, Unknown, YearsOrMonths};
    for (text, error) in [
        ("", Unknown),
        ("10 parsecs", Unknown),
        ("s", Unknown),
        ("-5s", Unknown),
        ("10", NoUnit),
        ("1.5", NoUnit),
        ("1y", Unknown),
        ("P", Unknown),
        ("PT", Unknown),
        ("P1DT", Unknown),
        ("P1Y", YearsOrMonths),
        ("P1M", YearsOrMonths),
        ("P1H", Unknown),
        ("PT1D", Unknown),
        ("1s1m", UnitOrder),
        ("1s1s", UnitOrder),
        ("1..5s", Unknown),
        ("1.s", Unknown),
        (".5s", Unknown),
        ("36526d", TooLong),
        ("99999999999999999999999999999999999999999999s", TooLong),
        ("1.0000000000s", Unknown),
    ] {
        assert_eq!(text.parse::<Duration>(), Err(error), "{text}");
    }
    assert_eq!("1s".repeat(40).parse::<Duration>(), Err(Unknown));
}

#[test]
fn the_longest_duration_is_allowed_and_one_nanosecond_more_is_not() {
    let longest = std::time::Duration::from_secs(36_525 * 86_400);
    assert!(Duration::new(longest).is_some());
    assert_eq!(
        Duration::new(longest + std::time::Duration::from_nanos(1)),
        None
    );
}

proptest! {
    #[test]
    fn display_reads_back_as_the_same_duration(
        seconds in 0_u64..36_525 * 86_400, nanos in 0_u32..1_000_000_000, coarse in 0_u8..4,
    ) {
        let nanos = match coarse { 0 => nanos, 1 => nanos / 1000 * 1000, 2 => nanos / 1_000_000 * 1_000_000, _ => 0 };
        let duration = Duration::new(std::time::Duration::new(seconds, nanos)).unwrap();
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,70}|P?T?([0-9.]{1,12}[a-zµA-Z ]{0,2}){0,6}") {
        if let Ok(duration) = text.parse::<Duration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
