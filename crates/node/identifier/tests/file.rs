//! The plugin `file`, with files that come, change and go.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_api::domain::SubjectId;
use muster_identifier::{Identifier, IdentifierConfig, Identity, start};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

const TIME: Duration = Duration::from_secs(20);

struct Rig {
    folder: TempDir,
    identifier: Box<dyn Identifier>,
    identity: watch::Receiver<Identity>,
}

async fn rig(prepare: impl FnOnce(&Path)) -> Rig {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    let path = |name: &str| folder.path().join("id").join(name);
    let params = json!({
        "systemIDPath": path("system-id"),
        "unitModelPath": path("model"),
        "subjectsPath": path("subjects"),
    });
    let config = IdentifierConfig::parse("file", &params).expect("a configuration");
    let identifier = start(&config).await.expect("an identifier");
    let identity = identifier.subscribe();
    Rig {
        folder,
        identifier,
        identity,
    }
}

impl Rig {
    fn put(&self, name: &str, content: &str) {
        put(self.folder.path(), name, content);
    }

    async fn wait(&mut self, what: &str, mut condition: impl FnMut(&Identity) -> bool) -> Identity {
        let latest = self.identity.clone();
        let waiting = self.identity.wait_for(|identity| condition(identity));
        match timeout(TIME, waiting).await {
            Ok(identity) => identity.expect("the task runs").clone(),
            Err(_) => panic!("{what}: {:?}", *latest.borrow()),
        }
    }
}

/// Replaces a file as a whole, as careful writers do.
fn put(folder: &Path, name: &str, content: &str) {
    let folder = folder.join("id");
    fs::create_dir_all(&folder).expect("a folder");
    let new = folder.join(format!(".{name}.new"));
    fs::write(&new, content).expect("a file");
    fs::rename(new, folder.join(name)).expect("a file");
}

fn all(folder: &Path) {
    put(folder, "system-id", "unit-7\n");
    put(folder, "model", "gateway;2.1\n");
    put(folder, "subjects", "driver\n\n  owner \ndriver\n");
}

fn names(identity: &Identity) -> Vec<&str> {
    identity.subjects.iter().map(SubjectId::as_str).collect()
}

fn settled(identity: &Identity) -> bool {
    identity.system.is_some() && identity.problem.is_none()
}

#[tokio::test]
async fn files_that_are_there_are_read() {
    let mut rig = rig(all).await;
    assert_eq!(rig.identifier.plugin(), "file");
    let identity = rig.wait("an identity", settled).await;
    let system = identity.system.clone().expect("a system");
    assert_eq!(
        (
            system.system_id.as_str(),
            system.unit_model.as_str(),
            system.version.as_str()
        ),
        ("unit-7", "gateway", "2.1")
    );
    assert_eq!(names(&identity), ["driver", "owner"]);
}

#[tokio::test]
async fn files_may_come_later_with_their_folder() {
    let mut rig = rig(|_| {}).await;
    let identity = rig
        .wait("a problem", |identity| identity.problem.is_some())
        .await;
    assert_eq!(identity.system, None);
    let problem = identity.problem.expect("a problem");
    assert!(
        problem.contains("system-id") && problem.contains("subjects"),
        "{problem}"
    );
    all(rig.folder.path());
    rig.wait("an identity", |identity| {
        settled(identity) && identity.subjects.len() == 2
    })
    .await;
}

#[tokio::test]
async fn changes_are_streamed_and_only_changes() {
    let mut rig = rig(all).await;
    rig.wait("an identity", settled).await;
    rig.identity.mark_unchanged();
    // The same content in another file, then something new: one change is heard of.
    rig.put("subjects", "owner\ndriver\n");
    rig.put("subjects", "guest\n");
    let identity = rig
        .wait("the guest", |identity| names(identity) == ["guest"])
        .await;
    assert!(settled(&identity));
    rig.put("model", "gateway;2.2\n");
    rig.wait("the model", |identity| {
        identity
            .system
            .as_ref()
            .is_some_and(|system| system.version == "2.2")
    })
    .await;
    rig.put("subjects", "");
    rig.wait("nobody", |identity| {
        identity.subjects.is_empty() && settled(identity)
    })
    .await;
}

#[tokio::test]
async fn what_was_known_stays_when_files_go_or_hold_nonsense() {
    let mut rig = rig(all).await;
    rig.wait("an identity", settled).await;
    for name in ["system-id", "model", "subjects"] {
        fs::remove_file(rig.folder.path().join("id").join(name)).expect("a file");
    }
    let identity = rig
        .wait("three problems", |identity| {
            let problem = identity.problem.as_deref().unwrap_or_default();
            ["system-id", "model", "subjects"]
                .iter()
                .all(|name| problem.contains(name))
        })
        .await;
    let system = identity.system.as_ref().expect("still known");
    assert_eq!(
        (system.system_id.as_str(), system.version.as_str()),
        ("unit-7", "2.1")
    );
    assert_eq!(names(&identity), ["driver", "owner"]);

    fs::remove_dir_all(rig.folder.path().join("id")).expect("a folder");
    all(rig.folder.path());
    let identity = rig.wait("the files again", settled).await;
    assert_eq!(names(&identity), ["driver", "owner"]);

    rig.put("system-id", "bad\0id\n");
    rig.put("subjects", "guest\na/b\n");
    let identity = rig
        .wait("the good line", |identity| names(identity) == ["guest"])
        .await;
    let problem = identity.problem.expect("a problem");
    assert!(
        problem.contains("system-id") && problem.contains("1 lines"),
        "{problem}"
    );
    assert_eq!(identity.system.expect("still known").system_id, "unit-7");

    fs::write(rig.folder.path().join("id/subjects"), b"\xff\xfe\n").expect("a file");
    rig.put("system-id", "unit-8\n");
    let identity = rig
        .wait("the new id", |identity| {
            identity
                .system
                .as_ref()
                .is_some_and(|system| system.system_id == "unit-8")
        })
        .await;
    assert_eq!(
        names(&identity),
        ["guest"],
        "a file that is no text takes nobody away"
    );
}

#[tokio::test]
async fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    let mut rig = rig(|folder| {
        all(folder);
        let subjects = folder.join("id/subjects");
        fs::remove_file(&subjects).expect("a file");
        let made = Command::new("mkfifo").arg(&subjects).status();
        assert!(made.expect("mkfifo runs").success());
    })
    .await;
    let identity = rig
        .wait("the rest of the identity", |identity| {
            identity.system.is_some()
        })
        .await;
    let problem = identity.problem.expect("a problem");
    assert!(problem.contains("not a regular file"), "{problem}");
}

#[tokio::test]
async fn the_task_ends_with_its_identifier() {
    let mut rig = rig(all).await;
    rig.wait("an identity", settled).await;
    drop(rig.identifier);
    let ended = async { while rig.identity.changed().await.is_ok() {} };
    timeout(TIME, ended).await.expect("the channel closes");
}
