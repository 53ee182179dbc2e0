//! Whose rights a program has, and which.

use std::os::unix::fs::PermissionsExt;

use muster_exec::folders::{Folder, Kind};
use muster_exec::{CapabilitySets, ExecContext, Identity, Names, Sandbox, Step, WorkingDirectory};

use crate::rig::{failure, field, is_root, mask, output, run, sandboxed, shell};

const STATUS: &str = "cat /proc/self/status";
const CHOWN: u64 = 1 << 0;
const KILL: u64 = 1 << 5;
const NET_BIND: u64 = 1 << 10;

fn as_user(context: ExecContext) -> ExecContext {
    ExecContext {
        identity: Some(Identity {
            uid: 4711,
            gid: 4712,
            groups: vec![4713],
        }),
        ..context
    }
}

fn names(user: &str) -> Names {
    Names {
        user: Some(user.into()),
        ..Names::default()
    }
}

fn with_names(script: &str, names: Names) -> ExecContext {
    sandboxed(script, |sandbox| sandbox.names = Some(names))
}

fn with_sets(script: &str, bounding: u64, ambient: u64) -> ExecContext {
    sandboxed(script, |sandbox| {
        sandbox.capabilities = Some(CapabilitySets { bounding, ambient });
    })
}

#[test]
fn numbers_are_taken_as_they_are() {
    if !is_root("numbers_are_taken_as_they_are") {
        return;
    }
    let status = output(&as_user(shell(STATUS)));
    assert_eq!(field(&status, "Uid"), "4711\t4711\t4711\t4711");
    assert_eq!(field(&status, "Gid"), "4712\t4712\t4712\t4712");
    assert_eq!(field(&status, "Groups"), "4713");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(mask(&status, set), 0, "{set}");
    }
}

#[test]
fn names_are_looked_up_with_all_that_belongs_to_them() {
    if !is_root("names_are_looked_up_with_all_that_belongs_to_them") {
        return;
    }
    let names = Names {
        groups: vec!["adm".into(), "4713".into()],
        login_environment: true,
        ..names("daemon")
    };
    let context = ExecContext {
        working_directory: Some(WorkingDirectory {
            path: "~".into(),
            optional: false,
        }),
        ..with_names(
            "id -un; id -gn; id -G; echo $HOME $USER $LOGNAME $SHELL; pwd",
            names,
        )
    };
    let text = output(&context);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..2], ["daemon", "daemon"]);
    assert_eq!(lines[2], "1 4 4713");
    assert_eq!(
        lines[3], "/usr/sbin daemon daemon",
        "nobody logs in with its shell"
    );
    assert_eq!(lines[4], "/usr/sbin");
}

/// Whoever asks the name services also gives their users their folders: nobody else knows whose those are.
#[test]
fn folders_belong_to_whom_the_name_services_know() {
    if !is_root("folders_belong_to_whom_the_name_services_know") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("own");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("file"), "").unwrap();
    let own = Folder {
        kind: Kind::State,
        root: root.path().to_str().unwrap().into(),
        path: inner.to_str().unwrap().into(),
        link: None,
        mode: 0o700,
        owner: None,
        private: None,
    };
    let script = format!("id -u; stat -c %U {0} {0}/file", inner.display());
    for (only_for_folders, user) in [(false, "1"), (true, "0")] {
        let owned = |uid| std::os::unix::fs::chown(&inner, Some(uid), None).unwrap();
        owned(0);
        let names = Names {
            only_for_folders,
            ..names("daemon")
        };
        let mut context = with_names(&script, names);
        context.sandbox.as_mut().unwrap().folders = vec![own.clone()];
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(output(&context), format!("{user}\ndaemon\ndaemon\n"));
    }
}

