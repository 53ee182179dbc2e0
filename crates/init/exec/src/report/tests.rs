//! Lines in pieces, out of bounds and out of order.

use proptest::prelude::*;

use super::*;

fn line(event: &Event) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("it is plain data");
    line.push(b'\n');
    line
}

fn failed(step: u8, detail: &str) -> Event {
    Event::Failed(Failed {
        step,
        errno: 2,
        detail: detail.into(),
    })
}

#[test]
fn the_lines_are_those_that_are_documented() {
    let dropped = Event::Dropped(vec!["PrivateUsers: why".into()]);
    assert_eq!(line(&dropped), b"{\"dropped\":[\"PrivateUsers: why\"]}\n");
    let failed = line(&failed(226, "x"));
    let expected = b"{\"failed\":{\"step\":226,\"errno\":2,\"detail\":\"x\"}}\n";
    assert_eq!(failed, expected);
}

#[test]
fn the_first_failure_counts_and_noise_does_not() {
    let mut report = Report::default();
    report.take(b"noise\n{}\n\xff\n");
    report.take(&line(&failed(226, "first")));
    report.take(&line(&failed(203, "second")));
    let found = report.failed.expect("one was reported");
    assert_eq!(found.step(), Some(Step::Namespace));
    assert_eq!(&*found.detail, "first");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut report = Report::default();
    for _ in 0..10_000 {
        report.take(&line(&Event::Dropped(vec!["ü".repeat(4000).into()])));
    }
    assert!(report.dropped.len() <= MAX_DROPPED);
    assert!(report.dropped.iter().all(|text| text.len() <= MAX_TEXT));
    assert!(report.seen <= MAX_BYTES && report.rest.len() <= MAX_BYTES);
}

proptest! {
    #[test]
    fn pieces_do_not_matter(sizes in prop::collection::vec(1usize..20, 1..50), texts in prop::collection::vec(".{0,30}", 0..8)) {
        let mut bytes = Vec::new();
        for text in &texts {
            bytes.extend(line(&Event::Dropped(vec![text.as_str().into()])));
        }
        bytes.extend(line(&failed(243, "end")));
        let mut whole = Report::default();
        whole.take(&bytes);
        let mut pieces = Report::default();
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            let (piece, next) = rest.split_at((*size).min(rest.len()));
            pieces.take(piece);
            rest = next;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&pieces, &whole);
        prop_assert_eq!(whole.dropped.len(), texts.len());
        prop_assert!(whole.failed.is_some());
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut report = Report::default();
        report.take(&bytes);
    }
}
