//! Secrets, where the program finds them and nobody else does.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use muster_exec::{Credential, CredentialSource, ExecContext, Identity, Step};

use crate::rig::{failure, is_root, isolated, output, sandboxed, shell};

fn data(name: &str, data: &[u8]) -> Credential {
    Credential {
        name: name.into(),
        source: CredentialSource::Data(data.to_vec()),
    }
}

fn path(name: &str, path: &str) -> Credential {
    Credential {
        name: name.into(),
        source: CredentialSource::Path(path.into()),
    }
}

fn with(script: &str, folder: &Path, credentials: Vec<Credential>) -> ExecContext {
    let folder = folder.to_str().unwrap();
    let mut context = sandboxed(script, |sandbox| {
        sandbox.unit = "x.service".into();
        sandbox.credentials = credentials;
        sandbox.credentials_folder = Some(folder.into());
    });
    context.environment.push(format!("C={folder}").into());
    context
}

/// A folder that everybody may pass through.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    folder
}

fn as_user(context: ExecContext, uid: u32) -> ExecContext {
    ExecContext {
        identity: Some(Identity {
            uid,
            gid: uid,
            groups: Vec::new(),
        }),
        ..context
    }
}

#[test]
fn a_user_reads_his_own_and_nobody_writes() {
    if !is_root("a_user_reads_his_own_and_nobody_writes") {
        return;
    }
    let folder = open_folder();
    let place = folder.path().join("all/x.service");
    isolated(move || {
        let script = "cat $C/a; stat -c '%a %u %g' $C $C/a $C/b; \
                      echo x 2>/dev/null > $C/a || echo read-only; rm -f $C/a 2>/dev/null || echo stays; \
                      chmod 777 $C 2>/dev/null || echo closed; stat -f -c %T $C";
        let secrets = vec![data("a", b"secret\n"), data("b", b"")];
        let context = with(script, &place, secrets);
        let text = output(&as_user(context.clone(), 4711));
        let expected = "secret\n500 4711 4711\n400 4711 4711\n400 4711 4711\n\
                        read-only\nstays\nclosed\nramfs\n";
        assert_eq!(text, expected);
        // Another command of the run finds it, and root cannot write either.
        let text = output(&with(
            "cat $C/a; echo x 2>/dev/null > $C/a || echo read-only",
            &place,
            vec![],
        ));
        assert_eq!(text, "secret\nread-only\n");
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let place = place.to_str().unwrap();
        let found: Vec<&str> = mounts.lines().filter(|line| line.contains(place)).collect();
        assert_eq!(found.len(), 1, "it is mounted once: {found:?}");
        for option in ["ro", "nosuid", "nodev", "noexec"] {
            assert!(found[0].contains(option), "{found:?}");
        }
        // Another user sees nothing of it.
        let other = as_user(
            shell(&format!("cat {place}/a 2>/dev/null || echo closed")),
            4712,
        );
        assert_eq!(output(&other), "closed\n");
    });
}

#[test]
fn files_of_root_become_the_users() {
    if !is_root("files_of_root_become_the_users") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let source = folder.path().join("source");
        std::fs::write(&source, "of root").unwrap();
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o600)).unwrap();
        let place = folder.path().join("place");
        let secrets = vec![path("key", source.to_str().unwrap())];
        let context = as_user(with("cat $C/key", &place, secrets), 4711);
        assert_eq!(output(&context), "of root");
        assert_eq!(std::fs::metadata(place.join("key")).unwrap().uid(), 4711);
    });
}

#[test]
fn a_secret_that_is_missing_is_never_left_out() {
    if !is_root("a_secret_that_is_missing_is_never_left_out") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let place = folder.path().join("place");
        let mut context = with("echo ran", &place, vec![path("key", "/no/such/key")]);
        for best_effort in [false, true] {
            context.sandbox.as_mut().unwrap().best_effort = best_effort;
            let (step, failed) = failure(&context);
            assert_eq!((step, failed.errno), (Step::Credentials, libc::ENOENT));
            assert!(failed.detail.contains("/no/such/key"), "{failed:?}");
        }
        let large = vec![data("large", &vec![0; (1 << 20) + 1])];
        let (step, failed) = failure(&with("echo ran", &place, large));
        assert_eq!((step, failed.errno), (Step::Credentials, libc::E2BIG));
    });
}

/// A command that keeps all rights may be the first of a run.
#[test]
fn secrets_are_the_users_though_another_command_puts_them_there() {
    if !is_root("secrets_are_the_users_though_another_command_puts_them_there") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let place = folder.path().join("place");
        let mut first = with("cat $C/a", &place, vec![data("a", b"secret")]);
        first.sandbox.as_mut().unwrap().credentials_owner = Some((4711, 4711));
        assert_eq!(output(&first), "secret");
        let main = as_user(with("cat $C/a", &place, vec![data("a", b"secret")]), 4711);
        assert_eq!(output(&main), "secret");
    });
}

/// The folder above is open to everybody, and so is a lock on it.
#[test]
fn nobody_else_holds_a_start_up_by_a_lock() {
    if !is_root("nobody_else_holds_a_start_up_by_a_lock") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let above = std::fs::File::open(folder.path()).unwrap();
        above.lock().unwrap();
        let place = folder.path().join("place");
        let context = as_user(with("cat $C/a", &place, vec![data("a", b"x")]), 4711);
        assert_eq!(output(&context), "x");
        // Once it is there, the unit's own user may lock it, and holds nobody up either.
        let own = std::fs::File::open(&place).unwrap();
        own.lock().unwrap();
        assert_eq!(output(&context), "x");
    });
}

/// Whoever is asked for a secret may have to be started first, with secrets of its own.
#[test]
fn a_service_that_is_asked_for_a_secret_has_secrets_of_its_own() {
    if !is_root("a_service_that_is_asked_for_a_secret_has_secrets_of_its_own") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let socket = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let server = folder.path().join("server.service");
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let secret = output(&with("cat $C/own", &server, vec![data("own", b"its own")]));
            std::io::Write::write_all(&mut stream, secret.as_bytes()).unwrap();
        });
        let client = folder.path().join("client.service");
        let asked = path("key", socket.to_str().unwrap());
        assert_eq!(output(&with("cat $C/key", &client, vec![asked])), "its own");
        served.join().unwrap();
    });
}

#[test]
fn commands_that_start_together_mount_once() {
    if !is_root("commands_that_start_together_mount_once") {
        return;
    }
    let folder = open_folder();
    isolated(move || {
        let place = folder.path().join("place");
        let context = with("cat $C/a", &place, vec![data("a", b"x")]);
        let all: Vec<_> = (0..8).map(|_| crate::rig::start(&context)).collect();
        for running in all {
            assert_eq!(running.finish().output, "x");
        }
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let place = place.to_str().unwrap();
        assert_eq!(
            mounts.lines().filter(|line| line.contains(place)).count(),
            1
        );
    });
}
