//! Without root: the sandbox as far as it goes, and the list of what it lacks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use muster_exec::Report;
use muster_lab::program::{Program, Stream};
use muster_runtime_native::plan::{Limits, Network, Plan};
use tempfile::TempDir;

const TIME: Duration = Duration::from_secs(30);
const SOMEBODY: u32 = 4242;
const SCRIPT: &str = "id -u; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; echo $WHO; readlink /proc/self/ns/net";

/// Somebody's instance.
struct Rig {
    folder: TempDir,
    place: PathBuf,
}

struct Ran {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("instance");
        for path in [
            &place,
            &folder.path().join("image"),
            &place.join("rootfs"),
            &place.join("upper"),
            &place.join("work"),
        ] {
            fs::create_dir(path).expect("a folder");
            chown(path, Some(SOMEBODY), Some(SOMEBODY)).expect("an owner");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let program = folder.path().join("muster-native-exec");
        fs::copy(env!("CARGO_BIN_EXE_muster-native-exec"), program).expect("the program");
        Self { folder, place }
    }

    fn plan(&self) -> Plan {
        Plan {
            args: vec!["/bin/sh".into(), "-c".into(), SCRIPT.into()],
            env: vec!["PATH=/usr/bin:/bin".into(), "WHO=me".into()],
            cwd: "/".into(),
            hostname: "box".into(),
            uid: 5001,
            gid: 5001,
            groups: Vec::new(),
            layers: vec![self.folder.path().join("image")],
            beside: ["/usr", "/bin", "/lib", "/lib64"].map(Into::into).to_vec(),
            binds: Vec::new(),
            network: Network::Empty,
            tmp_size: 1 << 20,
            open_files: 64,
            user_namespace: false,
            limits: Limits {
                memory: Some(1 << 30),
                ..Limits::default()
            },
        }
    }

    fn write(&self, plan: &Plan) {
        let config = self.place.join("config.json");
        fs::write(&config, serde_json::to_vec(plan).expect("JSON")).expect("a file");
        chown(&config, Some(SOMEBODY), Some(SOMEBODY)).expect("an owner");
    }

    /// The command that starts the instance.
    fn command(&self, verb: &str) -> [PathBuf; 3] {
        let program = self.folder.path().join("muster-native-exec");
        [program, verb.into(), self.place.clone()]
    }

    fn start(&self, verb: &str) -> Ran {
        let [program, verb, place] = self.command(verb);
        let program = Program::new(program).arg(verb).arg(place);
        ran(&program.user(SOMEBODY, SOMEBODY))
    }

    fn dropped(&self) -> Vec<String> {
        let mut report = Report::default();
        report.take(&fs::read(self.place.join("report")).expect("a report"));
        report.dropped.into_iter().map(Into::into).collect()
    }
}

fn ran(program: &Program) -> Ran {
    let mut process = program.start().expect("it starts");
    Ran {
        status: process.wait(TIME).expect("it ends"),
        stdout: process.text(Stream::Stdout),
        stderr: process.text(Stream::Stderr),
    }
}

/// The network that a program has seen, after all that it says in every case.
#[track_caller]
fn network(ran: &Ran) -> &str {
    let Ran { stdout, stderr, .. } = ran;
    assert!(ran.status.success(), "{stdout}{stderr}");
    let said = format!("{SOMEBODY}\nNoNewPrivs:\t1\nSeccomp:\t2\nme\n");
    let network = stdout.strip_prefix(&said);
    network.unwrap_or_else(|| panic!("{stdout}{stderr}")).trim()
}

fn hosts_network() -> String {
    let own = fs::read_link("/proc/self/ns/net").expect("a network");
    own.to_string_lossy().into_owned()
}

#[track_caller]
fn assert_has(dropped: &[String], start: &str) {
    let found = dropped.iter().any(|dropped| dropped.starts_with(start));
    assert!(found, "{start}: {dropped:?}");
}

#[test]
fn a_user_without_root_gets_what_the_kernel_gives_and_a_list_of_the_rest() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    rig.write(&rig.plan());
    let ran = rig.start("start");
    let seen = network(&ran);
    assert!(
        seen.starts_with("net:[") && seen != hosts_network(),
        "{seen}"
    );
    let dropped = rig.dropped();
    assert_has(&dropped, "its user 5001: without root it runs as 4242");
    assert_has(&dropped, "ProtectProc: ");
    let limit = |dropped: &String| {
        dropped.starts_with("limits (") || dropped.starts_with("the limit of memory")
    };
    assert!(dropped.iter().any(limit), "{dropped:?}");
    assert_eq!(dropped.len(), 3, "{dropped:?}");
    // The unit's log has them too.
    for sentence in &dropped {
        assert!(ran.stderr.contains(sentence), "{}", ran.stderr);
    }
    // The host's network is there where it was asked for, and nothing else changes.
    rig.write(&Plan {
        network: Network::Host,
        ..rig.plan()
    });
    assert_eq!(network(&rig.start("start")), hosts_network());
    // Whoever wants all or nothing gets nothing.
    assert!(!rig.start("start-strict").status.success());
    let why = fs::read_to_string(rig.place.join("runtime.log")).expect("a log");
    assert!(
        why.starts_with("the sandbox would lack something: "),
        "{why}"
    );
}

