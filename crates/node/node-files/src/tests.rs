use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn node(name: &str, duty: Duty, networks: Networks) -> NodeFiles {
    let dir = Path::new("/var/lib/demo").join(name);
    NodeFiles {
        name: name.to_owned(),
        place: Place {
            run: Path::new("/run/demo").join(name),
            dir,
        },
        programs: "/usr/lib/muster".into(),
        address: Ipv4Addr::new(10, 213, 7, if name == "main" { 1 } else { 2 }),
        iam_public: 8090,
        iam_protected: 8089,
        max_dmips: None,
        unit: UnitMember {
            system_id: "demo-1".to_owned(),
            model: "demo;1.0".to_owned(),
            subjects: vec!["demo".to_owned()],
            root_certificate: "/pki/root.crt.pem".into(),
            revocation_lists: vec!["/pki/crl.pem".into()],
            iam_public: "10.213.7.1:8090".to_owned(),
            iam_protected: "10.213.7.1:8089".to_owned(),
            cm: "10.213.7.1:8093".to_owned(),
        },
        networks,
        duty,
    }
}

fn main_node(networks: Networks) -> NodeFiles {
    let duty = Duty::Main {
        files: "10.213.7.1:8094".to_owned(),
        control_socket: "/run/demo/cm.sock".into(),
    };
    node("main", duty, networks)
}

fn own() -> Networks {
    Networks::Own {
        subject: "demo".to_owned(),
        uplink: "eth1".to_owned(),
    }
}

fn files(node: &NodeFiles) -> BTreeMap<String, String> {
    let named = node.files().into_iter().map(|(path, text)| {
        let name = path.file_name().unwrap_or_default();
        (name.to_string_lossy().into_owned(), text)
    });
    named.collect()
}

fn json_of(files: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&files[name]).unwrap()
}

#[test]
fn a_member_joins_the_main_node_and_has_no_communication_manager() {
    let (main, second) = (
        files(&main_node(own())),
        files(&node("second", Duty::Member, own())),
    );
    let main_iam = json_of(&main, "iam.json");
    let second_iam = json_of(&second, "iam.json");
    assert_eq!(
        second_iam["mainIamPublicServerUrl"],
        main_iam["publicServerUrl"]
    );
    assert_eq!(main_iam["publicServerUrl"], "10.213.7.1:8090");
    assert_eq!(second_iam["publicServerUrl"], "10.213.7.2:8090");
    assert!(main_iam.get("mainIamPublicServerUrl").is_none());
    let cm = json_of(&main, "cm.json");
    assert_eq!(
        json_of(&second, "sm.json")["cmServerUrl"],
        cm["cmServerUrl"]
    );
    assert!(!second.contains_key("cm.json") && !second.contains_key("muster-cm.service"));
    assert!(!second[EVERYTHING].contains("muster-cm"));
    assert!(!main[IDENTITY].contains("muster-sm"));
}

#[test]
fn instances_on_the_machines_network_are_no_containers() {
    let main = files(&main_node(Networks::Host));
    let sm = json_of(&main, "sm.json");
    assert_eq!(sm["network"], json!({"mode": "host"}));
    assert_eq!(
        sm["runtimes"],
        json!([{"type": "native", "hostNetwork": true}])
    );
    assert_eq!(json_of(&main, "cm.json")["networks"]["mode"], "off");
}

#[test]
fn everything_a_unit_names_is_there() {
    let main = files(&main_node(own()));
    for (name, text) in main.iter().filter(|(_, text)| text.starts_with("[Unit]")) {
        for line in text
            .lines()
            .filter(|it| it.starts_with("Wants=") || it.starts_with("Requires="))
        {
            let (_, units) = line.split_once('=').unwrap();
            for unit in units.split_whitespace() {
                assert!(main.contains_key(unit), "{name} names {unit}");
            }
        }
    }
}
