//! Filters on threads and processes of this machine: what a policy keeps from them, and what it leaves them.

mod groups;

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use muster_seccomp::{Arch, CallFilter, CallRule, FamilyFilter, Kinds, Policy, Refusal, compile};
use seccompiler::sock_filter;

const EPERM: i32 = 1;
const EAFNOSUPPORT: i32 = 97;
const SIGSYS: i32 = 31;

/// Does something on a thread that a policy is in force for, and what it starts inherits.
fn under<T: Send + 'static>(policy: &Policy, act: impl FnOnce() -> T + Send + 'static) -> T {
    let arch = Arch::native().expect("tests run where filters can be made");
    let compiled = compile(policy, arch).expect("a small policy");
    let program = compiled.program.expect("it keeps something");
    let filter: Vec<sock_filter> = program
        .instructions()
        .iter()
        .map(|instruction| sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect();
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).expect("the kernel takes the filter");
        act()
    });
    thread.join().expect("the thread does not panic")
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result
        .err()
        .and_then(|error| error.raw_os_error())
        .unwrap_or(0)
}

fn denied(names: &[&str], refusal: Refusal) -> Policy {
    let rules = names.iter().map(|name| CallRule {
        name: (*name).into(),
        removed: false,
        refusal: None,
    });
    Policy {
        calls: Some(CallFilter {
            allow: false,
            rules: rules.collect(),
        }),
        refusal,
        ..Policy::default()
    }
}

fn status(program: impl AsRef<Path>, arguments: &[&str]) -> ExitStatus {
    let mut command = Command::new(program.as_ref());
    let output = command.args(arguments).output();
    output.expect("the program is started").status
}

#[test]
fn a_denied_call_fails_with_the_error_that_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made");
    let made = path.clone();
    let policy = denied(&["mkdir", "mkdirat"], Refusal::Errno(42));
    assert_eq!(under(&policy, move || errno(fs::create_dir(made))), 42);
    assert!(!path.exists());
    fs::create_dir(path).expect("only that thread cannot");
}

#[test]
fn a_process_that_makes_a_call_that_kills_ends_by_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made");
    let name = path.to_str().expect("a name").to_owned();
    let policy = denied(&["mkdir", "mkdirat"], Refusal::Kill);
    let ended = under(&policy, move || status("/bin/mkdir", &[&name]));
    assert_eq!(ended.signal(), Some(SIGSYS));
    assert!(!path.exists());
}

#[test]
fn a_list_of_allowed_calls_runs_a_program_and_refuses_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made");
    let name = path.to_str().expect("a name").to_owned();
    let mut policy = denied(&["@system-service"], Refusal::Errno(1));
    policy.calls.as_mut().expect("a list").allow = true;
    policy.architectures = vec!["native".into()];
    let (listed, unlisted) = under(&policy, move || {
        let listed = status("/bin/mkdir", &[&name]);
        (
            listed,
            status("/bin/mount", &["-t", "tmpfs", "none", &name]),
        )
    });
    assert!(listed.success(), "{listed}");
    assert!(path.exists());
    assert!(
        !unlisted.success() && unlisted.signal().is_none(),
        "{unlisted}"
    );
}

#[test]
fn families_that_are_not_listed_have_no_sockets() {
    let policy = Policy {
        families: Some(FamilyFilter {
            allow: true,
            families: vec![1],
        }),
        ..Policy::default()
    };
    let (internet, local) = under(&policy, || {
        (
            errno(UdpSocket::bind("127.0.0.1:0")),
            errno(UnixDatagram::unbound()),
        )
    });
    assert_eq!((internet, local), (EAFNOSUPPORT, 0));
}

#[test]
fn no_file_gets_the_rights_of_its_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let policy = Policy {
        restrict_suid_sgid: true,
        ..Policy::default()
    };
    under(&policy, move || {
        let make = |name: &str, mode: u32| {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).mode(mode);
            errno(options.open(path.join(name)))
        };
        assert_eq!(make("plain", 0o755), 0);
        assert_eq!(make("set-user-id", 0o4755), EPERM);
        let set = |mode| {
            errno(fs::set_permissions(
                path.join("plain"),
                Permissions::from_mode(mode),
            ))
        };
        assert_eq!((set(0o700), set(0o4700), set(0o2700)), (0, EPERM, EPERM));
        let folder = |name: &str, mode| errno(DirBuilder::new().mode(mode).create(path.join(name)));
        assert_eq!((folder("a", 0o700), folder("b", 0o2700)), (0, EPERM));
        let mut temporary = OpenOptions::new();
        let temporary = temporary
            .write(true)
            .custom_flags(0o20_200_000)
            .mode(0o4700);
        assert_eq!(errno(temporary.open(&path)), EPERM);
    });
}

/// Programs still start although `clone3` is answered as by an old kernel.
#[test]
fn no_namespace_is_made() {
    let policy = Policy {
        namespaces: Some(Kinds(0)),
        ..Policy::default()
    };
    let (plain, own) = under(&policy, || {
        let made = status("/usr/bin/unshare", &["--user", "/bin/true"]);
        (status("/bin/true", &[]), made)
    });
    assert!(plain.success(), "{plain}");
    assert!(!own.success() && own.signal().is_none(), "{own}");
    let free = status("/usr/bin/unshare", &["--user", "/bin/true"]);
    assert!(free.success(), "without the policy: {free}");
}

#[test]
fn the_personality_and_the_ordinary_scheduler_stay() {
    let policy = Policy {
        lock_personality: Some(0),
        restrict_realtime: true,
        ..Policy::default()
    };
    let (personality, realtime, batch) = under(&policy, || {
        (
            status("/usr/bin/setarch", &["--addr-no-randomize", "/bin/true"]),
            status("/usr/bin/chrt", &["--fifo", "1", "/bin/true"]),
            status("/usr/bin/chrt", &["--batch", "0", "/bin/true"]),
        )
    });
    assert!(!personality.success() && personality.signal().is_none());
    assert!(!realtime.success() && realtime.signal().is_none());
    assert!(batch.success(), "{batch}");
}

/// A program can choose another table than the one that it was built for.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_table_of_x86_is_no_way_around_a_filter() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("table-of-x86");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/table_of_x86.c");
    let built = Command::new("cc")
        .args(["-nostdlib", "-static", "-fno-stack-protector", "-o"])
        .args([&program, Path::new(source)])
        .status()
        .expect("a compiler, which linking this test needed too");
    assert!(built.success());
    if status(&program, &[]).signal().is_some() {
        println!("the_table_of_x86_is_no_way_around_a_filter: this kernel has no table of x86");
        return;
    }
    let run = |policy: &Policy| {
        let program = program.clone();
        under(policy, move || status(&program, &[]))
    };
    let refused = run(&denied(&["getppid"], Refusal::Errno(42)));
    assert_eq!(refused.code(), Some(42));
    let native = Policy {
        architectures: vec!["native".into()],
        ..Policy::default()
    };
    assert_eq!(run(&native).signal(), Some(SIGSYS));
    let admitted = Policy {
        architectures: vec!["native".into(), "x86".into()],
        ..Policy::default()
    };
    assert_eq!(run(&admitted).code(), Some(0));
}
