use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::*;

/// A helper that is a script.
fn script(folder: &Path, text: &str) -> Settings {
    let path = folder.join("helper");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&path)
        .unwrap();
    write!(file, "#!/bin/sh\n{text}\n").unwrap();
    drop(file);
    let mut settings = Settings::new(folder, folder);
    settings.helper = path;
    settings
}

const HELLO_LINE: &str = "echo '{\"version\":1}'";

#[tokio::test]
async fn one_helper_answers_call_after_call_and_a_dead_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let text = format!(
        "echo x >>{}\n{HELLO_LINE}\nread a; echo '\"done\"'; read a; echo '\"done\"'; read a; exit 1",
        count.display()
    );
    let helpers = Helpers::new(&script(folder.path(), &text));
    for _ in 0..2 {
        assert_eq!(helpers.ask(&Request::List).await.unwrap(), Reply::Done);
    }
    let ended = helpers.ask(&Request::List).await.unwrap_err();
    assert!(matches!(ended, CallError::Ended(_)), "{ended:?}");
    assert_eq!(helpers.ask(&Request::List).await.unwrap(), Reply::Done);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_helper_that_hangs_is_ended_with_its_call() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let text = format!(
        "echo $$ >{}\n{HELLO_LINE}\nread a; exec sleep 600",
        pid.display()
    );
    let mut settings = script(folder.path(), &text);
    settings.call = Duration::from_millis(300);
    let helpers = Helpers::new(&settings);
    let late = helpers.ask(&Request::List).await.unwrap_err();
    assert!(matches!(late, CallError::Late(_)), "{late:?}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    // The runtime reaps it when it gets to that.
    let gone = async {
        while process.join("exe").read_link().is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_helper_of_another_version_or_tongue_is_not_used() {
    type Expected = fn(&CallError) -> bool;
    let cases: [(&str, Expected); 4] = [
        ("echo '{\"version\":2}'; read a", |it| {
            matches!(it, CallError::Version { found: 2, .. })
        }),
        ("echo hello; read a", |it| matches!(it, CallError::Line(_))),
        ("printf '{\"version\":1}'", |it| {
            matches!(it, CallError::Ended(_))
        }),
        ("head -c 20000000 /dev/zero", |it| {
            matches!(it, CallError::Line(LineError::TooLong(_)))
        }),
    ];
    for (text, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let helpers = Helpers::new(&script(folder.path(), text));
        let error = helpers.ask(&Request::List).await.unwrap_err();
        assert!(expected(&error), "{text}: {error:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::new(folder.path(), folder.path());
    settings.helper = folder.path().join("none");
    let error = Helpers::new(&settings)
        .ask(&Request::List)
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Start { .. }));
}

#[tokio::test]
async fn no_more_helpers_run_than_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let running = folder.path().join("running");
    std::fs::create_dir(&running).unwrap();
    let most = folder.path().join("most");
    // Each call notes how many are under way with it.
    let text = format!(
        "{HELLO_LINE}\nwhile read a; do touch {0}/$$; ls {0} | wc -l >>{1}; sleep 0.1; rm {0}/$$; echo '\"done\"'; done",
        running.display(),
        most.display()
    );
    let mut settings = script(folder.path(), &text);
    settings.helpers = std::num::NonZeroUsize::new(2).unwrap();
    let helpers = Helpers::new(&settings);
    let calls = (0..6).map(|_| helpers.ask(&Request::List));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), Reply::Done);
    }
    let noted = std::fs::read_to_string(&most).unwrap();
    let noted: Vec<u32> = noted.lines().map(|it| it.trim().parse().unwrap()).collect();
    assert_eq!(noted.len(), 6);
    assert!(noted.iter().all(|&count| count <= 2), "{noted:?}");
}
