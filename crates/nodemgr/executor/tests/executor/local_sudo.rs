//! Commands of this machine that become somebody else, whom the user who runs this program may not kill.
//!
//! Root may kill everybody, so each test runs itself again, as a visitor to a machine with its own users and rules of `sudo`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use muster_executor::local::LocalExecutor;
use muster_executor::script::GRACE;
use muster_executor::testing::scratch;
use muster_executor::{Command, Executor as _, FailureClass, Size, Terminal};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::lost::{process_in, until};
use crate::server::{FOR_VISITORS, PATIENCE, Rules, VISITOR_ID};
use crate::sudo::{HIDDEN, ONE_OTHER, PLAIN, PTY, becoming};

/// Set for the process in which a test really runs: whom its commands become.
const WHOM: &str = "MUSTER_TEST_BECOMES";

/// The program of the tests may be where a visitor cannot go.
const AS_VISITOR: &str = r#"set -e
umask 022
: >program
mount --bind "$1" program
visitor=$2
shift 2
exec setpriv --reuid "$visitor" --regid "$visitor" --clear-groups -- ./program "$@""#;

/// A folder into which everybody may write.
fn folder() -> TempDir {
    let folder = scratch();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    let everybody = folder.path().join("everybody");
    std::fs::create_dir(&everybody).unwrap();
    open(&everybody, 0o777);
    folder
}

/// Runs one test again as a visitor.
fn as_visitor(test: &str, folder: &Path, rules: Rules, whom: &str) -> Output {
    let sudoers = format!("{}\n", rules.sudoers);
    std::fs::write(folder.join("sudoers"), sudoers).unwrap();
    std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", FOR_VISITORS, "sh"])
        .arg(folder)
        .args([rules.proc, "sh", "-c", AS_VISITOR, "sh"])
        .arg(std::env::current_exe().unwrap())
        .arg(VISITOR_ID.to_string())
        .args([test, "--exact", "--nocapture"])
        .env(WHOM, whom)
        .output()
        .unwrap()
}

#[track_caller]
fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{complaints}"
    );
}

/// Where the commands of the visitor write down which processes they are.
fn file(name: &str) -> PathBuf {
    std::env::current_dir()
        .unwrap()
        .join("everybody")
        .join(name)
}

fn written(folder: &Path, name: &str) -> Pid {
    let path = folder.join("everybody").join(name);
    let number = std::fs::read_to_string(path).unwrap();
    Pid::from_raw(number.trim().parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_command_of_another_is_killed_by_a_local_executor_that_may_become_him() {
    let test = "local_sudo::a_command_of_another_is_killed_by_a_local_executor_that_may_become_him";
    if let Ok(whom) = std::env::var(WHOM) {
        return kill_all(&whom).await;
    }
    if !crate::ssh::can_log_in() {
        return;
    }
    let machines = [
        (PLAIN, "root"),
        (PTY, "root"),
        (HIDDEN, "root"),
        (ONE_OTHER, "nobody"),
    ];
    let runs = machines.map(|(rules, whom)| {
        tokio::task::spawn_blocking(move || {
            let folder = folder();
            let output = as_visitor(test, folder.path(), rules, whom);
            (folder, output)
        })
    });
    for run in runs {
        let (folder, output) = run.await.unwrap();
        assert_passed(&output);
        for name in ["unwanted", "late", "terminal"] {
            let process = written(folder.path(), name);
            until("it is killed", || test_kill_process(process).is_err()).await;
        }
    }
}

/// Runs commands as somebody else and ends them: because nobody wants them, at a timeout, and in a terminal.
async fn kill_all(whom: &str) {
    let executor = LocalExecutor::new();
    let ended = async {
        let unwanted = file("unwanted");
        let running = executor.run(&becoming(whom, &unwanted)).await.unwrap();
        process_in(&unwanted).await;
        running.kill().await;

        let late = file("late");
        let command = becoming(whom, &late).timeout(Duration::from_secs(3));
        let running = executor.run(&command).await.unwrap();
        process_in(&late).await;
        let since = Instant::now();
        let error = running.wait().await.unwrap_err();
        assert_eq!(error.class, FailureClass::TimedOut, "{error}");
        assert!(
            error.source.to_string().contains("with its group"),
            "{error}"
        );
        assert!(since.elapsed() < GRACE, "the machine did it");

        let inside = file("terminal");
        let command = becoming(whom, &inside);
        let terminal = Terminal {
            kind: "xterm".to_owned(),
            size: Size {
                columns: 80,
                rows: 24,
            },
        };
        let attached = executor.attach(Some(&command), &terminal).await.unwrap();
        process_in(&inside).await;
        attached.kill().await;
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    ended.expect("what was killed is not waited for for ever");
}

/// Takes away what lets anybody become somebody else, once it is root itself.
fn out_of_reach(file: &Path) -> Command {
    let script = r#": >/etc/sudoers; trap '' HUP TERM; echo $$ >"$0"; while :; do sleep 1; done"#;
    Command::shell(script).arg(file).user("root")
}

#[tokio::test]
async fn a_command_that_nobody_may_kill_is_not_waited_for_and_said_to_be_there() {
    let test = "local_sudo::a_command_that_nobody_may_kill_is_not_waited_for_and_said_to_be_there";
    if std::env::var_os(WHOM).is_some() {
        let file = file("free");
        let executor = LocalExecutor::new();
        let running = executor.run(&out_of_reach(&file)).await.unwrap();
        process_in(&file).await;
        let ended = tokio::time::timeout(PATIENCE, running.kill()).await;
        return ended.expect("it is given up");
    }
    if !crate::ssh::can_log_in() {
        return;
    }
    let folder = folder();
    let output = as_visitor(test, folder.path(), PLAIN, "root");
    let process = written(folder.path(), "free");
    assert!(test_kill_process(process).is_ok(), "it was out of reach");
    kill_process(process, Signal::KILL).unwrap();
    assert_passed(&output);
}
