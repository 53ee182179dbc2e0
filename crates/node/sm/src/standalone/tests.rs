use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{
    AlertRules, ArchInfo, Digest, Gid, InstanceIdent, InstanceState, ItemType, OsInfo, Uid,
};
use muster_item::{ImageConfig, ItemConfig};
use muster_launcher::seams;
use muster_runtime::{
    AdoptError, Adopted, ImagePaths, InstanceSpec, RunEvent, RunId, RunPlace, RuntimeError,
};
use tokio::sync::mpsc;

use super::*;

/// Runs everything, and cannot stop the first that it is asked to.
#[derive(Debug, Default)]
struct Clumsy {
    has_failed: AtomicBool,
}

impl Runtime for Clumsy {
    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            runtime_id: "clumsy".parse().unwrap(),
            runtime_type: "clumsy".parse().unwrap(),
            max_dmips: None,
            allowed_dmips: None,
            total_ram: None,
            allowed_ram: None,
            max_instances: 9,
            os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
            arch_info: ArchInfo::new("amd64", "").unwrap(),
        }
    }

    fn adopt(
        &self,
        _: Vec<InstanceIdent>,
        _: Duration,
    ) -> BoxFuture<'_, Result<Vec<Adopted>, AdoptError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn prepare(&self, _: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn start(&self, _: Arc<InstanceSpec>, _: RunId) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn stop(
        &self,
        instance: InstanceIdent,
        _: Duration,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            if self.has_failed.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            Err(RuntimeError {
                instance,
                step: "stop",
                source: "its mount is busy".into(),
            })
        })
    }

    fn place(&self, _: &InstanceIdent, _: RunId) -> Option<RunPlace> {
        None
    }

    fn events(&self) -> mpsc::Receiver<RunEvent> {
        mpsc::channel(1).1
    }
}

/// All images are there.
#[derive(Debug)]
struct Everything;

fn image() -> seams::InstalledImage {
    seams::InstalledImage {
        paths: ImagePaths { layers: Vec::new() },
        image_config: ImageConfig::default(),
        item_config: ItemConfig::default(),
    }
}

impl seams::Images for Everything {
    fn install(&self, _: Digest) -> BoxFuture<'_, Result<seams::InstalledImage, seams::SeamError>> {
        Box::pin(async { Ok(image()) })
    }

    fn installed(&self, _: Digest) -> BoxFuture<'_, Option<seams::InstalledImage>> {
        Box::pin(async { Some(image()) })
    }

    fn keep(&self, _: BTreeSet<Digest>) {}
}

