use muster_config::{Format, Limits};
use proptest::prelude::*;

use super::*;
use crate::document::tests::desired_status;

fn read(yaml: &str) -> DesiredStatus {
    DesiredStatus::read("/d.yaml", Format::Yaml, yaml.as_bytes(), Limits::default()).unwrap()
}

#[test]
fn every_change_has_its_line() {
    let old = read(
        "items:\n\
         - {id: web, version: '1', image: {registry: r/web}}\n\
         - {id: old, version: '1', image: {registry: r/old}}\n\
         instances: [{item: web, count: 2}]\n\
         env: [{item: web, variables: {A: '1', B: '1'}}]\n\
         unitConfig: {version: 1.0.0}\n",
    );
    let new = read(
        "items:\n\
         - {id: web, version: '2', image: {registry: r/web}}\n\
         - {id: new, version: '1', image: {layout: new.tar}, owner: me}\n\
         instances: [{item: web, count: 3, labels: [gpu]}, {item: new, subject: s, node: n1}]\n\
         nodes: [{id: n1, paused: true}]\n\
         env: [{item: web, variables: {A: '2', B: '1'}}]\n\
         unitConfig: {version: 1.0.0, nodes: []}\n",
    );
    let lines: Vec<String> = diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "+ node n1: paused",
            "~ unitConfig: version 1.0.0 -> version 1.0.0 with other settings",
            "+ item new: 1 from /new.tar, owner me",
            "- item old: 1 from r/old",
            "~ item web: 1 from r/web -> 2 from r/web",
            "+ instance new for s: 1, priority 0, on n1",
            "~ instance web for local: 2, priority 0 -> 3, priority 0, labels gpu",
            "~ envVar A of item web: (set) -> (set) with other settings",
        ]
    );
}

proptest! {
    #[test]
    fn there_are_differences_exactly_if_there_is_one(one in desired_status(), other in desired_status()) {
        prop_assert!(diff(&one, &one).is_empty());
        prop_assert_eq!(diff(&one, &other).is_empty(), one == other);
        let there: Vec<_> = diff(&one, &other).into_iter().map(|it| it.object).collect();
        let back: Vec<_> = diff(&other, &one).into_iter().map(|it| it.object).collect();
        prop_assert_eq!(there, back);
    }
}
