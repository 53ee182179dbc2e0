//! In a machine, as root: the whole sandbox.

use std::fs;
use std::time::Duration;

use muster_lab::machine::{Build, CommandOutput, Machine};
use muster_lab::program::{Process, Stream};
use muster_lab::{muster, try_poll_for};
use tempfile::TempDir;

const TIME: Duration = Duration::from_secs(60);
const DRIVER: &str = "/usr/local/lib/native-driver";

struct Rig {
    machine: Machine,
    // Seen by the machine until it ends.
    _image: TempDir,
}

/// An image with one file of its own; programs are the host's.
fn image() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::create_dir_all(folder.path().join("usr/share/app")).expect("a folder");
    fs::write(folder.path().join("usr/share/app/data"), "from the image\n").expect("a file");
    let programs = folder.path().join("app");
    fs::create_dir(&programs).expect("a folder");
    for (name, mode) in [("attempts", 0o755), ("raised", 0o4755)] {
        let program = programs.join(name);
        fs::copy(muster_fault::test_program("native-attempts"), &program).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    folder
}

impl Rig {
    fn boot() -> Self {
        let image = image();
        let programs =
            muster::programs(Build::Test, &["muster-core/fault-points"]).expect("programs");
        let builder = muster::machine(&programs)
            .hybrid_cgroups()
            .bind(muster_fault::test_program("native-driver"), DRIVER)
            .bind(
                env!("CARGO_BIN_EXE_muster-native-exec"),
                "/usr/local/lib/muster-native-exec",
            )
            .bind(image.path(), "/image");
        let machine = muster::boot(&builder, TIME).expect("it boots");
        let made = machine.run([
            "sh",
            "-c",
            "mkdir -p /run/storage && chmod 777 /run/storage",
        ]);
        assert!(made.expect("a folder").status.success());
        Self {
            machine,
            _image: image,
        }
    }

    fn start_driver(&self, words: &[&str]) -> Process {
        let program = self.machine.program([DRIVER].iter().chain(words));
        program.start().expect("the driver starts")
    }

    fn driver(&self, words: &[&str]) -> CommandOutput {
        let mut process = self.start_driver(words);
        let status = process.wait(TIME).expect("the driver ends");
        CommandOutput {
            status,
            stdout: process.text(Stream::Stdout),
            stderr: process.text(Stream::Stderr),
        }
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.driver(words);
        assert!(
            output.status.success(),
            "{words:?}: {}{}",
            output.stdout,
            output.stderr
        );
        output.stdout
    }

    /// What is mounted in the machine, where everybody sees it.
    #[track_caller]
    fn mounted(&self) -> String {
        let mounts = self.machine.run(["cat", "/proc/1/mountinfo"]);
        let mounts = mounts.expect("the machine's mounts");
        assert!(mounts.status.success(), "{}", mounts.stderr);
        mounts.stdout
    }

    #[track_caller]
    fn written(&self, path: &str, end: &str) -> String {
        let whole = || {
            self.machine
                .read(path)
                .ok()
                .filter(|text| text.ends_with(end))
        };
        try_poll_for(TIME, whole).unwrap_or_else(|| panic!("{:?}", self.machine.read(path)))
    }
}

#[test]
fn a_program_sees_its_image_beside_the_host_and_nothing_else() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    let script = r#"
        exec >/storage/seen 2>&1
        cat /usr/share/app/data
        ls /usr/bin/env
        id -u
        grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status
        touch /x /usr/x /etc/x 2>/dev/null && echo may write
        unshare -U true 2>/dev/null && echo may unshare
        ls /root /home /var /sys 2>/dev/null && echo sees the host
        ls -d /proc/1 2>/dev/null && echo sees others
        grep -c : /proc/net/dev
        cat /etc/hostname | grep -c -
        ulimit -n
        echo $AOS_ITEM_ID
        echo end
        exec sleep 1000"#;
    let options =
        r#"{"storage": "/run/storage", "files": 77, "ram": 33554432, "pids": 23, "dmips": 2500}"#;
    rig.ok(&["start", "a", "1", script, options]);
    let seen = rig.written("/run/storage/seen", "end\n");
    assert_eq!(
        seen,
        "from the image\n/usr/bin/env\n5001\n\
         CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
         CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n\
         1\n1\n77\na\nend\n"
    );
    let group = "/sys/fs/cgroup/memory/system.slice/muster-native-*/container";
    let limit = rig.machine.run([
        "sh",
        "-c",
        &format!("cat {group}/memory.limit_in_bytes {group}/cgroup.procs | wc -l"),
    ]);
    assert_eq!(limit.unwrap().stdout.trim(), "2");
    let pids = rig.machine.run([
        "sh",
        "-c",
        "cat /sys/fs/cgroup/pids/system.slice/muster-native-*/container/pids.max",
    ]);
    assert_eq!(pids.unwrap().stdout, "23\n");
    // Nothing of it is mounted where anybody else sees it, and nothing was dropped.
    let dropped = rig.machine.run([
        "sh",
        "-c",
        "cat /run/muster/native/*/report; grep muster/native /proc/self/mounts",
    ]);
    assert_eq!(dropped.unwrap().stdout, "");
    rig.ok(&["stop", "a", "0"]);
    assert_eq!(rig.ok(&["leftovers"]), "");
}

