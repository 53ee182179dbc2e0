//! PAM sessions, with services of the test's own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use muster_exec::{ExecContext, Limit, Login, Step};
use rustix::mount::mount_bind;

use crate::rig::{eventually, failure, is_root, isolated, run, sandboxed, start};

const MODULES: [&str; 2] = [
    "/lib/x86_64-linux-gnu/security/pam_exec.so",
    "/lib/aarch64-linux-gnu/security/pam_exec.so",
];

fn can_run(test: &str) -> bool {
    if !is_root(test) {
        return false;
    }
    let there = MODULES.iter().any(|module| Path::new(module).exists());
    if !there {
        println!("{test}: skipped, it needs PAM's modules");
    }
    there
}

/// Gives the machine another set of PAM services.
fn with_services(folder: &Path, services: &[(&str, &str)]) {
    let place = folder.join("pam.d");
    std::fs::create_dir(&place).unwrap();
    for (name, text) in services {
        std::fs::write(place.join(name), text).unwrap();
    }
    mount_bind(&place, "/etc/pam.d").unwrap();
}

fn with_login(script: &str, service: &str) -> ExecContext {
    sandboxed(script, |sandbox| {
        sandbox.login = Some(Login {
            service: service.into(),
            user: "daemon".into(),
            terminal: Some("muster".into()),
        });
    })
}

/// A service whose sessions are written down.
fn noted(folder: &Path) -> String {
    let notes = folder.join("notes");
    let script = folder.join("note");
    let text = format!(
        "#!/bin/sh\necho $PAM_TYPE $PAM_USER $PAM_TTY >> {}\n",
        notes.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let variables = folder.join("variables");
    std::fs::write(&variables, "FROM_PAM DEFAULT=yes\n").unwrap();
    format!(
        "account required pam_permit.so\n\
         session required pam_permit.so\n\
         session required pam_env.so conffile={} readenv=0\n\
         session required pam_exec.so {}\n",
        variables.display(),
        script.display()
    )
}

#[test]
fn a_session_lasts_as_long_as_the_program() {
    if !can_run("a_session_lasts_as_long_as_the_program") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let service = noted(folder.path());
        with_services(folder.path(), &[("muster-test", &service)]);
        let notes = || std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
        let mut context = with_login("echo $FROM_PAM $OWN; read wait", "muster-test");
        context.environment.push("OWN=kept".into());
        let (stdin, hold) = std::io::pipe().unwrap();
        context.stdin = muster_exec::Stream::Fd(1);
        let delegated = muster_exec::delegate(&context, crate::rig::HELPER, 2).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&stdin);
        let mut running = crate::rig::start_with(delegated, &[fd]);
        assert_eq!(running.line(), "yes kept");
        assert_eq!(notes(), "open_session daemon muster\n");
        drop(hold);
        running.finish();
        eventually("the session is closed", || {
            notes() == "open_session daemon muster\nclose_session daemon muster\n"
        });
    });
}

#[test]
fn variables_of_a_session_count_in_arguments_and_may_be_unwanted() {
    if !can_run("variables_of_a_session_count_in_arguments_and_may_be_unwanted") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let service = noted(folder.path());
        with_services(folder.path(), &[("muster-test", &service)]);
        let of = |program: &str, argument: &str, unwanted: &str| {
            let mut context = with_login("", "muster-test");
            context.program = program.into();
            context.argv = vec![program.into(), argument.into()];
            context.environment.push("OWN=kept".into());
            let sandbox = context.sandbox.get_or_insert_default();
            sandbox.expands_arguments = true;
            sandbox.unset_environment = vec![unwanted.into()];
            run(&context).output
        };
        assert_eq!(of("/bin/echo", "${FROM_PAM} ${OWN}", "NONE"), "yes kept\n");
        assert_eq!(of("/bin/echo", "${FROM_PAM} ${OWN}", "FROM_PAM"), " kept\n");
        let text = of("/usr/bin/env", "OTHER=x", "FROM_PAM=yes");
        assert!(
            text.contains("OWN=kept") && !text.contains("FROM_PAM"),
            "{text}"
        );
    });
}