fn info(number: u64) -> InstanceInfo {
    InstanceInfo {
        instance: InstanceIdent {
            item_id: "web".parse().unwrap(),
            subject_id: "local".parse().unwrap(),
            instance: number,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        version: "1.0.0".to_owned(),
        manifest_digest: Digest::from_sha256([1; 32]),
        owner_id: None,
        runtime_id: "clumsy".parse().unwrap(),
        uid: Uid::new(5000).unwrap(),
        gid: Gid::new(5000).unwrap(),
        priority: 0,
        storage_path: None,
        state_path: None,
        env_vars: Vec::new(),
        network: None,
        alert_rules: AlertRules::default(),
    }
}

/// On an init that answers and of which nobody knows the process.
async fn standalone(settings: &Settings) -> (Standalone, UnixListener) {
    for folder in [&settings.state_dir, &init::folder(settings)] {
        fs::create_dir_all(folder).unwrap();
    }
    let listening = UnixListener::bind(init::socket(settings)).unwrap();
    let parts = Parts {
        store: open_store(settings).unwrap(),
        runtimes: vec![Arc::new(Clumsy::default())],
        images: Arc::new(Everything),
        permissions: Arc::new(Absent),
        network: Arc::new(Absent),
        resources: Arc::new(Absent),
        observers: Vec::new(),
        state_folder: settings.state_dir.join("states"),
        storage_folder: settings.state_dir.join("storages"),
    };
    let started = Launcher::start(parts, Limits::default()).await;
    let (launcher, reports, task) = started.unwrap();
    let init = PrivateInit::find_or_start(settings, std::future::pending()).await;
    let standalone = Standalone {
        launcher,
        reports,
        task: Box::pin(task),
        init: init.unwrap().unwrap(),
        _claim: Claim::take(settings).unwrap(),
    };
    (standalone, listening)
}

#[tokio::test]
async fn an_instance_that_cannot_be_stopped_in_order_keeps_the_end_from_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        state_dir: folder.path().join("state"),
        runtime_dir: folder.path().join("run"),
        program_dir: folder.path().to_owned(),
    };
    let (mut standalone, _listening) = standalone(&settings).await;
    let wanted = vec![info(0), info(1)];
    standalone.update(wanted, Vec::new()).await.unwrap();
    let up = loop {
        if let Report::Settled(all) = standalone.next().await.unwrap() {
            break all;
        }
    };
    assert!(up.iter().all(|it| it.state == InstanceState::Active));
    let mut last = BTreeMap::new();
    let mut news = |report| {
        if let Report::Changed(changed) = report {
            last.extend(
                changed
                    .into_iter()
                    .map(|it| (it.instance.clone(), it.state)),
            );
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), standalone.end(&mut news)).await;
    let failed = ended.expect("it ends").unwrap_err();
    let StandaloneError::NotStopped(left) = &failed else {
        panic!("{failed:?}");
    };
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("its mount is busy"), "{left:?}");
    let mut states: Vec<InstanceState> = last.into_values().collect();
    states.sort_by_key(|it| it.as_str());
    assert_eq!(states, [InstanceState::Failed, InstanceState::Inactive]);
}

#[tokio::test]
async fn what_is_wanted_again_makes_no_room_for_what_stands_before_it() {
    use muster_lab::oci::{Compression, Image, LayerBuilder, Layout};

    muster_lab::require!(Root);
    let folder = tempfile::tempdir().unwrap();
    let mut layout = Layout::create(folder.path().join("layout")).unwrap();
    for name in ["a", "b", "c"] {
        let content = name.as_bytes().repeat(400_000);
        let file = LayerBuilder::new().file("file", content, 0o644);
        let image = Image::new().layer(file.build(Compression::None).unwrap());
        layout.add(name, image.build()).unwrap();
    }
    let set = |names: &[&str]| {
        let items = names
            .iter()
            .map(|it| format!("- id: {it}\n  image: {{layout: layout, name: {it}}}\n"));
        let file = folder.path().join("set.yaml");
        fs::write(&file, format!("items:\n{}", items.collect::<String>())).unwrap();
        Desired::load(&file).unwrap()
    };
    let settings = Settings {
        state_dir: folder.path().join("state"),
        runtime_dir: folder.path().join("run"),
        program_dir: folder.path().to_owned(),
    };
    let store = open_store(&settings).unwrap();
    let mut small = StoreSettings::new(folder.path().join("images"), Platform::of_this_program());
    small.documents.document_bytes = 64 << 10;
    // A third image has room only instead of one of two.
    small.max_bytes = Some(1_500_000);
    let (images, _) = ImageStore::open(small, store.clone()).await.unwrap();
    let mut noted = Vec::new();
    let mut note = |text: &str| noted.push(text.to_owned());
    let now = SystemTime::now();
    for (name, seconds) in [("a", 0), ("b", 100)] {
        install(&images, &store, &set(&[name]), &mut note)
            .await
            .unwrap();
        let later = now + Duration::from_secs(seconds);
        images.keep(&Default::default(), later).await.unwrap();
    }
    let both = set(&["c", "a"]);
    let (_, installed) = install(&images, &store, &both, &mut note).await.unwrap();
    assert_eq!(installed.len(), 2);
    let got = ["a", "b", "c"].map(|name| format!("getting the image of {name}"));
    assert_eq!(noted, got, "the first one was there all the time");
}
