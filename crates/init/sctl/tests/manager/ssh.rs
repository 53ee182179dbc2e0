//! Another machine's manager: a script stands for ssh, and runs what it is told with a shell, as sshd does.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fake::{Answer, Fake};

/// A folder with a program `ssh` that runs its command line here, and remembers it.
fn with_ssh(fake: &Fake) -> String {
    let folder = fake.folder().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let sctl = env!("CARGO_BIN_EXE_sctl");
    std::os::unix::fs::symlink(sctl, folder.join("sctl")).unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >> {log}\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n",
        log = fake.folder().join("ssh.log").display()
    );
    let path = folder.join("ssh");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", folder.display())
}

fn units() -> Fake {
    Fake::new(|call| match call.name() {
        "Status" => Answer::Replies(vec![
            json!({"row": {"name": "a.service", "active": "active"}}),
        ]),
        "Submit" => Answer::Replies(vec![
            json!({"unit": "a.service", "job": 1}),
            json!({"unit": "a.service", "job": 1, "result": "done", "active": "active"}),
        ]),
        _ => Answer::Replies(vec![
            json!({"units": [{"name": "a.service", "active": "active"}]}),
        ]),
    })
}

#[test]
fn the_manager_of_another_machine_is_reached_by_ssh() {
    let fake = units();
    let path = with_ssh(&fake);
    for (words, answer) in [
        (&["-H", "root@box", "is-active", "a"][..], "active\n"),
        (&["-H", "root@box", "start", "a", "b", "c"], ""),
    ] {
        let output = fake.command(words).env("PATH", &path).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), answer);
    }
    let log = std::fs::read_to_string(fake.folder().join("ssh.log")).unwrap();
    assert!(
        log.starts_with("-xT\n--\nroot@box\nsctl stdio-bridge\n"),
        "{log}"
    );
}

#[test]
fn nothing_that_is_said_becomes_a_command_there() {
    let fake = units();
    let path = with_ssh(&fake);
    let trap = fake.folder().join("trapped");
    let evil = format!("$(touch {0}); touch {0} '`touch {0}`", trap.display());
    for words in [
        vec!["-H", "box", "is-active", evil.as_str()],
        vec!["-H", "box", "--socket", evil.as_str(), "is-active", "a"],
        vec!["-H", "box", "logs", "-u", evil.as_str()],
        vec![
            "-H",
            "box",
            "logs",
            "-g",
            evil.as_str(),
            "-D",
            "/nonexistent",
        ],
    ] {
        let _ = fake.command(&words).env("PATH", &path).output().unwrap();
        assert!(!trap.exists(), "{words:?}");
    }
    let refused = fake
        .command(&["-H", "-oProxyCommand=x", "is-active", "a"])
        .env("PATH", &path)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn verbs_that_work_on_files_refuse_another_machine() {
    let fake = units();
    for words in [
        &["-H", "box", "enable", "a"][..],
        &["-H", "box", "cat", "a"],
        &["-H", "box", "edit", "a"],
        &["-H", "box", "run", "--scope", "true"],
        &["-H", "box", "run", "--pipe", "true"],
    ] {
        let (code, _, stderr) = fake.sctl(words);
        assert_eq!(code, 1, "{words:?}");
        assert!(stderr.contains("--host"), "{words:?}: {stderr}");
    }
    assert!(fake.calls().is_empty());
}