#[test]
fn a_session_is_closed_when_the_start_fails_later() {
    if !can_run("a_session_is_closed_when_the_start_fails_later") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let service = noted(folder.path());
        with_services(folder.path(), &[("muster-test", &service)]);
        let mut context = with_login("echo ran", "muster-test");
        context.program = "/no/such".into();
        assert_eq!(failure(&context).0, Step::Exec);
        let notes = || std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
        eventually("the session is closed", || {
            notes().ends_with("close_session daemon muster\n")
        });
    });
}

/// What an administrator allows those who log in counts more than what a unit says, as far as it says anything.
#[test]
fn limits_of_a_session_win_over_those_of_the_unit() {
    const LIMITS: [&str; 2] = [
        "/lib/x86_64-linux-gnu/security/pam_limits.so",
        "/lib/aarch64-linux-gnu/security/pam_limits.so",
    ];
    let there = LIMITS.iter().any(|module| Path::new(module).exists());
    if !can_run("limits_of_a_session_win_over_those_of_the_unit") || !there {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let conf = folder.path().join("limits.conf");
        let stated = "daemon hard nofile 99\ndaemon soft nofile 88\n";
        std::fs::write(&conf, stated).unwrap();
        let service = format!(
            "account required pam_permit.so\nsession required pam_limits.so conf={}\n",
            conf.display()
        );
        let open = "account required pam_permit.so\nsession required pam_permit.so\n";
        with_services(folder.path(), &[("limited", &service), ("open", open)]);
        let script = "ulimit -Sn; ulimit -Hn; ulimit -f";
        let mut context = with_login(script, "limited");
        let limit = |resource, soft, hard| Limit {
            resource,
            soft,
            hard,
        };
        context.limits = vec![limit(libc::RLIMIT_NOFILE, 1024, 524_288)];
        assert_eq!(crate::rig::output(&context), "88\n99\nunlimited\n");
        // Without a session that says anything, they are the unit's.
        let mut context = with_login(script, "open");
        context.limits = vec![
            limit(libc::RLIMIT_NOFILE, 64, 64),
            limit(libc::RLIMIT_FSIZE, 0, 0),
        ];
        assert_eq!(crate::rig::output(&context), "64\n64\n0\n");
    });
}

#[test]
fn whoever_may_not_log_in_does_not() {
    if !can_run("whoever_may_not_log_in_does_not") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let denied = "account required pam_deny.so\nsession required pam_permit.so\n";
        with_services(folder.path(), &[("denied", denied)]);
        let (step, failed) = failure(&with_login("echo ran", "denied"));
        assert_eq!(step, Step::Pam);
        assert!(failed.detail.contains("denied for daemon"), "{failed:?}");
    });
}

/// Signals that end a program are not for whoever closes its session.
#[test]
fn a_session_of_a_killed_program_is_closed() {
    if !can_run("a_session_of_a_killed_program_is_closed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    isolated(move || {
        let service = noted(folder.path());
        with_services(folder.path(), &[("muster-test", &service)]);
        let mut context = with_login("echo ready; exec sleep 1000", "muster-test");
        context.sandbox.as_mut().unwrap().namespaces.pids = true;
        let mut running = start(&context);
        assert_eq!(running.line(), "ready");
        let group = running.pid();
        rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
        let ran = running.finish();
        assert_eq!(ran.status.terminating_signal(), Some(libc::SIGTERM));
        let notes = || std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
        eventually("the session is closed", || {
            notes().ends_with("close_session daemon muster\n")
        });
        let ran = run(&with_login("exit 3", "muster-test"));
        assert_eq!(ran.status.exit_status(), Some(3));
    });
}
