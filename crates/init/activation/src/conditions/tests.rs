use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A machine made of files.
struct Rig {
    dir: tempfile::TempDir,
    facts: ConditionFacts,
}

impl Rig {
    fn new() -> Self {
        let mut facts = ConditionFacts::default();
        facts.host.architecture = Some("arm64".into());
        facts.host.kernel_release = Some("6.1.0-rt4-arm64".into());
        facts.host.hostname = Some("Box7".into());
        facts.host.machine_id = Some("0123456789abcdef0123456789abcdef".into());
        Self {
            dir: tempfile::tempdir().unwrap(),
            facts,
        }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn try_check(&self, kind: ConditionKind, text: &str) -> Result<bool, EvaluateConditionError> {
        let (negate, parameter) = match text.strip_prefix('!') {
            // `!=` and `!$=` are operators.
            Some(rest) if !rest.starts_with(['=', '$']) => (true, rest),
            _ => (false, text),
        };
        let host = ConditionHost::new(self.dir.path(), self.facts.clone());
        host.holds(&Condition {
            kind,
            assert: false,
            trigger: false,
            negate,
            parameter: parameter.into(),
        })
    }

    #[track_caller]
    fn check(&self, kind: ConditionKind, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            assert_eq!(self.try_check(kind, text), Ok(*expected), "{kind}={text}");
        }
    }

    #[track_caller]
    fn refuses(&self, kind: ConditionKind, texts: &[&str]) {
        for text in texts {
            let error = self.try_check(kind, text).unwrap_err();
            assert!(error.to_string().contains(kind.as_str()), "{error}");
            // Not deciding is not holding, also where the opposite is asked for.
            assert!(self.try_check(kind, &format!("!{text}")).is_err(), "{text}");
        }
    }
}

#[test]
fn paths_are_looked_at_below_the_root() {
    let rig = Rig::new();
    rig.write("d/full", "x");
    rig.write("d/empty", "");
    fs::create_dir(rig.dir.path().join("e")).unwrap();
    symlink("d", rig.dir.path().join("l")).unwrap();
    symlink("nowhere", rig.dir.path().join("dead")).unwrap();
    let exec = rig.dir.path().join("d/run");
    fs::write(&exec, "x").unwrap();
    fs::set_permissions(&exec, fs::Permissions::from_mode(0o755)).unwrap();
    use ConditionKind as K;
    rig.check(
        K::PathExists,
        &[
            ("/d/full", true),
            ("/no", false),
            ("!/no", true),
            ("/dead", false),
        ],
    );
    rig.check(
        K::PathExistsGlob,
        &[("/d/f*", true), ("/*/full", true), ("/d/z*", false)],
    );
    rig.check(
        K::PathIsDirectory,
        &[("/d", true), ("/l", true), ("/d/full", false)],
    );
    rig.check(
        K::PathIsSymbolicLink,
        &[("/l", true), ("/dead", true), ("/d", false)],
    );
    rig.check(
        K::DirectoryNotEmpty,
        &[("/d", true), ("/e", false), ("/d/full", false)],
    );
    rig.check(
        K::FileNotEmpty,
        &[("/d/full", true), ("/d/empty", false), ("/d", false)],
    );
    rig.check(
        K::FileIsExecutable,
        &[("/d/run", true), ("/d/full", false), ("/d", false)],
    );
    rig.check(K::PathIsReadWrite, &[("/d", true), ("/no", false)]);
    rig.check(K::PathIsMountPoint, &[("/d", false), ("/no", false)]);
    rig.check(K::PathIsEncrypted, &[("/d", false), ("/no", false)]);
    let real = ConditionHost::new(Path::new("/"), ConditionFacts::default());
    let mounted = |path: &str| {
        real.holds(&Condition {
            kind: K::PathIsMountPoint,
            assert: false,
            trigger: false,
            negate: false,
            parameter: path.into(),
        })
    };
    assert_eq!(
        (mounted("/proc"), mounted("/usr/bin/nothing")),
        (Ok(true), Ok(false))
    );
}

