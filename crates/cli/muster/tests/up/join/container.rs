//! A container of Docker that joins.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{BROUGHT, Manager, PROGRAMS, UNIT, brought};
use crate::rig::{Programs, Site, TIME};

/// The engine has its own folder on the machine, which is gone with the machine.
const ENGINE: &str = "mkdir -p /tmp/engine && exec dockerd --host unix:///tmp/engine/docker.sock --data-root /tmp/engine/data \
    --exec-root /tmp/engine/exec --pidfile /tmp/engine/docker.pid --bip 10.215.0.1/24 --userland-proxy=false \
    --shutdown-timeout 1";
const PROVIDER: &str = r#""docker": {"endpoint": "unix:///tmp/engine/docker.sock"}"#;
/// What a node needs beyond what every container has: instances are given a root and mounts of their own, over folders that are
/// no layers.
const TEMPLATES: &str = "\
name: bare
image: base
---
name: node
image: base
overrides:
  docker:
    capabilities: [SYS_ADMIN]
    seccomp: unconfined
    mounts: [/var/lib/muster, {type: tmpfs, target: /run}]
";

/// Busybox, and the libraries that a program of Muster's is linked with.
fn system(root: &Path, program: &Path) {
    for folder in ["bin", "tmp", "etc", "var/lib", "run", "opt", "proc", "sys"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("a copy");
    let tools = Command::new("/bin/busybox").arg("--list").output();
    let tools = String::from_utf8(tools.expect("busybox runs").stdout).expect("text");
    for tool in tools.lines().filter(|it| *it != "busybox") {
        symlink("busybox", root.join("bin").join(tool)).expect("a link");
    }
    let linked = Command::new("ldd").arg(program).output().expect("ldd runs");
    let linked = String::from_utf8(linked.stdout).expect("text");
    let libraries = linked.split_whitespace().filter(|it| it.starts_with('/'));
    for library in libraries {
        let inside = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(inside.parent().expect("a folder")).expect("a folder");
        fs::copy(library, inside).expect("a copy");
    }
}

fn docker(site: &Site, words: &[&str]) -> String {
    let way = ["docker", "--host", "unix:///tmp/engine/docker.sock"];
    site.machine_ok(&[&way, words].concat())
}

/// Has the Communication Manager listen for operators of other machines, and describes the Unit to one: with a certificate, and
/// without any socket.
fn far(site: &Site) -> String {
    const CONTROL: &str = "127.0.0.1:7443";
    const DESK: &str = "/tmp/desk";
    let config = format!("{UNIT}/main/cm.json");
    let mut cm: Value = serde_json::from_str(&site.read(&config)).expect("JSON");
    cm["controlServerUrl"] = CONTROL.into();
    site.write(&config, &cm.to_string());
    let certify = [
        "muster", "pki", "issue", "--node", "desk", "--role", "operator",
    ];
    let dir = format!("{UNIT}/pki");
    site.machine_ok(&[&certify[..], &["--dir", &dir, "--out", DESK]].concat());
    let mut unit: Value =
        serde_json::from_str(&site.read(&format!("{UNIT}/join.json"))).expect("JSON");
    let fields = unit.as_object_mut().expect("an object");
    for socket in ["iamSocket", "controlSocket"] {
        assert!(fields.remove(socket).is_some(), "it has had {socket}");
    }
    unit["controlUrl"] = format!("https://{CONTROL}").into();
    unit["certificate"] = format!("{DESK}/desk-operator.crt.pem").into();
    unit["key"] = format!("{DESK}/desk-operator.key.pem").into();
    let described = format!("{DESK}/unit.json");
    site.write(&described, &unit.to_string());
    for pid in site.pids_of("muster-cm") {
        site.kill9(pid);
    }
    site.wait_until("the Unit is well again", TIME, |site| {
        site.is_connected("main") && site.is_connected("second")
    });
    described
}

#[test]
fn a_container_becomes_a_node_runs_what_is_placed_on_it_and_vanishes() {
    require_unit!(Tool("dockerd"), File("/bin/busybox"), Tool("strip"));
    let programs = Programs::build();
    let joined = brought(&programs, PROVIDER, TEMPLATES);
    let root = joined.path().join("root");
    system(&root, &joined.path().join("programs/muster-sm"));
    let site = Site::boot_with(programs, &[(joined.path(), BROUGHT)]);
    site.up(&[]);
    let _engine = site.begin_in_group(&["sh", "-c", ENGINE]);
    site.wait_until("the engine answers", TIME, |site| {
        let docker = ["docker", "--host", "unix:///tmp/engine/docker.sock", "info"];
        site.command(&docker).status.success()
    });
    let import =
        "tar -C /joined/root -c . | docker --host unix:///tmp/engine/docker.sock import - base";
    site.machine_ok(&["sh", "-c", import]);
    let manager = Manager::start(&site);

    // One that could never run an instance is refused before anything is brought to it.
    let bare = manager.provision(&["-t", "bare"]);
    let refused = manager.machine(&["join", &bare, UNIT, "--programs", PROGRAMS]);
    assert!(
        !refused.status.success() && refused.stderr.contains("is on an overlay"),
        "{}",
        refused.stderr
    );
    assert!(manager.node(&bare).is_none());
    manager.machine_ok(&["destroy", &bare]);

    let words = ["-t", "node", "--join", UNIT, "--programs", PROGRAMS];
    let id = manager.provision(&words);
    let shown = manager.machine_ok(&["show", &id, "-o", "json"]);
    assert!(
        shown.contains("has the capabilities SYS_ADMIN; may make every system call"),
        "{shown}"
    );
    manager.assert_joined(&id);
    manager.assert_works(&id);
    manager.assert_comes_back(&id);
    manager.assert_leaves(&id);

    // The same as from another machine: nothing is called by its socket.
    let unit = far(&site);
    let words = ["-t", "node", "--join", &unit, "--programs", PROGRAMS];
    let from_afar = manager.provision(&words);
    manager.assert_joined(&from_afar);
    manager.assert_leaves(&from_afar);

    // One that joins later, and whose machine ends without leaving.
    let lost = manager.provision(&["-t", "node"]);
    manager.machine_ok(&["join", &lost, &unit, "--programs", PROGRAMS]);
    let shown = manager.machine_ok(&["show", &lost, "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let container = shown["resource"].as_str().expect("it is made");
    docker(&site, &["rm", "--force", "--volumes", container]);
    manager.assert_is_missed_until_it_left(&lost);
    assert_eq!(docker(&site, &["ps", "--all", "--quiet"]), "");
    assert_eq!(docker(&site, &["volume", "ls", "--quiet"]), "");
    site.down();
}
