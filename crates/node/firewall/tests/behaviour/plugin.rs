//! The CNI plugin as a container runtime calls it.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use muster_firewall::{Change, Firewall, InstanceId, InstancePolicy, Iptables, Nft};
use serde_json::{Value, json};

use crate::rig::{self, Rig, Servers, address};

fn config(extra: &Value) -> Value {
    let mut config = json!({
        "cniVersion": "1.0.0",
        "name": "cameras",
        "type": "muster-firewall",
        "bridge": "br1",
        "subnet": "172.20.0.0/24",
        "exposedPorts": ["80", "9000-9010/udp"],
        "allowedConnections": [{"dstIp": "172.21.0.2", "dstPort": "90"}],
        "prevResult": {
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "br1"}, {"name": "va"}, {"name": "eth0", "sandbox": "/proc/1/ns/net"}],
            "ips": [{"address": "172.20.0.2/24", "gateway": "172.20.0.1", "interface": 2}],
            "dns": {"nameservers": ["172.20.0.1"]}
        }
    });
    for (name, value) in extra.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

fn call(rig: &Rig, command: &str, config: &str) -> Output {
    call_with(rig, "/usr/bin:/bin", command, config)
}

fn call_with(rig: &Rig, path: &str, command: &str, config: &str) -> Output {
    let mut child = rig
        .host("node")
        .command(env!("CARGO_BIN_EXE_muster-firewall"))
        .env_clear()
        .env("PATH", path)
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "0f6c2f44-a")
        .env("CNI_NETNS", "/proc/1/ns/net")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/usr/lib/cni")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A plugin that has seen enough may have stopped reading.
    let _ = child.stdin.take().unwrap().write_all(config.as_bytes());
    child.wait_with_output().unwrap()
}

fn code(output: &Output) -> u64 {
    assert!(!output.status.success());
    let object: Value = serde_json::from_slice(&output.stdout).expect("an error object");
    assert!(!object["msg"].as_str().unwrap().is_empty());
    assert!(object["cniVersion"].is_string());
    object["code"].as_u64().unwrap()
}

#[test]
fn the_plugin_gives_and_takes_rules() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    for backend in ["nft", "iptables"] {
        let before = rig
            .tool("node", &["nft", "list", "ruleset"], "")
            .contains("muster");
        assert!(!before);
        let config = config(&json!({ "backend": backend }));
        let text = config.to_string();

        assert_eq!(
            code(&call(&rig, "CHECK", &text)),
            101,
            "nothing is in place"
        );
        let added = call(&rig, "ADD", &text);
        assert!(
            added.status.success(),
            "{}",
            String::from_utf8_lossy(&added.stdout)
        );
        let passed: Value = serde_json::from_slice(&added.stdout).unwrap();
        assert_eq!(
            passed, config["prevResult"],
            "the previous result is passed on"
        );

        let servers = Servers::start(rig.host("a"), &[80, 81]);
        assert!(rig::tcp(rig.host("outside"), address("a"), 80).is_some());
        assert!(rig::tcp(rig.host("outside"), address("a"), 81).is_none());
        drop(servers);

        let checked = call(&rig, "CHECK", &text);
        assert!(checked.status.success() && checked.stdout.is_empty());
        // With the least that a runtime may have left to say, and again.
        let least = json!({"cniVersion": "1.0.0", "name": "cameras", "type": "muster-firewall", "backend": backend});
        for _ in 0..2 {
            let deleted = call(&rig, "DEL", &least.to_string());
            assert!(deleted.status.success() && deleted.stdout.is_empty());
        }
        assert_eq!(code(&call(&rig, "CHECK", &text)), 101);
        let firewall = match backend {
            "nft" => Firewall::with(Nft::new()),
            _ => Firewall::with(Iptables::named("iptables")),
        };
        rig.on_node(&firewall, |firewall| firewall.clear()).unwrap();
    }
}