#[test]
fn encrypted_means_every_device_below() {
    let rig = Rig::new();
    rig.write("file", "x");
    let device = std::os::unix::fs::MetadataExt::dev(&fs::metadata(rig.dir.path()).unwrap());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = format!("sys/dev/block/{major}:{minor}");
    let check = |expected| rig.check(ConditionKind::PathIsEncrypted, &[("/file", expected)]);
    rig.write(&format!("{place}/dm/uuid"), "LVM-x\n");
    check(false);
    rig.write(&format!("{place}/slaves/a/dm/uuid"), "CRYPT-LUKS2-x\n");
    check(true);
    rig.write(&format!("{place}/slaves/b/dm/uuid"), "LVM-y\n");
    check(false);
    rig.write(&format!("{place}/dm/uuid"), "CRYPT-PLAIN-x\n");
    check(true);
}

#[test]
fn the_kernels_command_line_and_version_are_asked() {
    let rig = Rig::new();
    rig.write("proc/cmdline", "quiet root=/dev/sda1 debug=3\n");
    rig.check(
        ConditionKind::KernelCommandLine,
        &[
            ("quiet", true),
            ("root", true),
            ("root=/dev/sda1", true),
            ("root=/dev/sda", false),
            ("roo", false),
            ("!debug", false),
        ],
    );
    rig.check(
        ConditionKind::KernelVersion,
        &[
            (">=6.1", true),
            (">= 6.1", true),
            ("<6.1", false),
            ("6.*", true),
            ("5.*", false),
            (">=5.10 <7 *-arm64", true),
            (">=5.10 <6", false),
            ("!=6.1.0", true),
            ("$=*rt*", true),
        ],
    );
    rig.refuses(ConditionKind::KernelVersion, &[">=", "\"open"]);
}

#[test]
fn first_boot_and_updates_are_decided() {
    let mut rig = Rig::new();
    rig.check(ConditionKind::FirstBoot, &[("yes", false), ("no", true)]);
    rig.facts.first_boot = true;
    rig.check(ConditionKind::FirstBoot, &[("yes", true)]);
    rig.refuses(ConditionKind::FirstBoot, &["perhaps"]);
    rig.write("usr/x", "");
    fs::create_dir(rig.dir.path().join("etc")).unwrap();
    rig.check(
        ConditionKind::NeedsUpdate,
        &[("/etc", true), ("/none", false)],
    );
    rig.write("etc/.updated", "");
    rig.check(ConditionKind::NeedsUpdate, &[("/etc", false)]);
    // A stamp in whole seconds tells the rest in its text.
    let usr = fs::metadata(rig.dir.path().join("usr")).unwrap();
    let (seconds, nanos) = {
        use std::os::unix::fs::MetadataExt;
        (usr.mtime(), usr.mtime_nsec())
    };
    let whole = seconds * 1_000_000_000 + nanos;
    for (at, expected) in [(whole, false), (whole - 1, true)] {
        rig.write("etc/.updated", format!("# x\nTIMESTAMP_NSEC={at}\n"));
        let moment = rustix::fs::Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: moment,
            last_modification: moment,
        };
        let path = rig.dir.path().join("etc/.updated");
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).unwrap();
        rig.check(ConditionKind::NeedsUpdate, &[("/etc", expected)]);
    }
    rig.write(
        "proc/cmdline",
        "systemd.condition-needs-update=0 systemd.condition-first-boot=no",
    );
    rig.check(ConditionKind::NeedsUpdate, &[("/etc", false)]);
    rig.check(ConditionKind::FirstBoot, &[("yes", false)]);
}

#[test]
fn the_machine_is_known_by_its_names() {
    let rig = Rig::new();
    use ConditionKind as K;
    rig.check(
        K::Architecture,
        &[("arm64", true), ("x86-64", false), ("native", true)],
    );
    rig.check(
        K::Host,
        &[
            ("box7", true),
            ("BOX*", true),
            ("other", false),
            ("0123456789ABCDEF0123456789ABCDEF", true),
            ("01234567-89ab-cdef-0123-456789abcdef", true),
            ("11234567-89ab-cdef-0123-456789abcdef", false),
        ],
    );
    rig.write("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    rig.check(
        K::OsRelease,
        &[
            ("ID=debian", true),
            ("ID=debia", false),
            ("ID!=suse", true),
            ("VERSION_ID>=9", true),
            ("ID=debian VERSION_ID<12", false),
            ("BUILD_ID=", true),
            ("ID$=deb*", true),
        ],
    );
    rig.refuses(K::OsRelease, &["ID", "=x", "ID debian"]);
}

