//! The files that Debian packages ship, and what systemd 252 says about them. The corpus stands
//! beside the checkout; on a machine without it each test says so and passes, and the fixtures of
//! the unit tests keep the same checks alive.

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::calendar::CalendarSpec;

fn corpus_file(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/corpus")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the corpus file {name} is not on this machine");
    None
}

#[test]
fn every_calendar_expression_has_systemds_normal_form_and_elapses() {
    let Some(path) = corpus_file("systemd252-calendar.txt") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut checked = 0;
    for block in text.split("### ").filter(|block| !block.trim().is_empty()) {
        let mut lines = block.lines();
        let expression = lines.next().unwrap();
        let spec = CalendarSpec::parse(expression).unwrap();
        let mut at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for line in lines {
            let (label, value) = line.trim().split_once(": ").unwrap();
            if label == "Normalized form" {
                assert_eq!(spec.to_string(), value, "{expression}");
            } else if label == "Next elapse" || label.starts_with("Iter.") {
                let next = spec.next_elapse(at, &TimeZone::UTC);
                let shown = next.map_or_else(
                    || "never".to_owned(),
                    |next| next.strftime("%a %Y-%m-%d %H:%M:%S UTC").to_string(),
                );
                assert_eq!(shown, value, "{expression}");
                at = next.unwrap_or(at);
            } else {
                assert_eq!(label, "Original form", "{expression}");
            }
            checked += 1;
        }
    }
    assert!(checked > 400, "only {checked} lines were found");
}
