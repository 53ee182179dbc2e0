//! Everything that a node has beside its instances, asked for and told over the wire: networks, names, rules, measurements,
//! alerts, logs, resources, the node's configuration.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::{poll_until, try_poll_for};
use serde_json::{Value, json};

use crate::rig::{Rig, TIME};

const WEB: &str = "exec httpd -f -p 8080 -h /www";
/// Says what it sees every now and then: its device, and the other's page, which it finds by name.
const CALLER: &str = r#"while true; do
    test -c /dev/camera && echo "device $CAMERA"
    address=$(nslookup 0.subject.item | sed -n 's/^Address: //p')
    page=$(exec 3<>/dev/tcp/$address/8080 && printf 'GET /index.html HTTP/1.0\r\n\r\n' >&3 && sed -n '$p' <&3)
    echo "page of $address: $page"
    sleep 0.2
done"#;

/// A shell that connects: busybox, linked statically, cannot look hosts up. It needs its libraries.
fn add_shell(content: &Path) {
    fs::copy("/bin/bash", content.join("bin/bash")).expect("bash");
    let listed = Command::new("ldd").arg("/bin/bash").output().expect("ldd");
    let listed = String::from_utf8(listed.stdout).expect("text");
    for library in listed.split_whitespace().filter(|it| it.starts_with('/')) {
        let inside = content.join(&library[1..]);
        fs::create_dir_all(inside.parent().expect("a folder")).expect("a folder");
        fs::copy(library, inside).expect("a library");
    }
}

/// An image of busybox that runs a script.
fn image(rig: &Rig, name: &str, script: &str, item: &Value, exposed: &[&str]) -> String {
    let content = rig.files().join(format!("content-{name}"));
    fs::create_dir_all(content.join("bin")).expect("a folder");
    fs::create_dir_all(content.join("www")).expect("a folder");
    fs::write(content.join("www/index.html"), "welcome\n").expect("a page");
    fs::copy("/bin/busybox", content.join("bin/busybox")).expect("busybox");
    for tool in [
        "sh", "sleep", "httpd", "wget", "nslookup", "sed", "echo", "test",
    ] {
        symlink("busybox", content.join("bin").join(tool)).expect("a link");
    }
    add_shell(&content);
    let order = BuildOrder {
        content: Content::Folder(content),
        run: RunSettings {
            entrypoint: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
            env: vec!["PATH=/bin".into()],
            exposed_ports: exposed.iter().map(|it| (*it).to_owned()).collect(),
            ..RunSettings::default()
        },
        item_config: Some(item.to_string().into_bytes()),
        platform: Platform::of_this_program(),
        format: LayerFormat::TarGzip,
        name: None,
        output: rig.files().join(format!("images/{name}")),
        as_archive: false,
    };
    build(&order).expect("an image").digest.to_string()
}

fn instance(item: &str, digest: &str, runtime: &str, ip: &str) -> Value {
    json!({
        "instance": {"itemId": item, "subjectId": "subject"}, "version": "1.0.0", "manifestDigest": digest,
        "runtimeId": runtime, "uid": 5000, "gid": 5000,
        "networkParameters": {"networkId": "net", "subnet": "172.30.1.0/24", "ip": ip},
    })
}

fn item_of(message: &Value) -> &str {
    message["instance"]["itemId"].as_str().unwrap_or_default()
}

/// The last state that the node told of an instance.
fn is_active(message: &Value, item: &str) -> Option<()> {
    let all = message["nodeInstancesStatus"]["instances"].as_array()?;
    let found = all.iter().find(|it| item_of(it) == item)?;
    (found["state"] == "active").then_some(())
}

