//! Words that need no memory.

use super::*;
use crate::Report;

#[test]
fn the_last_words_are_a_line_of_the_report_and_need_no_room() {
    let mut words = LastWords::new("/no/such \"program\" \u{1}");
    let room = words.line.capacity();
    let line = words.with(Errno::NOENT).to_vec();
    assert_eq!(words.line.capacity(), room, "it was all there before");
    let mut report = Report::default();
    report.take(&line);
    let failed = report.failed.expect("it is a failure");
    assert_eq!((failed.step, failed.errno), (203, libc::ENOENT));
    assert_eq!(&*failed.detail, "cannot execute /no/such \"program\" \u{1}");
}

#[test]
fn nothing_is_filtered_where_nothing_is_asked_for() {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let reporter = Reporter::new(writer.into());
    let filter = filter(&Policy::default(), &reporter).expect("nothing can fail");
    assert!(filter.is_none());
}
