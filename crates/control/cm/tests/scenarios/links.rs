//! Connections that go and come back.

use serde_json::json;

use crate::machines::{MAIN, SECOND};
use crate::unit::{Seen, Unit, require_nodes};

#[test]
fn a_link_and_a_controller_that_come_back_restart_nothing() {
    require_nodes!();
    let unit = Unit::boot(&[MAIN, SECOND]);
    unit.apply(&json!({
        "items": [unit.item("web", "1.0.0", &json!({})), unit.item("worker", "1.0.0", &json!({}))],
        "instances": [{"item": "web", "node": SECOND}, {"item": "worker", "node": MAIN}],
    }));
    let wanted = [
        ("web", Seen::active(SECOND, "1.0.0")),
        ("worker", Seen::active(MAIN, "1.0.0")),
    ];
    unit.until_instances(&wanted);
    let before = unit.pids();

    // The controller dies.
    unit.node(MAIN).kill("muster-cm");
    unit.until_instances(&wanted);
    assert_eq!(unit.pids(), before, "the controller came back");

    // The cable is pulled: neither side is told, both find out.
    unit.node(MAIN).run("ip link set eth0 down");
    let away = |item: &str| {
        unit.instances()
            .get(item)
            .is_some_and(|it| it.state == "away")
    };
    unit.until("away", || away("web").then_some(()));
    assert!(!away("worker"), "the other node is not concerned");
    assert_eq!(unit.pids(), before, "a node without its controller goes on");
    unit.node(MAIN).run("ip link set eth0 up");
    unit.until_instances(&wanted);
    assert_eq!(unit.pids(), before, "the link came back");

    // It carries commands and images as before.
    unit.apply(&json!({
        "items": [unit.item("web", "2.0.0", &json!({})), unit.item("worker", "1.0.0", &json!({}))],
        "instances": [{"item": "web", "node": SECOND}, {"item": "worker", "node": MAIN}],
    }));
    unit.until_instances(&[("web", Seen::active(SECOND, "2.0.0")), wanted[1].clone()]);
    let after = unit.pids();
    assert_eq!(after[MAIN], before[MAIN]);
    assert_ne!(after[SECOND], before[SECOND]);
}
