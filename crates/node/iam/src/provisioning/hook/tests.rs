use std::time::Instant;

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn shell(script: &str) -> CommandLine {
    CommandLine::new(vec!["/bin/sh".into(), "-c".into(), script.into()]).unwrap()
}

fn none() -> Password {
    Password::new(String::new())
}

async fn fails(script: &str, limit: Duration) -> HookError {
    run("test hook", &shell(script), &none(), limit)
        .await
        .unwrap_err()
}

#[tokio::test]
async fn the_password_comes_on_standard_input_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = format!(
        "{{ cat; echo; tr '\\0' '\\n' </proc/self/environ; tr '\\0' '\\n' </proc/$$/cmdline; pwd; }} >{}",
        seen.display()
    );
    let password = Password::new("hunter2".to_owned());
    run("start hook", &shell(&script), &password, LONG)
        .await
        .unwrap();
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.starts_with("hunter2\n"), "{seen}");
    assert_eq!(seen.matches("hunter2").count(), 1, "{seen}");
    assert!(seen.contains("MUSTER_HOOK=start hook"), "{seen}");
    assert!(
        !seen.contains("CARGO"),
        "the daemon's environment is not passed on: {seen}"
    );
    assert!(seen.ends_with("\n/\n"), "{seen}");
    assert_eq!(format!("{password:?}"), "Password(redacted)");
}

#[tokio::test]
async fn a_failure_tells_the_code_and_what_was_printed_on_both_streams() {
    let error = fails("echo one; echo two >&2; exit 3", LONG).await;
    assert_eq!(error.exit_code(), Some(3));
    let text = error.to_string();
    assert!(
        text.contains("test hook") && text.contains("exit status: 3"),
        "{text}"
    );
    assert!(text.contains("one") && text.contains("two"), "{text}");
    let silent = fails("exit 1", LONG).await.to_string();
    assert!(silent.ends_with("without a word"), "{silent}");
}

#[tokio::test]
async fn only_the_end_of_much_output_is_kept_on_one_line() {
    let error = fails(
        "yes 0123456789 | head -c 3000000; printf 'last\\033[31m words'; exit 1",
        LONG,
    )
    .await;
    let text = error.to_string();
    assert!(text.len() < 2 * SHOWN, "{}", text.len());
    assert!(
        text.contains("said: ...") && text.ends_with("words"),
        "{text}"
    );
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!(
        "echo begun; sleep 600 & echo $! >{}; wait",
        pid_file.display()
    );
    let begun = Instant::now();
    let error = fails(&script, Duration::from_millis(400)).await;
    assert!(matches!(error, HookError::TooLong { .. }), "{error}");
    assert!(error.to_string().contains("begun"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let status = format!("/proc/{}/status", pid.trim());
    muster_lab::poll_until(Duration::from_secs(10), "the hook's child is gone", || {
        // A zombie waits for whoever reaps orphans here.
        std::fs::read_to_string(&status).map_or(true, |status| status.contains("State:\tZ"))
    });
}

#[tokio::test]
async fn a_hook_that_leaves_a_child_with_the_pipe_does_not_hold_the_daemon() {
    let begun = Instant::now();
    run("test hook", &shell("sleep 600 & exit 0"), &none(), LONG)
        .await
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_hook_that_reads_nothing_of_a_long_password_is_no_problem() {
    let password = Password::new("x".repeat(1 << 20));
    run("test hook", &shell("exit 0"), &password, LONG)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let command = CommandLine::new(vec!["/nonexistent/hook".into()]).unwrap();
    let error = run("finish hook", &command, &none(), LONG)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nonexistent/hook"), "{error}");
    assert_eq!(CommandLine::new(Vec::new()), None);
}