#[test]
fn what_is_granted_or_made_for_a_program_is_never_left_out() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    let refused = |plan: &Plan, why: &str| {
        rig.write(plan);
        let ran = rig.start("start");
        assert!(
            !ran.status.success() && ran.stdout.is_empty(),
            "{}",
            ran.stdout
        );
        let log = fs::read_to_string(rig.place.join("runtime.log")).expect("a log");
        assert!(log.contains(why) && ran.stderr.contains(why), "{log}");
    };
    let network = Plan {
        network: Network::Namespace("/no/such/network".into()),
        ..rig.plan()
    };
    refused(&network, "/no/such/network");
    let bind = muster_runtime_native::plan::Bind {
        source: "/no/such/folder".into(),
        target: "/storage".into(),
        read_only: false,
        is_device: false,
    };
    let granted = Plan {
        binds: vec![bind],
        ..rig.plan()
    };
    refused(&granted, "/no/such/folder");
    let layer = Plan {
        layers: vec!["/no/such/layer".into()],
        ..rig.plan()
    };
    refused(&layer, "/no/such/layer");
    let program = Plan {
        args: vec!["no-such-program".into()],
        ..rig.plan()
    };
    refused(&program, "cannot run no-such-program");
}

#[test]
fn what_is_granted_where_the_host_has_nothing_is_seen_and_the_host_stays_as_it_is() {
    muster_lab::require!(Root);
    let place = Path::new("/usr/no-such-place-of-a-native-program");
    for has_own in [false, true] {
        let rig = Rig::new();
        if has_own {
            fs::create_dir(rig.folder.path().join("image/usr")).expect("a folder");
        }
        let granted = rig.folder.path().join("granted");
        fs::write(&granted, "granted\n").expect("a file");
        let bind = |source: &Path, target: PathBuf| muster_runtime_native::plan::Bind {
            source: source.to_owned(),
            target,
            read_only: true,
            is_device: false,
        };
        let script = format!(
            "cat {0}/deep/file; ls {0}/folder; ls /usr/bin/env",
            place.display()
        );
        let plan = Plan {
            args: vec!["/bin/sh".into(), "-c".into(), script],
            binds: vec![
                bind(&granted, place.join("deep/file")),
                bind(&rig.folder.path().join("image"), place.join("folder")),
            ],
            ..rig.plan()
        };
        rig.write(&plan);
        // The second time what it needs is there already.
        for _ in 0..2 {
            let Ran {
                status,
                stdout,
                stderr,
            } = rig.start("start");
            assert!(status.success(), "{stdout}{stderr}");
            let own = if has_own { "usr\n" } else { "" };
            assert_eq!(stdout, format!("granted\n{own}/usr/bin/env\n"));
            assert!(!place.exists());
        }
    }
}

#[test]
fn what_an_upper_layer_deletes_is_not_seen_without_root_either() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    let [lower, upper] = ["image", "upper-layer"].map(|name| rig.folder.path().join(name));
    for folder in ["app/folder", "app/replaced"] {
        fs::create_dir_all(lower.join(folder)).expect("a folder");
        fs::create_dir_all(upper.join(folder)).expect("a folder");
        fs::write(lower.join(folder).join("old"), "").expect("a file");
        fs::write(upper.join(folder).join("new"), "").expect("a file");
    }
    // As a store of a user without root has them.
    let opaque = upper.join("app/replaced");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(opaque, "user.overlay.opaque", b"y", flags).expect("a mark");
    fs::write(lower.join("app/gone"), "").expect("a file");
    let (gone, kind) = (
        upper.join("app/gone"),
        rustix::fs::FileType::CharacterDevice,
    );
    let none = rustix::fs::Mode::empty();
    rustix::fs::mknodat(rustix::fs::CWD, gone, kind, none, 0).expect("a whiteout");
    rig.write(&Plan {
        args: vec!["/bin/sh".into(), "-c".into(), "cd /app; echo * */*".into()],
        layers: vec![lower, upper],
        ..rig.plan()
    });
    let ran = rig.start("start");
    assert!(ran.status.success(), "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        "folder replaced folder/new folder/old replaced/new\n"
    );
}

#[test]
fn where_there_are_no_namespaces_a_program_runs_and_all_that_is_missing_is_listed() {
    muster_lab::require!(Root);
    let rig = Rig::new();
    rig.write(&rig.plan());
    // The kernel gives none to whoever is not at the root of its mounts.
    let script = r#"mount --rbind / "$1"
        exec chroot --userspec="$0:$0" --groups= "$@""#;
    let machine = rig.folder.path().join("machine");
    fs::create_dir(&machine).expect("a folder");
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-ec", script, &SOMEBODY.to_string()])
        .arg(&machine)
        .args(rig.command("start"));
    let ran = ran(&program);
    assert_eq!(network(&ran), hosts_network());
    let dropped = rig.dropped();
    for part in [
        "its user 5001: ",
        "PrivateUsers: cannot make a namespace of users: ",
        "PrivateNetwork: ",
        "PrivateIPC: ",
        "RootDirectory, BindPaths, TemporaryFileSystem, ProtectProc, ReadOnlyPaths, MountFlags: cannot make a mount namespace: ",
        "ProtectHostname: ",
        "CapabilityBoundingSet: ",
    ] {
        assert_has(&dropped, part);
    }
}
