//! Real commands and real files, on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_executor::Executor;
use muster_executor::local::LocalExecutor;
use muster_machines::Record;
use muster_orchestrate::{
    End, Entry, Format, Job, JobResult, Limits, OneCommand, Reach, ReachError, RunId, RunOrder,
    Stream, SyncedFolder, Workflow, one_command,
};

use crate::rig::{Manager, World, eventually, in_time};
use muster_lifecycle::State;

/// Every machine is this one.
#[derive(Debug)]
struct Here;

impl Reach for Here {
    fn reach<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>> {
        let executor: Arc<dyn Executor> = Arc::new(LocalExecutor::new());
        Box::pin(std::future::ready(Ok(executor)))
    }
}

/// A script in a folder that goes there and back.
fn in_folder(script: &str, local: &Path, remote: &Path) -> Workflow {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let wanted = OneCommand {
        template: "t".parse().unwrap(),
        provider: None,
        wants: Default::default(),
        command: ["sh", "-c", script].map(ToOwned::to_owned).to_vec(),
        cwd: Some(text(remote)),
        env: BTreeMap::from([("WORD".to_owned(), "word".to_owned())]),
        folders: vec![SyncedFolder {
            local: text(local),
            remote: text(remote),
            back: true,
        }],
        timeout: None,
        end: End::Destroy,
        end_on_failure: End::Destroy,
    };
    one_command(&wanted).unwrap()
}

async fn begin_workflow(manager: &Manager, workflow: Workflow) -> RunId {
    let order = RunOrder {
        workflow,
        key: None,
    };
    in_time(manager.runs.begin(order)).await.unwrap()
}

async fn begin(manager: &Manager, script: &str, local: &Path, remote: &Path) -> RunId {
    begin_workflow(manager, in_folder(script, local, remote)).await
}

#[tokio::test]
async fn a_folder_goes_up_and_comes_back_and_the_code_is_the_commands() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let (local, remote) = (
        world.folder.path().join("here"),
        world.folder.path().join("there"),
    );
    fs::create_dir(&local).unwrap();
    fs::write(local.join("in"), "ein Gruß\n").unwrap();
    let script = "cat in; cat in >out; echo $WORD-$MUSTER_GROUP-$MUSTER_INDEX >&2; exit 3";
    let run = begin(&manager, script, &local, &remote).await;
    assert_eq!(manager.wait(&run).await.exit_code(), 3);
    assert_eq!(fs::read_to_string(local.join("out")).unwrap(), "ein Gruß\n");
    assert_eq!(world.machines(), 0);
    let page = manager.runs.log(&run, 0).await.unwrap();
    let of = |stream: Stream| -> String {
        let records = page.records.iter().filter(|it| it.stream == stream);
        records.map(|it| it.text.as_str()).collect()
    };
    assert_eq!(of(Stream::Stdout), "ein Gruß\n");
    assert_eq!(of(Stream::Stderr), "word-machine-0\n");
}

#[tokio::test]
async fn a_small_file_is_written_whole_with_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let path = world.folder.path().join("etc/deep/a 'file'");
    let content = "x".repeat(300_000);
    let to = path.to_str().unwrap().replace('\'', "''");
    let text = format!(
        "name: w\nmachines: {{a: {{template: t}}}}\nsteps: [{{name: s, actions: [{{file: {{to: '{to}', content: {content}, mode: '0640'}}}}]}}]"
    );
    let (_, outcome) = manager.carry_out(&text).await;
    assert!(outcome.is_success(), "{outcome}");
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    let beside = fs::read_dir(path.parent().unwrap()).unwrap();
    assert_eq!(beside.count(), 1, "nothing is left beside it");
}

/// A folder here, one there, and a way to hold the command up.
struct Folders {
    local: PathBuf,
    remote: PathBuf,
    /// The command has said that it is under way when this is there.
    begun: PathBuf,
    /// The command ends when this is there.
    go: PathBuf,
}

impl Folders {
    fn new(world: &World) -> Self {
        let at = |name: &str| world.folder.path().join(name);
        let folders = Self {
            local: at("here"),
            remote: at("there"),
            begun: at("begun"),
            go: at("go"),
        };
        fs::create_dir(&folders.local).unwrap();
        for name in ["both", "theirs", "mine", "gone", "same", "gone-but-mine"] {
            fs::write(folders.local.join(name), "old").unwrap();
        }
        fs::create_dir(folders.local.join("folder")).unwrap();
        fs::write(folders.local.join("folder/gone"), "old").unwrap();
        folders
    }

    /// Changes some of the folder there, then waits.
    fn script(&self) -> String {
        let (begun, go) = (self.begun.display(), self.go.display());
        // As long as before, and within the same second.
        format!(
            "echo -n new >both; echo -n new >theirs; rm -r gone gone-but-mine folder; echo -n new >made; \
             : >'{begun}'; while [ ! -e '{go}' ]; do sleep 0.01; done"
        )
    }

    async fn until_begun(&self) {
        eventually(|| self.begun.exists()).await;
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.local.join(name)).ok()
    }

    /// Somebody works on while the command does.
    fn edit(&self) {
        for name in ["both", "mine", "gone-but-mine"] {
            fs::write(self.local.join(name), "MY").unwrap();
        }
    }

    fn check(&self) {
        let expected = [
            ("both", Some("MY")),
            ("theirs", Some("new")),
            ("mine", Some("MY")),
            ("gone", None),
            ("gone-but-mine", Some("MY")),
            ("same", Some("old")),
            ("made", Some("new")),
            ("folder/gone", None),
        ];
        for (name, content) in expected {
            assert_eq!(self.read(name).as_deref(), content, "{name}");
        }
        assert!(!self.local.join("folder").exists());
    }
}