#[test]
fn hardware_is_read_from_the_kernel() {
    let rig = Rig::new();
    use ConditionKind as K;
    rig.write("proc/meminfo", "MemFree: 1 kB\nMemTotal:   2097152 kB\n");
    rig.check(
        K::Memory,
        &[
            ("2G", true),
            (">2G", false),
            ("=2G", true),
            ("<=2G", true),
            ("3G", false),
        ],
    );
    rig.refuses(K::Memory, &["much", "$=2G", ">="]);
    rig.write(
        "proc/self/status",
        "Cpus_allowed:\tff,0000000f\nCapBnd:\t0000000000000021\nGroups:\t4 20\n",
    );
    rig.check(
        K::Cpus,
        &[
            ("12", true),
            ("<12", false),
            ("!=12", false),
            ("> 11", true),
        ],
    );
    rig.refuses(K::Cpus, &["x", ""]);
    rig.check(
        K::Capability,
        &[
            ("CAP_CHOWN", true),
            ("CAP_KILL", true),
            ("CAP_SYS_ADMIN", false),
        ],
    );
    rig.refuses(K::Capability, &["CAP_NONE"]);
    rig.write(
        "proc/cpuinfo",
        "processor: 0\nflags\t\t: fpu pni pclmulqdq aes\n",
    );
    rig.check(
        K::CpuFeature,
        &[
            ("aes", true),
            ("AES", true),
            ("sse3", true),
            ("pclmul", true),
            ("avx", false),
        ],
    );
    rig.check(K::AcPower, &[("yes", true), ("no", false)]);
    rig.write("sys/class/power_supply/AC/type", "Mains\n");
    rig.write("sys/class/power_supply/AC/online", "0\n");
    rig.write("sys/class/power_supply/BAT0/type", "Battery\n");
    rig.write("sys/class/power_supply/BAT0/online", "1\n");
    rig.check(K::AcPower, &[("yes", false), ("no", true)]);
    rig.write("sys/class/power_supply/AC/online", "1\n");
    rig.check(K::AcPower, &[("yes", true)]);
    rig.refuses(K::AcPower, &["maybe"]);
}

#[test]
fn firmware_and_security_are_known() {
    let rig = Rig::new();
    use ConditionKind as K;
    let before = [
        ("uefi", false),
        ("device-tree", false),
        ("device-tree-compatible(x)", false),
    ];
    rig.check(K::Firmware, &before);
    fs::create_dir_all(rig.dir.path().join("sys/firmware/efi")).unwrap();
    rig.write("proc/device-tree/compatible", "acme,board\0acme,soc\0");
    rig.write("sys/class/dmi/id/board_name", "Custom Board\n");
    rig.write("sys/class/dmi/id/bios_version", "1.10\n");
    rig.check(
        K::Firmware,
        &[
            ("uefi", true),
            ("device-tree-compatible(acme,soc)", true),
            ("device-tree-compatible(acme)", false),
            ("smbios-field(board_name=Custom Board)", true),
            ("smbios-field(board_name = \"Custom Board\")", true),
            ("smbios-field(bios_version>=1.9)", true),
            ("smbios-field(none=x)", false),
        ],
    );
    rig.refuses(
        K::Firmware,
        &["bios", "smbios-field(x)", "smbios-field(x~1)"],
    );
    rig.write("sys/module/apparmor/parameters/enabled", "Y\n");
    rig.write("sys/fs/selinux/enforce", "1");
    rig.write(
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        [6, 0, 0, 0, 1],
    );
    rig.write("sys/class/tpmrm/tpmrm0/x", "");
    rig.check(
        K::Security,
        &[
            ("selinux", true),
            ("apparmor", true),
            ("uefi-secureboot", true),
            ("tpm2", true),
            ("smack", false),
            ("ima", false),
            ("tomoyo", false),
            ("unheard-of", false),
        ],
    );
}