#[test]
fn a_folder_that_cannot_be_made_fails_its_own_step() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/", root.path().join("a")).unwrap();
    let path = |name: &str| format!("{}/{name}", root.path().display()).into();
    let context = sandboxed("echo ran", |sandbox| {
        sandbox.folders = vec![Folder {
            kind: Kind::Cache,
            root: root.path().to_str().unwrap().into(),
            path: path("a/tmp"),
            link: None,
            mode: 0o700,
            owner: None,
            private: None,
        }];
    });
    let (step, failed) = failure(&context);
    assert_eq!((step, failed.errno), (Step::CacheDirectory, libc::ELOOP));
    assert!(failed.detail.contains("is a link"), "{}", failed.detail);
}

#[test]
fn a_stated_group_and_environment_go_first() {
    if !is_root("a_stated_group_and_environment_go_first") {
        return;
    }
    let names = Names {
        group: Some("adm".into()),
        login_environment: true,
        ..names("1")
    };
    let mut context = with_names("id -un; id -gn; echo $HOME", names);
    context.environment.push("HOME=/elsewhere".into());
    assert_eq!(output(&context), "daemon\nadm\n/elsewhere\n");
}

#[test]
fn nobody_runs_as_somebody_else_for_lack_of_a_name() {
    let best_effort = |context: &ExecContext| {
        let mut context = context.clone();
        context.sandbox.as_mut().unwrap().best_effort = true;
        context
    };
    let unknown = with_names("echo ran", names("no-such-user"));
    for context in [&unknown, &best_effort(&unknown)] {
        let (step, failed) = failure(context);
        assert_eq!((step, failed.errno), (Step::User, libc::ESRCH));
        assert!(failed.detail.contains("no-such-user"));
    }
    let unknown = with_names(
        "echo ran",
        Names {
            group: Some("no-such-group".into()),
            ..Names::default()
        },
    );
    for context in [&unknown, &best_effort(&unknown)] {
        let (step, failed) = failure(context);
        assert_eq!((step, failed.errno), (Step::Group, libc::ESRCH));
        assert!(failed.detail.contains("no-such-group"));
    }
}

#[test]
fn a_bounded_superuser_has_no_more_than_the_bound() {
    if !is_root("a_bounded_superuser_has_no_more_than_the_bound") {
        return;
    }
    let status = output(&with_sets(STATUS, CHOWN | KILL, 0));
    for set in ["CapBnd", "CapPrm", "CapEff"] {
        assert_eq!(mask(&status, set), CHOWN | KILL, "{set}");
    }
    let none = output(&with_sets(STATUS, 0, 0));
    assert_eq!((mask(&none, "CapBnd"), mask(&none, "CapEff")), (0, 0));
}

#[test]
fn a_user_has_what_is_ambient_and_nothing_else() {
    if !is_root("a_user_has_what_is_ambient_and_nothing_else") {
        return;
    }
    let status = output(&as_user(with_sets(STATUS, NET_BIND | KILL, NET_BIND)));
    assert_eq!(field(&status, "Uid"), "4711\t4711\t4711\t4711");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(mask(&status, set), NET_BIND, "{set}");
    }
    assert_eq!(mask(&status, "CapBnd"), NET_BIND | KILL);
    let bounded = output(&as_user(with_sets(STATUS, KILL, 0)));
    assert_eq!(mask(&bounded, "CapEff"), 0);
    assert_eq!(mask(&bounded, "CapBnd"), KILL);
}

#[test]
fn what_the_manager_does_not_have_it_cannot_give() {
    if !is_root("what_the_manager_does_not_have_it_cannot_give") {
        return;
    }
    let unknown = 1 << 62;
    let (step, failed) = failure(&as_user(with_sets("echo ran", u64::MAX, unknown)));
    assert_eq!(step, Step::Capabilities);
    assert!(failed.detail.contains("0x4000000000000000"), "{failed:?}");
    let mut lenient = as_user(with_sets(STATUS, u64::MAX, unknown));
    lenient.sandbox.as_mut().unwrap().best_effort = true;
    let ran = run(&lenient);
    assert!(
        ran.report.dropped[0].starts_with("AmbientCapabilities: "),
        "{ran:?}"
    );
    assert_eq!(mask(&ran.output, "CapEff"), 0, "it has less, not more");
}