fn down() -> Job {
    Job::Work {
        step: "folders-down".into(),
        slot: "machine/0".parse().unwrap(),
    }
}

/// What the journal warns of when the folder has come back.
async fn warnings(manager: &Manager, run: &RunId) -> Vec<String> {
    let journal = manager.journal(run).await;
    let found = journal.into_iter().find_map(|entry| match entry {
        Entry::Ended {
            job,
            result: JobResult::Done { warnings, .. },
            ..
        } if job == down() => Some(warnings),
        _ => None,
    });
    found.expect("the folder came back")
}

#[tokio::test]
async fn only_what_the_command_changed_comes_back_and_what_changed_here_stays() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let folders = Folders::new(&world);
    let untouched = fs::metadata(folders.local.join("same")).unwrap();
    let run = begin(&manager, &folders.script(), &folders.local, &folders.remote).await;
    in_time(folders.until_begun()).await;
    folders.edit();
    fs::write(&folders.go, "").unwrap();
    assert_eq!(manager.wait(&run).await.exit_code(), 0);
    folders.check();
    let same = fs::metadata(folders.local.join("same")).unwrap();
    assert_eq!(same.ino(), untouched.ino());
    let expected = [
        "both changed here and in the machine: yours is kept",
        "gone-but-mine changed here and was removed in the machine: yours is kept",
    ];
    assert_eq!(warnings(&manager, &run).await, expected);
    let view = manager.runs.show(&run).await.unwrap();
    assert_eq!(view.jobs[&down()].warnings, expected);
    let log = manager.log(&run).await;
    assert!(
        expected
            .iter()
            .all(|it| log.contains(&format!("warning: {it}\n"))),
        "{log}"
    );
}

#[tokio::test]
async fn a_folder_comes_back_by_its_changes_after_a_crash_too() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let folders = Folders::new(&world);
    let run = begin(&manager, &folders.script(), &folders.local, &folders.remote).await;
    in_time(folders.until_begun()).await;
    folders.edit();
    manager.die().await;
    let manager = world.start_with(Arc::new(Here)).await;
    // Nobody knows how far the command came, so that the run fails; what it did comes back.
    assert_eq!(manager.wait(&run).await.exit_code(), 125);
    folders.check();
    assert_eq!(warnings(&manager, &run).await.len(), 2);
}

#[tokio::test]
async fn a_folder_that_never_got_there_does_not_come_back() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let (local, remote) = (
        world.folder.path().join("here"),
        world.folder.path().join("there"),
    );
    fs::create_dir(&remote).unwrap();
    fs::write(remote.join("old"), "old").unwrap();
    let run = begin(&manager, "true", &local, &remote).await;
    assert_eq!(manager.wait(&run).await.exit_code(), 125);
    assert!(!local.exists());
}

/// A script that makes something, and a folder to which nothing comes back: something else has its name when the command ends.
struct InTheWay {
    local: PathBuf,
    remote: PathBuf,
    aside: PathBuf,
}

impl InTheWay {
    fn new(world: &World) -> Self {
        let at = |name: &str| world.folder.path().join(name);
        let it = Self {
            local: at("here"),
            remote: at("there"),
            aside: at("aside"),
        };
        fs::create_dir(&it.local).unwrap();
        fs::write(it.local.join("in"), "old").unwrap();
        it
    }

    fn workflow(&self) -> Workflow {
        let (local, aside) = (self.local.display(), self.aside.display());
        let script = format!("echo made >made; mv '{local}' '{aside}'; : >'{local}'");
        in_folder(&script, &self.local, &self.remote)
    }

    fn put_back(&self) {
        fs::remove_file(&self.local).unwrap();
        fs::rename(&self.aside, &self.local).unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_cannot_come_back_at_once_comes_back_later() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let it = InTheWay::new(&world);
    let run = begin_workflow(&manager, it.workflow()).await;
    let failed = async {
        while !manager.log(&run).await.contains("(attempt 1 of ") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    in_time(failed).await;
    it.put_back();
    assert_eq!(manager.wait(&run).await.exit_code(), 0);
    assert_eq!(fs::read_to_string(it.local.join("made")).unwrap(), "made\n");
    assert_eq!(world.machines(), 0);
}

#[tokio::test]
async fn a_machine_whose_folder_did_not_come_back_is_kept_and_named() {
    let world = World::new();
    let manager = world.start_with(Arc::new(Here)).await;
    let it = InTheWay::new(&world);
    // Nobody has to wait for what will not come.
    let text = it
        .workflow()
        .to_json()
        .replace("\"delay\":\"3s\"", "\"delay\":\"1ms\"");
    let limits = Limits::default();
    let workflow = Workflow::read("w", Format::Json, text.as_bytes(), &limits).unwrap();
    let run = begin_workflow(&manager, workflow).await;
    let outcome = manager.wait(&run).await;
    assert_eq!(outcome.exit_code(), 125, "{outcome}");
    let id = manager.machine(&run, "machine/0").await;
    assert_eq!(manager.state(&id), State::Running);
    let machine = manager.machines.get(&id).unwrap();
    assert!(
        machine.record().busy_until.is_some(),
        "its timers do not put it away"
    );
    assert_eq!(
        fs::read_to_string(it.remote.join("made")).unwrap(),
        "made\n"
    );
    let there = format!("muster machine cp {id}:{} FOLDER", it.remote.display());
    let log = manager.log(&run).await;
    assert!(
        log.contains(&there) && log.contains("(attempt 4 of 5)"),
        "{log}"
    );
    let view = manager.runs.show(&run).await.unwrap();
    let clean = &view.jobs[&Job::Clean("machine/0".parse().unwrap())];
    assert!(clean.warnings[0].contains(&there), "{:?}", clean.warnings);
}