#[test]
fn users_environment_credentials_and_controllers_are_known() {
    let mut rig = Rig::new();
    use ConditionKind as K;
    rig.write("proc/self/status", "Groups:\t4 20\n");
    rig.write("etc/group", "adm:x:4:\nbad\nother:x:9:\n");
    rig.check(
        K::User,
        &[
            ("root", true),
            ("0", true),
            ("@system", true),
            ("1", false),
            ("me", false),
        ],
    );
    rig.check(
        K::Group,
        &[
            ("root", true),
            ("20", true),
            ("adm", true),
            ("other", false),
            ("7", false),
            ("@system", true),
        ],
    );
    rig.facts.host.uid = 1000;
    rig.check(K::User, &[("@system", false)]);
    rig.facts.environment = vec![
        ("A".into(), "b=c".into()),
        ("CREDENTIALS_DIRECTORY".into(), "/creds".into()),
    ];
    rig.check(
        K::Environment,
        &[("A", true), ("A=b=c", true), ("A=b", false), ("B", false)],
    );
    rig.write("creds/key", "");
    rig.check(
        K::Credential,
        &[
            ("key", true),
            ("none", false),
            ("../creds/key", false),
            ("..", false),
        ],
    );
    rig.facts.controllers = vec!["cpu".into(), "memory".into()];
    rig.check(
        K::ControlGroupController,
        &[
            ("cpu", true),
            ("cpu memory", true),
            ("io", false),
            ("v1", true),
            ("v2", false),
        ],
    );
    rig.facts.unified_cgroups = true;
    rig.check(
        K::ControlGroupController,
        &[("v2 cpu", true), ("v1", false)],
    );
}

#[test]
fn pressure_is_compared_with_the_right_window() {
    let mut rig = Rig::new();
    use ConditionKind as K;
    rig.check(K::MemoryPressure, &[("0%", true)]);
    let text = "some avg10=25.50 avg60=10.00 avg300=1.25 total=1\nfull avg10=99.00 avg60=0 avg300=0 total=1\n";
    rig.write("proc/pressure/memory", text);
    rig.check(
        K::MemoryPressure,
        &[
            ("25%/10s", false),
            ("25.5%/10s", true),
            ("10%/1min", true),
            ("9%/1min", false),
            ("2%", true),
            ("1%/5min", false),
        ],
    );
    rig.refuses(
        K::MemoryPressure,
        &["x%", "10", "1%/2h", "a.service:1%", "a--b.slice:1%"],
    );
    rig.facts.cgroup_root = Some(rig.dir.path().join("cg"));
    rig.write(
        "cg/a.slice/a-b.slice/cpu.pressure",
        "some avg10=3.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    rig.check(
        K::CpuPressure,
        &[
            ("a-b.slice:2%/10s", false),
            ("a-b.slice: 3%/10s", true),
            ("-.slice:0%", true),
        ],
    );
    rig.check(K::IoPressure, &[("0%", true)]);
}

#[test]
fn virtualization_is_told_by_whoever_made_the_machine() {
    use ConditionKind as K;
    let fresh = Rig::new;
    let rig = fresh();
    rig.check(
        K::Virtualization,
        &[("no", true), ("yes", false), ("vm", false), ("kvm", false)],
    );
    rig.write("proc/self/uid_map", "0 0 4294967295\n");
    rig.write("proc/self/gid_map", "0 0 4294967295\n");
    rig.check(K::Virtualization, &[("private-users", false)]);
    rig.write("proc/self/uid_map", "0 100000 65536\n");
    rig.check(K::Virtualization, &[("private-users", true)]);
    rig.write("sys/class/dmi/id/sys_vendor", "QEMU\n");
    let vm = [
        ("yes", true),
        ("vm", true),
        ("qemu", true),
        ("container", false),
        ("kvm", false),
    ];
    rig.check(K::Virtualization, &vm);
    rig.write("proc/1/environ", "A=b\0container=lxc\0");
    let container = [
        ("container", true),
        ("lxc", true),
        ("vm", false),
        ("qemu", false),
    ];
    rig.check(K::Virtualization, &container);
    rig.write("run/host/container-manager", "oci\n");
    rig.check(K::Virtualization, &[("container-other", true)]);
    rig.write(".dockerenv", "");
    rig.check(K::Virtualization, &[("docker", true)]);
    let host = ConditionHost::new(rig.dir.path(), rig.facts.clone());
    assert_eq!(host.virtualization().name(), "docker");
    let rig = fresh();
    rig.write("proc/cpuinfo", "vendor_id\t: User Mode Linux\n");
    rig.check(K::Virtualization, &[("uml", true), ("vm", true)]);
    let rig = fresh();
    rig.write("sys/hypervisor/type", "xen\n");
    rig.check(K::Virtualization, &[("xen", true)]);
    rig.write("proc/xen/capabilities", "control_d\n");
    rig.check(K::Virtualization, &[("no", true)]);
    let rig = fresh();
    rig.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    rig.write("sys/class/dmi/id/product_name", "m5.large\n");
    rig.check(K::Virtualization, &[("amazon", true)]);
    rig.write("sys/class/dmi/id/product_name", "m5.metal\n");
    rig.check(K::Virtualization, &[("no", true)]);
}
