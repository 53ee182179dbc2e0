//! Many machines at once. The harness runs each test in a process of its own, so its memory is that of the machines.

use crate::many::make_and_destroy;

#[tokio::test]
async fn a_thousand_machines_are_made_and_destroyed_at_once() {
    let figures = make_and_destroy().await;
    assert!(figures.report(), "{figures:?}");
}