#[test]
fn ends_failures_and_adoption_are_as_everywhere() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    let mut watch = rig.start_driver(&["watch", "bad", "hungry"]);
    watch.wait_for_line("watching", TIME).expect("it watches");
    rig.ok(&["start", "bad", "1", "sleep 0.3; exit 7"]);
    watch
        .wait_for_line(
            "event bad 1 Restarting { last: Exited(7), restarts: 1 }",
            TIME,
        )
        .expect("it is told");
    watch
        .wait_for_line("event bad 1 Ended(Exited(7))", TIME)
        .expect("it is told");
    let hungry = r#"{"ram": 16000000, "burst": 1}"#;
    rig.ok(&[
        "start",
        "hungry",
        "3",
        "sleep 0.3; exec dd if=/dev/zero of=/dev/null bs=100M",
        hungry,
    ]);
    watch
        .wait_for_line("event hungry 3 Ended(OutOfMemory)", TIME)
        .expect("it is told");
    rig.ok(&["start", "stays", "5", "exec sleep 1000"]);
    let adopted = rig.ok(&["adopt", "stays"]);
    assert_eq!(adopted, "adopted stays 5 Running\n");
    assert_eq!(rig.ok(&["leftovers", "stays"]), "");
    rig.ok(&["stop", "stays", "0"]);
    // What cannot run is a start that fails, and says why.
    let refused = rig.driver(&["start", "odd", "1", "true", r#"{"layers": ["/nowhere"]}"#]);
    assert!(refused.stderr.contains("/nowhere"), "{}", refused.stderr);
    rig.ok(&["stop", "odd", "0"]);
    let refused = rig.driver(&[
        "start",
        "odd",
        "2",
        "true",
        r#"{"capabilities": ["CAP_NET_ADMIN"]}"#,
    ]);
    assert!(
        refused
            .stderr
            .contains("CAP_NET_ADMIN, which the native runtime never gives"),
        "{}",
        refused.stderr
    );
    assert_eq!(rig.ok(&["leftovers"]), "");
}

#[test]
fn what_leads_out_of_a_sandbox_is_refused_to_anybody() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot();
    let before = rig.mounted();
    let script = "/app/attempts >/storage/tried 2>&1; echo end >>/storage/tried; exec sleep 1000";
    // Root within is nobody special: only what is read-only, and not merely another's, keeps it from writing.
    for uid in [5001, 0] {
        let options = format!(r#"{{"storage": "/run/storage", "uid": {uid}}}"#);
        rig.ok(&["start", "a", "1", script, &options]);
        let tried = rig.written("/run/storage/tried", "end\n");
        let expected = format!(
            "mount: 1\nptrace: 1\nraw socket: 1\npacket socket: 1\nkeyctl: 1\nunshare: 1\nclone: 1\nbpf: 1\n\
             io_uring: 1\nreboot: 1\ndevice: 1\nwrite /usr: 30\nwrite /etc: 30\nwrite /app: 30\nwrite /dev: 30\n\
             write /tmp: 0\n{uid} raised: {uid}\nend\n"
        );
        assert_eq!(tried, expected);
        assert_eq!(rig.mounted(), before, "nothing of it is mounted outside");
        rig.ok(&["stop", "a", "0"]);
        assert_eq!(rig.ok(&["leftovers"]), "");
        let cleared = rig.machine.run(["rm", "/run/storage/tried"]);
        assert!(cleared.expect("a file").status.success());
    }
    assert_eq!(rig.mounted(), before, "nothing is left mounted");
}
