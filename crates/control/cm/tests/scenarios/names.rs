//! Instances of different nodes find each other by name. That packets get there is the work of a VLAN between the nodes, which the
//! kernel of this machine may not know.

use serde_json::{Value, json};

use crate::machines::{MAIN, Networks, SECOND};
use crate::unit::{Seen, Unit};

/// A server on the Main Node; on the other one somebody of the same network, and somebody of another.
fn document(unit: &Unit) -> Value {
    let mut stranger = unit.item("stranger", "1.0.0", &json!({}));
    stranger["owner"] = "elsewhere".into();
    json!({
        "items": [
            unit.item("web", "1.0.0", &json!({"hostname": "www"})),
            unit.item("caller", "1.0.0", &json!({})),
            stranger,
        ],
        "instances": [
            {"item": "web", "node": MAIN},
            {"item": "caller", "node": SECOND},
            {"item": "stranger", "node": SECOND},
        ],
    })
}

/// What an instance gets, asked as its own programs ask: with its files, in its network.
fn asked_by(unit: &Unit, item: &str, command: &str) -> String {
    let pid = unit.pid(SECOND, item).unwrap();
    let script = format!("nsenter -t {pid} -m -n /bin/busybox {command} 2>&1 || true");
    unit.node(SECOND).run(&script)
}

/// The addresses that a name has for an instance of the second node; none if it has none.
fn addresses(unit: &Unit, item: &str, name: &str) -> Vec<String> {
    let said = asked_by(unit, item, &format!("nslookup -type=a {name}"));
    let (_, answer) = said.split_once("\n\n").unwrap_or_default();
    let found = answer
        .lines()
        .filter_map(|line| line.strip_prefix("Address: "));
    found.map(|it| it.trim().to_owned()).collect()
}

#[test]
fn an_instance_finds_one_of_another_node_by_name_also_after_the_controller_was_killed() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        Tool("ip"),
        Tool("nsenter"),
        File("/bin/busybox"),
        File("/usr/lib/cni/bridge")
    );
    let unit = Unit::boot_with(&[MAIN, SECOND], Networks::On);
    unit.apply(&document(&unit));
    let running = [
        ("web", Seen::active(MAIN, "1.0.0")),
        ("caller", Seen::active(SECOND, "1.0.0")),
        ("stranger", Seen::active(SECOND, "1.0.0")),
    ];
    unit.until_instances(&running);
    let pids = unit.pids();

    let web = unit.pid(MAIN, "web").unwrap();
    let address = unit.node(MAIN).run(&format!(
        "nsenter -t {web} -n ip -4 -o address show dev eth0 | sed 's/.* inet \\([0-9.]*\\).*/\\1/'"
    ));
    let address = address.trim();
    let knows = |name: &str| {
        unit.until(name, || {
            (addresses(&unit, "caller", name) == [address]).then_some(())
        });
    };
    for name in ["www", "0.local.web", "local.web", "www.local"] {
        knows(name);
    }
    for name in ["www", "www.local", "local.web"] {
        let told = addresses(&unit, "stranger", name);
        assert!(told.is_empty(), "{name} is known elsewhere: {told:?}");
    }

    // Without the controller, names that somebody asked for are still known; with it, all of them are.
    unit.node(MAIN).run("sctl stop muster-cm.service");
    assert_eq!(addresses(&unit, "caller", "www"), [address]);
    unit.node(MAIN).run("sctl start muster-cm.service");
    knows("0.local.web.local");
    for (node, program) in [
        (MAIN, "muster-cm"),
        (SECOND, "muster-sm"),
        (MAIN, "muster-cm"),
    ] {
        unit.node(node).kill(program);
        knows("www");
        knows("local.web.local");
    }
    unit.until_instances(&running);
    assert_eq!(unit.pids(), pids, "nothing was restarted");
}
