//! The task over real folders, with a cloud that only listens.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use muster_store::{OnDamage, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::SCHEMA;

#[derive(Debug)]
enum Said {
    Offer(Checksum, Vec<u8>),
    Request(InstanceIdent),
}

#[derive(Debug)]
struct Cloud(mpsc::Sender<Said>);

impl Cloud {
    fn say(&self, said: Said) {
        self.0.try_send(said).unwrap();
    }
}

impl StateCloud for Cloud {
    fn exists(&self) -> bool {
        true
    }

    fn offer(&self, _: InstanceIdent, checksum: Checksum, content: Vec<u8>) {
        self.say(Said::Offer(checksum, content));
    }

    fn request(&self, instance: InstanceIdent) {
        self.say(Said::Request(instance));
    }
}

struct Rig {
    folder: TempDir,
    data: InstanceData,
    said: mpsc::Receiver<Said>,
    task: JoinHandle<()>,
}

fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: "web".parse().unwrap(),
        subject_id: "main".parse().unwrap(),
        instance: number,
        item_type: muster_api::domain::ItemType::Service,
        preinstalled: false,
    }
}

async fn start_in(folder: TempDir, cloud: bool) -> Rig {
    let path = folder.path().join("test.db");
    let config = StoreConfig::new(path, "test", OnDamage::StartEmpty).schema(&SCHEMA);
    let store = Store::open(&config).unwrap().store;
    let mut settings = Settings::new(folder.path().join("storages"), folder.path().join("states"));
    settings.debounce = Duration::from_millis(20);
    let (sender, said) = mpsc::channel(64);
    let cloud: Arc<dyn StateCloud> = if cloud {
        Arc::new(Cloud(sender))
    } else {
        Arc::new(NoCloud)
    };
    let (data, task) = InstanceData::start(store, settings, cloud).await.unwrap();
    Rig {
        folder,
        data,
        said,
        task: tokio::spawn(task),
    }
}

impl Rig {
    async fn start(cloud: bool) -> Self {
        start_in(tempfile::tempdir().unwrap(), cloud).await
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("states/web/main/0/state.dat")
    }

    async fn next(&mut self) -> Said {
        let next = timeout(Duration::from_secs(20), self.said.recv());
        next.await.expect("the cloud is told in time").unwrap()
    }

    async fn offered(&mut self, content: &[u8]) -> Checksum {
        loop {
            // An empty file or one that was half written may be seen first.
            if let Said::Offer(checksum, shown) = self.next().await
                && shown == content
            {
                assert_eq!(checksum, Checksum::of(content));
                return checksum;
            }
        }
    }

    async fn accepted(&self, content: &[u8]) {
        let wanted = Checksum::of(content);
        let mut checksums = self.data.checksums();
        let seen = checksums.wait_for(|sums| sums.get(&instance(0)) == Some(&wanted));
        timeout(Duration::from_secs(20), seen)
            .await
            .unwrap()
            .unwrap();
    }

    /// Ends the task and begins again on the same folders.
    async fn again(self) -> Self {
        let Self {
            folder, data, task, ..
        } = self;
        drop(data);
        task.await.unwrap();
        start_in(folder, true).await
    }
}

fn needs() -> Needs {
    Needs {
        uid: 5000,
        gid: 5001,
        storage: Some(0),
        state: Some(64),
    }
}

#[tokio::test]
async fn folders_are_the_instances_and_paths_are_what_the_node_is_told() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: folders_are_the_instances: only root gives files away");
        return;
    }
    let rig = Rig::start(true).await;
    let prepared = rig.data.prepare(instance(0), needs()).await.unwrap();
    let text = |path: &Option<DataPath>| path.as_ref().map(|it| it.as_str().to_owned());
    assert_eq!(text(&prepared.storage).as_deref(), Some("web/main/0"));
    assert_eq!(
        text(&prepared.state).as_deref(),
        Some("web/main/0/state.dat")
    );
    let look = |path: &Path| {
        let facts = fs::metadata(path).unwrap();
        (
            facts.uid(),
            facts.gid(),
            facts.permissions().mode() & 0o7777,
        )
    };
    assert_eq!(
        look(&rig.folder.path().join("storages/web/main/0")),
        (5000, 5001, 0o700)
    );
    assert_eq!(look(&rig.state()), (5000, 5001, 0o600));
    assert_eq!(look(rig.state().parent().unwrap()), (0, 0, 0o711));
    // Again, with a state that is there.
    fs::write(rig.state(), "kept").unwrap();
    rig.data.prepare(instance(0), needs()).await.unwrap();
    assert_eq!(fs::read(rig.state()).unwrap(), b"kept");
}

#[tokio::test]
async fn a_changed_state_is_offered_and_kept_when_accepted() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: a_changed_state_is_offered: only root gives files away");
        return;
    }
    let mut rig = Rig::start(true).await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    rig.offered(b"").await;
    fs::write(rig.state(), "one").unwrap();
    let one = rig.offered(b"one").await;
    rig.data.answered(instance(0), one, true).await;
    rig.accepted(b"one").await;

    // What was accepted is not offered again after a restart; what changed meanwhile is.
    let mut rig = rig.again().await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    rig.accepted(b"one").await;
    fs::write(rig.state(), "two").unwrap();
    rig.offered(b"two").await;
    rig.data.reconnected().await;
    rig.offered(b"two").await;
}

