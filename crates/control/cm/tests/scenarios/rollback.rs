//! Going back to what was wanted before.

use std::fs;

use serde_json::{Value, json};

use crate::machines::{MAIN, SECOND};
use crate::unit::{Seen, Unit, require_nodes};

/// What is wanted: an instance that keeps something, in a version and a colour, and one that moves.
fn document(unit: &Unit, version: &str, colour: &str, moving_on: &str) -> Value {
    let keeps = json!({"quotas": {"pidsLimit": 16, "storageLimit": 65536, "stateLimit": 4096}});
    json!({
        "items": [unit.item("keeper", version, &keeps), unit.item("mover", "1.0.0", &json!({}))],
        "instances": [{"item": "keeper", "node": MAIN}, {"item": "mover", "node": moving_on}],
        "env": [{"item": "keeper", "variables": {"COLOUR": colour}}],
    })
}

#[test]
fn a_rollback_restores_version_environment_and_place_and_keeps_data() {
    require_nodes!();
    let unit = Unit::boot(&[MAIN, SECOND]);
    let until = |version: &str, moving_on: &str| {
        unit.until_instances(&[
            ("keeper", Seen::active(MAIN, version)),
            ("mover", Seen::active(moving_on, "1.0.0")),
        ]);
    };
    // What the instance wrote down at each start, and into its state.
    let kept = |expected: [&str; 2]| {
        let read = |path: &str| fs::read_to_string(unit.node(MAIN).path(path)).unwrap_or_default();
        unit.until("what it keeps", || {
            let now = [
                read("/var/lib/muster/storages/keeper/local/0/starts"),
                read("/var/lib/muster/states/keeper/local/0/state.dat"),
            ];
            (now == expected).then_some(())
        });
    };

    unit.apply(&document(&unit, "1.0.0", "red", SECOND));
    until("1.0.0", SECOND);
    kept(["1.0.0 red\n", "1.0.0\n"]);

    unit.apply(&document(&unit, "2.0.0", "blue", MAIN));
    until("2.0.0", MAIN);
    kept(["1.0.0 red\n2.0.0 blue\n", "1.0.0\n2.0.0\n"]);
    unit.until("gone from where it was", || {
        unit.pid(SECOND, "mover").is_none().then_some(())
    });

    unit.rollback();
    until("1.0.0", SECOND);
    kept([
        "1.0.0 red\n2.0.0 blue\n1.0.0 red\n",
        "1.0.0\n2.0.0\n1.0.0\n",
    ]);
    unit.until("gone from where it was", || {
        unit.pid(MAIN, "mover").is_none().then_some(())
    });
    assert!(unit.pid(SECOND, "mover").is_some());
    let pid = unit.pid(MAIN, "keeper").unwrap();
    let environment = unit.node(MAIN).run(&format!("cat /proc/{pid}/environ"));
    assert!(
        environment.split('\0').any(|it| it == "COLOUR=red"),
        "{environment}"
    );

    // It was no detour of the moment: it is what is wanted now, also for a controller that starts again.
    let before = unit.pids();
    unit.node(MAIN).kill("muster-cm");
    until("1.0.0", SECOND);
    assert_eq!(unit.pids(), before);
}