/// Where nft does not work, iptables is used; where nothing works, that is said.
#[test]
fn the_plugin_takes_what_works() {
    muster_lab::require!(Root, NetNs, Tool("iptables-save"));
    let rig = Rig::new();
    let text = config(&json!({})).to_string();
    let programs = tempfile::tempdir().unwrap();
    let refuse = |names: &[&str]| {
        for name in names {
            let path = programs.path().join(name);
            std::fs::write(&path, "#!/bin/sh\necho not here >&2\nexit 1\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    };
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let has_rules = |firewall: Firewall| {
        let installed = rig
            .on_node(&firewall, |firewall| firewall.installed())
            .unwrap();
        installed.instances().count() == 1
    };
    refuse(&["nft"]);
    assert!(call_with(&rig, &path, "ADD", &text).status.success());
    assert!(has_rules(Firewall::with(Iptables::named("iptables"))));
    assert!(!has_rules(Firewall::with(Nft::new())));
    assert!(
        call_with(&rig, "/usr/bin:/bin", "ADD", &text)
            .status
            .success()
    );
    assert!(has_rules(Firewall::with(Nft::new())));
    refuse(&["iptables-save", "iptables-nft-save", "iptables-legacy-save"]);
    let refused = call_with(&rig, &path, "ADD", &text);
    assert_eq!(code(&refused), 100);
    assert!(
        String::from_utf8_lossy(&refused.stdout).contains("not here"),
        "the reason is told"
    );
}

#[test]
fn wrong_calls_are_answered_with_error_objects() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    let version = call(&rig, "VERSION", "");
    let version: Value = serde_json::from_slice(&version.stdout).unwrap();
    assert_eq!(version["supportedVersions"], json!(["0.4.0", "1.0.0"]));

    let with = |extra: Value| config(&extra).to_string();
    for (command, config, expected) in [
        ("ADD", String::new(), 6),
        ("ADD", "{".repeat(10_000), 6),
        ("ADD", "null".to_owned(), 6),
        ("ADD", with(json!({"cniVersion": "0.1.0"})), 1),
        ("FLY", with(json!({})), 4),
        ("ADD", with(json!({"bridge": null})), 7),
        ("ADD", with(json!({"bridge": "br1; flush ruleset"})), 7),
        (
            "ADD",
            with(json!({"instanceId": "a\" }\nflush ruleset\n#"})),
            7,
        ),
        ("ADD", with(json!({"subnet": "172.20.0.0/33"})), 7),
        ("ADD", with(json!({"subnet": "fd00::/64"})), 7),
        ("ADD", with(json!({"prevResult": null})), 7),
        (
            "ADD",
            with(json!({"prevResult": {"ips": [{"address": "10.0.0.2/8"}]}})),
            7,
        ),
        ("ADD", with(json!({"prevResult": {"ips": "none"}})), 7),
        ("ADD", with(json!({"exposedPorts": ["0"]})), 7),
        ("ADD", with(json!({"exposedPorts": ["80/icmp"]})), 7),
        (
            "ADD",
            with(json!({"allowedConnections": [{"dstIp": "fd00::1", "dstPort": "1"}]})),
            7,
        ),
        ("ADD", with(json!({"backend": "pf"})), 7),
        ("ADD", with(json!({"bridge": "br9"})), 100),
    ] {
        let output = call(&rig, command, &config);
        assert_eq!(code(&output), expected, "{command} {config:.200}");
    }
    assert!(
        !rig.tool("node", &["nft", "list", "ruleset"], "")
            .contains("0f6c2f44")
    );
}

/// Two programs are started and a transaction is made. The bound leaves room for a test build on a busy machine.
#[test]
fn the_plugin_is_fast_beside_hundreds_of_instances() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    let text = config(&json!({"backend": "nft"})).to_string();
    let others: Vec<Change> = (10..210)
        .map(|host| {
            let id = InstanceId::new(format!("other-{host}")).unwrap();
            let address = Ipv4Addr::new(172, 20, 0, host).into();
            Change::PutInstance(InstancePolicy::new(id, &rig::network("br1"), address).unwrap())
        })
        .collect();
    let firewall = Firewall::with(Nft::new());
    rig.on_node(&firewall, |firewall| firewall.apply(&others))
        .unwrap();
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let began = Instant::now();
            assert!(call(&rig, "ADD", &text).status.success());
            began.elapsed()
        })
        .collect();
    times.sort();
    println!("ADD: median {:?}, fastest {:?}", times[10], times[0]);
    assert!(times[0] < Duration::from_millis(200), "{times:?}");
}