#[tokio::test]
async fn a_rejected_state_is_replaced_by_what_the_cloud_sends() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: a_rejected_state_is_replaced: only root gives files away");
        return;
    }
    let mut rig = Rig::start(true).await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    fs::write(rig.state(), "bad").unwrap();
    let bad = rig.offered(b"bad").await;
    rig.data.answered(instance(0), bad, false).await;
    let request = rig.next().await;
    assert!(matches!(request, Said::Request(of) if of == instance(0)));

    let before = fs::metadata(rig.state()).unwrap().ino();
    let good = Checksum::of(b"good");
    rig.data
        .update(instance(0), good, b"good".to_vec())
        .await
        .unwrap();
    assert_eq!(fs::read(rig.state()).unwrap(), b"good");
    // A running instance has this very file mounted.
    assert_eq!(fs::metadata(rig.state()).unwrap().ino(), before);
    rig.accepted(b"good").await;
}

#[tokio::test]
async fn states_that_cannot_be_are_refused() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: states_that_cannot_be_are_refused: only root gives files away");
        return;
    }
    let rig = Rig::start(true).await;
    let sum = Checksum::of(b"x");
    let unknown = rig.data.update(instance(0), sum, b"x".to_vec()).await;
    assert!(matches!(unknown, Err(UpdateStateError::Unknown { .. })));
    rig.data.prepare(instance(0), needs()).await.unwrap();
    let other = rig.data.update(instance(0), sum, b"y".to_vec()).await;
    assert!(matches!(other, Err(UpdateStateError::Checksum { .. })));
    let long = vec![0; 65];
    let long = rig
        .data
        .update(instance(0), Checksum::of(&long), long)
        .await;
    assert!(matches!(
        long,
        Err(UpdateStateError::TooLong {
            length: 65,
            limit: 64,
            ..
        })
    ));
    assert_eq!(fs::read(rig.state()).unwrap(), b"");
}

#[tokio::test]
async fn a_state_that_was_staged_is_in_place_after_a_crash() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: a_state_that_was_staged: only root gives files away");
        return;
    }
    let rig = Rig::start(true).await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    // As a process leaves it that is killed between the two steps.
    fs::write(rig.state().with_file_name("state.new"), "cloud").unwrap();
    fs::write(rig.state(), "half").unwrap();
    let mut rig = rig.again().await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    assert_eq!(fs::read(rig.state()).unwrap(), b"cloud");
    assert!(!rig.state().with_file_name("state.new").exists());
    rig.offered(b"cloud").await;
}

#[tokio::test]
async fn a_restart_follows_states_without_being_told_and_forgets_those_that_were_released() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: a_restart_follows_states: only root gives files away");
        return;
    }
    let mut rig = Rig::start(true).await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    fs::write(rig.state(), "one").unwrap();
    let one = rig.offered(b"one").await;
    rig.data.answered(instance(0), one, true).await;
    rig.accepted(b"one").await;

    // Nobody prepares it again: it runs on. What it says now was never shown, and a state of the cloud was on its way.
    let mut rig = rig.again().await;
    assert_eq!(rig.data.checksums().borrow().get(&instance(0)), Some(&one));
    fs::write(rig.state(), "two").unwrap();
    rig.offered(b"two").await;
    fs::write(rig.state().with_file_name("state.new"), "three").unwrap();
    let mut rig = rig.again().await;
    rig.offered(b"three").await;
    // Its limit is still known.
    let long = vec![b'x'; 65];
    let refused = rig
        .data
        .update(instance(0), Checksum::of(&long), long)
        .await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, UpdateStateError::TooLong { limit: 64, .. }),
        "{refused}"
    );

    rig.data.release(instance(0)).await;
    let rig = rig.again().await;
    let state = rig.data.update(instance(0), one, b"one".to_vec()).await;
    assert!(
        matches!(state, Err(UpdateStateError::Unknown { .. })),
        "{state:?}"
    );
}

#[tokio::test]
async fn without_a_cloud_states_are_kept_as_they_are() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: without_a_cloud: only root gives files away");
        return;
    }
    let rig = Rig::start(false).await;
    rig.data.prepare(instance(0), needs()).await.unwrap();
    fs::write(rig.state(), "mine").unwrap();
    rig.accepted(b"mine").await;
}

#[tokio::test]
async fn removing_leaves_nothing_of_it_and_all_of_others() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: removing_leaves_nothing: only root gives files away");
        return;
    }
    let rig = Rig::start(true).await;
    for number in [0, 1] {
        rig.data.prepare(instance(number), needs()).await.unwrap();
    }
    // A link that the instance left does not lead out.
    let outside = rig.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "x").unwrap();
    let own = rig.folder.path().join("storages/web/main/0");
    std::os::unix::fs::symlink(&outside, own.join("link")).unwrap();

    rig.data.remove(instance(0)).await.unwrap();
    assert!(!own.exists());
    assert!(outside.join("file").exists());
    assert!(
        rig.folder
            .path()
            .join("states/web/main/1/state.dat")
            .exists()
    );
    rig.data.remove(instance(1)).await.unwrap();
    assert!(!rig.folder.path().join("states/web").exists());
    rig.data.remove(instance(1)).await.unwrap();
}
