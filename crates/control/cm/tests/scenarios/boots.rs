//! What a node does when it boots, with its controller or without.

use serde_json::json;

use crate::machines::{MAIN, Managers, SECOND};
use crate::unit::{Seen, Unit, require_nodes};

#[test]
fn a_node_that_boots_offline_runs_what_it_last_ran() {
    require_nodes!();
    let mut unit = Unit::boot(&[MAIN, SECOND]);
    unit.apply(&json!({
        "items": [unit.item("web", "1.2.0", &json!({})), unit.item("worker", "1.0.0", &json!({}))],
        "instances": [{"item": "web", "node": SECOND}, {"item": "worker", "node": MAIN}],
        "env": [{"item": "web", "variables": {"COLOUR": "red"}}],
    }));
    let wanted = [
        ("web", Seen::active(SECOND, "1.2.0")),
        ("worker", Seen::active(MAIN, "1.0.0")),
    ];
    unit.until_instances(&wanted);
    let bystander = unit.pid(MAIN, "worker").unwrap();

    // The power goes, and comes back without a cable to the Main Node.
    unit.switch_off(SECOND);
    unit.switch_on(SECOND, Managers::All);
    let again = unit.until("the instance on the node that booted", || {
        unit.pid(SECOND, "web")
    });
    let look = |what: &str| unit.node(SECOND).run(&format!("cat /proc/{again}/{what}"));
    assert_eq!(look("root/version"), "1.2.0\n");
    let environment = look("environ");
    assert!(
        environment.split('\0').any(|it| it == "COLOUR=red"),
        "{environment}"
    );
    assert!(!unit.connected()[SECOND], "it is not offline");

    // The controller finds what it wants, and touches nothing.
    unit.plug_in();
    unit.until_instances(&wanted);
    assert_eq!(unit.pid(SECOND, "web"), Some(again));
    assert_eq!(unit.pid(MAIN, "worker"), Some(bystander));
}

#[test]
fn instances_start_in_their_order_on_every_boot() {
    require_nodes!();
    let mut unit = Unit::boot(&[MAIN]);
    // By name they would start in another order.
    let order = ["watchdog", "storage", "database", "api"];
    let after = |item: &str| json!({"dependencies": [item]});
    unit.apply(&json!({
        "items": [
            unit.item("api", "1.0.0", &after("database")),
            unit.item("database", "1.0.0", &after("storage")),
            unit.item("storage", "1.0.0", &json!({})),
            unit.item("watchdog", "1.0.0", &json!({})),
        ],
        "instances": [
            {"item": "api"}, {"item": "database"}, {"item": "storage"}, {"item": "watchdog", "priority": 10},
        ],
    }));
    unit.until_instances(&order.map(|item| (item, Seen::active(MAIN, "1.0.0"))));

    let boots = [Managers::All, Managers::WithoutController, Managers::All];
    for (nth, managers) in boots.into_iter().enumerate() {
        unit.switch_off(MAIN);
        unit.switch_on(MAIN, managers);
        // Within a boot, the kernel counts processes upwards.
        let pids = unit.until("all of them", || {
            let pids: Vec<i32> = order
                .iter()
                .filter_map(|item| unit.pid(MAIN, item))
                .collect();
            (pids.len() == order.len()).then_some(pids)
        });
        assert!(
            pids.is_sorted(),
            "boot {nth}, {managers:?}: {order:?} are {pids:?}"
        );
    }
}
