use super::*;

fn at(text: &str) -> Moment {
    Moment::new(text.parse::<jiff::Timestamp>().unwrap().as_second())
}

#[test]
fn a_counter_that_shows_less_began_anew() {
    let mut account = Account::default();
    let now = at("2026-03-01T12:00:00Z");
    for (counter, total) in [
        (100, 100),
        (150, 150),
        (20, 170),
        (20, 170),
        (0, 170),
        (5, 175),
    ] {
        account.observe(counter, now);
        assert_eq!(account.total, total);
    }
}

#[test]
fn periods_end_at_midnight_and_at_the_end_of_the_month() {
    let mut account = Account::default();
    account.observe(10, at("2026-02-28T23:59:59Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (10, 10));
    account.observe(11, at("2026-03-01T00:00:00Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (1, 1));
    account.observe(13, at("2026-03-02T00:00:00Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (2, 3));
    account.observe(14, at("2027-03-02T00:00:00Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (1, 1));
    assert_eq!(account.total, 14);
}

#[test]
fn a_clock_set_back_lifts_nothing_and_holds_nothing_for_ever() {
    let mut account = Account::default();
    account.observe(10, at("2036-01-01T00:00:00Z"));
    // The clock was ten years ahead, and is right now: the day counts on.
    account.observe(12, at("2026-05-05T10:00:00Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (12, 12));
    account.observe(12, at("2026-05-06T00:00:00Z"));
    assert_eq!((account.today.bytes, account.this_month.bytes), (0, 12));
    account.observe(12, at("2026-06-01T00:00:00Z"));
    assert_eq!(account.this_month.bytes, 0);
}

#[test]
fn times_beyond_every_calendar_are_times() {
    for seconds in [i64::MIN, i64::MAX, -1, 0] {
        let mut account = Account::default();
        account.observe(u64::MAX, Moment::new(seconds));
        account.observe(u64::MAX - 1, Moment::new(seconds));
        assert_eq!(account.total, u64::MAX);
    }
    assert_eq!(Moment::new(-1).day + 1, Moment::new(0).day);
}