#[test]
fn a_node_gives_networks_resources_logs_measurements_and_alerts() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        Tool("nft"),
        File("/usr/lib/cni/bridge"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let resources = json!([
        {"name": "camera", "sharedCount": 1, "devices": ["/dev/null:/dev/camera"], "env": ["CAMERA=front"]}
    ]);
    let settings = json!({
        "network": {"mode": "on"},
        "monitoring": {"pollPeriod": "200ms", "averageWindow": "1s"},
    });
    let resources = resources.to_string();
    let mut rig = Rig::boot_with(&settings, &[("/etc/muster/resources.json", &resources)]);
    let before = traces(&rig);

    let runtime = rig.wait_until_said("what it has", |message| {
        let info = &message["smInfo"];
        assert!(
            info.is_null() || info["resources"][0]["name"] == "camera",
            "{info}"
        );
        let runtimes = info["runtimes"].as_array()?;
        let runc = runtimes.iter().find(|it| it["type"] == "runc")?;
        runc["runtimeId"].as_str().map(str::to_owned)
    });
    let plain =
        json!({"runtimes": [{"codename": "runc"}], "quotas": {"pidsLimit": 16, "tmpLimit": 65536}});
    let mut asking = plain.clone();
    asking["resources"] = json!([{"name": "camera", "mode": "rw"}]);
    let web = image(&rig, "web", WEB, &plain, &["8080/tcp"]);
    let caller = image(&rig, "caller", CALLER, &asking, &[]);
    let network = json!({"networkId": "net", "subnet": "172.30.1.0/24", "ip": "172.30.1.1"});
    rig.command(&json!({"updateNetworks": {"networks": [network.clone()]}}));
    let both = [
        instance("item", &web, &runtime, "172.30.1.2"),
        instance("caller", &caller, &runtime, "172.30.1.3"),
    ];
    rig.command(&json!({"updateInstances": {"startInstances": both}}));
    rig.wait_until_said("that both run", |message| {
        is_active(message, "item").and(is_active(message, "caller"))
    });

    // What the one says shows its device and that it reached the other by name; it is asked for from afar.
    let (mut asked, mut text) = (0, String::new());
    let found = try_poll_for(TIME, || {
        asked += 1;
        let id = format!("log-{asked}");
        let filter = json!({"itemId": "caller", "subjectId": "subject", "instance": -1});
        rig.command(&json!({"instanceLogRequest": {"correlationId": id, "filter": filter}}));
        let data = rig.wait_until_said("the log", |message| {
            let log = &message["log"];
            (log["correlationId"] == id.as_str()).then(|| log.clone())
        });
        text = unpacked(&data);
        (text.contains("page of 172.30.1.2: welcome") && text.contains("device front"))
            .then_some(())
    });
    assert!(found.is_some(), "the caller's log: {text}");

    // Measured, both by themselves and as a part of the node.
    rig.wait_until_said("what the instances use", |message| {
        let instances = message["instantMonitoring"]["instancesMonitoring"].as_array()?;
        let uses = |item: &str| {
            let found = instances.iter().find(|it| item_of(it) == item)?;
            let ram = found["monitoringData"]["ram"].as_str()?.parse::<u64>();
            ram.ok().filter(|bytes| *bytes > 0)
        };
        uses("item").and(uses("caller"))
    });

    // A rule of the node's configuration that is passed at once.
    let config = json!({
        "version": "1.0.0", "nodeGroupSubject": {"codename": "node"},
        "alertRules": {"ram": {"minTimeout": "PT0.2S", "minThreshold": 0.001, "maxThreshold": 0.01}},
        "priority": 1,
    });
    let set = json!({"version": "1.0.0", "nodeConfig": config.to_string()});
    rig.command(&json!({"setNodeConfig": set}));
    rig.wait_until_said("that the configuration is installed", |message| {
        let status = &message["nodeConfigStatus"];
        (status["state"] == "installed" && status["version"] == "1.0.0").then_some(())
    });
    rig.wait_until_said("that the node is short of memory", |message| {
        let alert = &message["alert"]["systemQuotaAlert"];
        (alert["parameter"] == "ram" && alert["status"] == "raise").then_some(())
    });

    // A program that is killed is an alert of its instance, found in the journal.
    let killed = rig
        .run(["sh", "-c", "pkill -9 -x httpd"])
        .expect("a command");
    assert!(killed.status.success(), "{}", killed.stderr);
    rig.wait_until_said("that an instance's program was killed", |message| {
        let alert = &message["alert"]["instanceAlert"];
        (item_of(alert) == "item").then_some(())
    });

    // Somebody else wants the one camera.
    let third = instance("third", &caller, &runtime, "172.30.1.4");
    let mut all = both.to_vec();
    all.push(third);
    rig.command(&json!({"updateInstances": {"startInstances": all}}));
    rig.wait_until_said("that the camera is taken", |message| {
        let alert = &message["alert"]["resourceAllocateAlert"];
        (item_of(alert) == "third" && alert["resource"] == "camera").then_some(())
    });

    // What the manager itself logs as an error is an alert of the node's core.
    let broken = json!({"networkId": "broken", "subnet": "nowhere", "ip": "172.30.9.1"});
    rig.command(&json!({"updateNetworks": {"networks": [network, broken]}}));
    rig.wait_until_said("that the manager has logged an error", |message| {
        (message["alert"]["coreAlert"]["coreComponent"] == "SM").then_some(())
    });

    // Everything goes, and nothing stays.
    rig.command(&json!({"updateInstances": {"startInstances": []}}));
    rig.command(&json!({"updateNetworks": {"networks": []}}));
    let mut after = String::new();
    poll_until(TIME, &format!("nothing is left but {before}"), || {
        after = traces(&rig);
        after == before
    });
}

/// Links, namespaces, rules of instances and places of instances.
fn traces(rig: &Rig) -> String {
    let look = "ip -o link | cut -d: -f2 | sort; ls /run/muster/sm/network/netns 2>/dev/null; ls /run/muster/sm/runc; \
                grep -c /run/muster/sm/ /proc/self/mounts; nft list ruleset | grep -c 172.30";
    rig.run(["sh", "-c", look]).expect("a list").stdout
}

fn unpacked(log: &Value) -> String {
    let data = log["data"].as_str().unwrap_or_default();
    let packed = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data);
    let mut text = String::new();
    GzDecoder::new(&*packed.expect("base64"))
        .read_to_string(&mut text)
        .expect("a compressed text");
    text
}
