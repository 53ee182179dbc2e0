//! Without root: the sandbox as far as it goes, and the list of what it lacks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::Duration;

use muster_lab::program::{Program, Stream};
use muster_runtime_native::plan::{Limits, Network, Plan};

const TIME: Duration = Duration::from_secs(30);
const SOMEBODY: u32 = 4242;

#[test]
fn a_user_without_root_gets_what_the_kernel_gives_and_a_list_of_the_rest() {
    muster_lab::require!(Root);
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("instance");
    let image = folder.path().join("image");
    for path in [
        &place,
        &image,
        &place.join("rootfs"),
        &place.join("upper"),
        &place.join("work"),
    ] {
        fs::create_dir(path).expect("a folder");
        chown(path, Some(SOMEBODY), Some(SOMEBODY)).expect("an owner");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = folder.path().join("muster-native-exec");
    fs::copy(env!("CARGO_BIN_EXE_muster-native-exec"), &program).expect("the program");
    let script = "id -u; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; echo $WHO; \
                  readlink /proc/self/ns/net";
    let plan = Plan {
        args: vec!["/bin/sh".into(), "-c".into(), script.into()],
        env: vec!["PATH=/usr/bin:/bin".into(), "WHO=me".into()],
        cwd: "/".into(),
        hostname: "box".into(),
        uid: 5001,
        gid: 5001,
        groups: Vec::new(),
        layers: vec![image],
        beside: ["/usr", "/bin", "/lib", "/lib64"].map(Into::into).to_vec(),
        binds: Vec::new(),
        network: Network::Empty,
        tmp_size: 1 << 20,
        open_files: 64,
        limits: Limits {
            memory: Some(1 << 30),
            ..Limits::default()
        },
    };
    let config = place.join("config.json");
    let write = |plan: &Plan| {
        fs::write(&config, serde_json::to_vec(plan).expect("JSON")).expect("a file");
        chown(&config, Some(SOMEBODY), Some(SOMEBODY)).expect("an owner");
    };
    write(&plan);
    let run = || {
        let program = Program::new(&program)
            .arg("start")
            .arg(&place)
            .user(SOMEBODY, SOMEBODY);
        let mut process = program.start().expect("it starts");
        let status = process.wait(TIME).expect("it ends");
        (
            status,
            process.text(Stream::Stdout),
            process.text(Stream::Stderr),
        )
    };
    let (status, stdout, stderr) = run();
    assert!(status.success(), "{stdout}{stderr}");
    let said = format!("{SOMEBODY}\nNoNewPrivs:\t1\nSeccomp:\t2\nme\n");
    let network = stdout.strip_prefix(&said);
    let network = network.unwrap_or_else(|| panic!("{stdout}{stderr}"));
    let own_network = fs::read_link("/proc/self/ns/net").expect("a network");
    let is_own = |network: &str| network.trim() == own_network.to_string_lossy();
    assert!(network.starts_with("net:[") && !is_own(network), "{stdout}");
    let dropped = fs::read_to_string(place.join("dropped")).expect("a list");
    assert!(
        dropped.contains("its user 5001: without root it runs as 4242"),
        "{dropped}"
    );
    assert!(
        dropped.contains("limits") || dropped.contains("the limit of memory"),
        "{dropped}"
    );
    // The host's network is there where it was asked for, and nothing else changes.
    write(&Plan {
        network: Network::Host,
        ..plan
    });
    let (status, stdout, stderr) = run();
    assert!(status.success(), "{stdout}{stderr}");
    let network = stdout.strip_prefix(&said);
    assert!(network.is_some_and(is_own), "{stdout}{stderr}");
    // Whoever wants all or nothing gets nothing.
    let program = Program::new(&program)
        .arg("start-strict")
        .arg(&place)
        .user(SOMEBODY, SOMEBODY);
    let mut process = program.start().expect("it starts");
    assert!(!process.wait(TIME).expect("it ends").success());
    let why = fs::read_to_string(place.join("runtime.log")).expect("a log");
    assert!(
        why.starts_with("the sandbox would lack something: "),
        "{why}"
    );
}