#[test]
fn secure_bits_outlive_the_change_of_user() {
    if !is_root("secure_bits_outlive_the_change_of_user") {
        return;
    }
    const NO_ROOT: u8 = 1;
    const NO_ROOT_LOCKED: u8 = 2;
    let locked = |sandbox: &mut Sandbox| sandbox.secure_bits = NO_ROOT | NO_ROOT_LOCKED;
    // Without the magic of root, root is nobody in particular.
    let status = output(&sandboxed(STATUS, locked));
    assert_eq!(field(&status, "Uid"), "0\t0\t0\t0");
    assert_eq!(mask(&status, "CapEff"), 0);
    let status = output(&as_user(sandboxed(STATUS, locked)));
    assert_eq!(field(&status, "Uid"), "4711\t4711\t4711\t4711");
    assert_eq!(mask(&status, "CapEff"), 0, "what was kept for this is gone");
}

#[test]
fn new_privileges_are_renounced() {
    let context = ExecContext {
        no_new_privileges: true,
        ..shell(STATUS)
    };
    assert_eq!(field(&output(&context), "NoNewPrivs"), "1");
}

/// The folder is entered with the rights of the user, who may not.
#[test]
fn a_folder_is_entered_as_the_user() {
    if !is_root("a_folder_is_entered_as_the_user") {
        return;
    }
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let folder = tempfile::Builder::new()
        .permissions(closed)
        .tempdir()
        .unwrap();
    let path = folder.path().to_str().unwrap();
    let context = |optional| ExecContext {
        working_directory: Some(WorkingDirectory {
            path: path.into(),
            optional,
        }),
        ..as_user(shell("pwd"))
    };
    let (step, failed) = failure(&context(false));
    assert_eq!((step, failed.errno), (Step::Chdir, libc::EACCES));
    assert!(failed.detail.contains(path));
    assert_eq!(output(&context(true)), "/\n");
}

/// What is in an argument may be known to the name services alone, and what a unit does not want may come from them.
#[test]
fn an_account_counts_in_arguments_and_may_be_unwanted() {
    if !is_root("an_account_counts_in_arguments_and_may_be_unwanted") {
        return;
    }
    let of = |program: &str, arguments: &[&str], unwanted: &[&str]| {
        let context = sandboxed("", |sandbox| {
            sandbox.names = Some(Names {
                login_environment: true,
                ..names("daemon")
            });
            sandbox.expands_arguments = true;
            sandbox.unset_environment = unwanted.iter().map(|name| (*name).into()).collect();
        });
        output(&ExecContext {
            program: program.into(),
            argv: [program]
                .iter()
                .chain(arguments)
                .map(|text| (*text).into())
                .collect(),
            ..context
        })
    };
    let text = of("/bin/echo", &["${HOME}:$$", "$LOGNAME"], &[]);
    assert_eq!(text, "/usr/sbin:$ daemon\n");
    let unwanted = ["PATH", "SHELL", "HOME=/usr/sbin", "USER=other"];
    let text = of("/usr/bin/env", &["$SHELL"], &unwanted);
    let mut left: Vec<&str> = text.lines().collect();
    left.sort_unstable();
    assert_eq!(left, ["LOGNAME=daemon", "USER=daemon"]);
}

/// A user that is lent has its name for itself.
#[test]
fn nobody_is_lent_the_name_of_somebody_else() {
    if !is_root("nobody_is_lent_the_name_of_somebody_else") {
        return;
    }
    let lent = |name: &str| {
        as_user(sandboxed("id -u", |sandbox| {
            sandbox.lent_user = Some(name.into());
        }))
    };
    assert_eq!(output(&lent("muster-test-stranger")), "4711\n");
    for name in ["daemon", "1"] {
        let (step, failed) = failure(&lent(name));
        assert_eq!(step, Step::User, "{name}");
        let detail = &failed.detail;
        assert!(detail.contains("number 1 already"), "{detail}");
    }
}
