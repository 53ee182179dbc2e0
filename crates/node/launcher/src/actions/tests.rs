//! Every step of a start fails once, and so does its undoing.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use muster_api::domain::{ArchInfo, Digest, InstanceFilter, InstanceInfo, OsInfo, RuntimeInfo};
use muster_item::ImageConfig;
use muster_runtime::{AdoptError, ImagePaths, RunEvent, RunPlace, RuntimeError};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::decide::tests::info;
use crate::observe::Observed;
use crate::seams::{Images, Network, Permissions, Resources, SeamError};

const RUN: RunId = RunId(1);

/// All that a start is made of: notes each step, and fails at some.
#[derive(Debug, Default)]
struct Steps {
    done: Mutex<Vec<&'static str>>,
    failing: BTreeSet<&'static str>,
    /// What fails is only not there yet.
    will_pass: bool,
}

impl Steps {
    fn step<T>(&self, name: &'static str, value: T) -> Result<T, SeamError> {
        self.done.lock().unwrap().push(name);
        match (self.failing.contains(name), self.will_pass) {
            (false, _) => Ok(value),
            (true, true) => Err(SeamError::not_yet(format!("no {name}"))),
            (true, false) => Err(SeamError::new(AosCode::Failed, format!("no {name}"))),
        }
    }

    fn run_step(&self, name: &'static str, instance: &InstanceIdent) -> Result<(), RuntimeError> {
        self.step(name, ()).map_err(|error| RuntimeError {
            instance: instance.clone(),
            step: name,
            source: error.source,
        })
    }
}

fn image() -> InstalledImage {
    InstalledImage {
        paths: ImagePaths { layers: Vec::new() },
        image_config: ImageConfig::default(),
        item_config: ItemConfig::default(),
    }
}

impl Images for Steps {
    fn install(&self, _: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        Box::pin(async { self.step("image", image()) })
    }

    fn installed(&self, _: Digest) -> BoxFuture<'_, Option<InstalledImage>> {
        Box::pin(async { Some(image()) })
    }

    fn keep(&self, _: BTreeSet<Digest>) {}
}

impl Permissions for Steps {
    fn register<'a>(
        &'a self,
        _: &'a InstanceIdent,
        _: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Option<Secret>, SeamError>> {
        Box::pin(async { self.step("register", None) })
    }

    fn unregister<'a>(
        &'a self,
        _: &'a InstanceIdent,
        item: Option<&'a ItemConfig>,
    ) -> BoxFuture<'a, Result<(), SeamError>> {
        assert!(item.is_some(), "what it was started from is known");
        Box::pin(async { self.step("unregister", ()) })
    }
}

impl Network for Steps {
    fn keep_only(&self, _: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn attach<'a>(
        &'a self,
        _: &'a InstanceInfo,
        _: &'a InstalledImage,
    ) -> BoxFuture<'a, Result<Option<NetworkAttachment>, SeamError>> {
        Box::pin(async { self.step("attach", None) })
    }

    fn detach<'a>(&'a self, _: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async { self.step("detach", ()) })
    }
}

impl Resources for Steps {
    fn keep_only(&self, _: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn scarce(&self, _: &ItemConfig) -> Vec<String> {
        Vec::new()
    }

    fn take<'a>(
        &'a self,
        _: &'a InstanceIdent,
        _: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Vec<ResourceGrant>, SeamError>> {
        Box::pin(async { self.step("take", Vec::new()) })
    }

    fn release<'a>(&'a self, _: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async { self.step("release", ()) })
    }
}

impl Runtime for Steps {
    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            runtime_id: info(1, 1).runtime_id,
            runtime_type: "steps".parse().unwrap(),
            max_dmips: None,
            allowed_dmips: None,
            total_ram: None,
            allowed_ram: None,
            max_instances: 1,
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

    fn prepare(&self, spec: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move { self.run_step("prepare", &spec.info.instance) })
    }

    fn start(&self, spec: Arc<InstanceSpec>, _: RunId) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move { self.run_step("start", &spec.info.instance) })
    }

    fn stop(&self, it: InstanceIdent, _: Duration) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move { self.run_step("stop", &it) })
    }

    fn place(&self, _: &InstanceIdent, _: RunId) -> Option<RunPlace> {
        None
    }

    fn events(&self) -> mpsc::Receiver<RunEvent> {
        mpsc::channel(1).1
    }
}

struct Rig {
    workshop: Workshop,
    steps: Arc<Steps>,
    folder: TempDir,
}

impl Rig {
    fn new(steps: Steps) -> Self {
        let steps = Arc::new(steps);
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&crate::SCHEMA)).unwrap().store;
        let runtime: Arc<dyn Runtime> = steps.clone();
        let parts = Parts {
            store,
            runtimes: Vec::new(),
            images: steps.clone(),
            permissions: steps.clone(),
            network: steps.clone(),
            resources: steps.clone(),
            observers: Vec::new(),
            state_folder: folder.path().join("states"),
            storage_folder: folder.path().join("storages"),
        };
        let workshop = Workshop {
            parts,
            runtimes: BTreeMap::from([(runtime.info().runtime_id, runtime)]),
            observed: Observed::new(Vec::new()),
        };
        Self {
            workshop,
            steps,
            folder,
        }
    }

    fn failing(steps: &[&'static str]) -> Self {
        Self::new(Steps {
            failing: steps.iter().copied().collect(),
            ..Steps::default()
        })
    }

    fn done(&self) -> String {
        let done = std::mem::take(&mut *self.steps.done.lock().unwrap());
        done.join(" ")
    }
}

fn target() -> Target {
    Target {
        info: info(1, 1),
        env_override: Vec::new(),
    }
}

#[tokio::test]
async fn a_start_that_fails_is_undone_in_reverse_from_where_it_came() {
    for (failing, done) in [
        ("image", "image"),
        ("take", "image take release"),
        ("register", "image take register unregister release"),
        (
            "attach",
            "image take register attach detach unregister release",
        ),
        (
            "prepare",
            "image take register attach prepare stop detach unregister release",
        ),
        (
            "start",
            "image take register attach prepare start stop detach unregister release",
        ),
    ] {
        let rig = Rig::failing(&[failing]);
        let fault = rig.workshop.start(&target(), RUN).await.unwrap_err();
        let StartFault::Failed(fault) = fault else {
            panic!("{failing}: {fault:?}");
        };
        assert!(fault.message.contains(&format!("no {failing}")), "{fault}");
        assert_eq!(rig.done(), done, "{failing}");
        let anyone = InstanceFilter::new(None, None, None).unwrap();
        let running = rig.workshop.observed.directory().running(&anyone);
        assert!(running.is_empty(), "{failing}: {running:?}");
    }
    let rig = Rig::failing(&[]);
    rig.workshop.start(&target(), RUN).await.unwrap();
    assert_eq!(rig.done(), "image take register attach prepare start");
}

#[tokio::test]
async fn a_place_that_cannot_be_made_is_undone_like_any_other_step() {
    let rig = Rig::failing(&[]);
    std::fs::write(rig.folder.path().join("storages"), "no folder").unwrap();
    let mut target = target();
    target.info.storage_path = Some("item/storage".parse().unwrap());
    let fault = rig.workshop.start(&target, RUN).await.unwrap_err();
    assert!(matches!(fault, StartFault::Failed(_)), "{fault:?}");
    assert_eq!(
        rig.done(),
        "image take register attach detach unregister release"
    );
}

#[tokio::test]
async fn what_is_not_there_yet_is_no_fault_of_the_version_and_undone_all_the_same() {
    let rig = Rig::new(Steps {
        failing: BTreeSet::from(["register"]),
        will_pass: true,
        ..Steps::default()
    });
    let fault = rig.workshop.start(&target(), RUN).await.unwrap_err();
    assert!(matches!(fault, StartFault::NotYet(_)), "{fault:?}");
    assert_eq!(rig.done(), "image take register unregister release");
}

#[tokio::test]
async fn one_thing_that_cannot_be_undone_does_not_keep_the_others() {
    for failing in ["stop", "detach", "unregister", "release"] {
        let rig = Rig::failing(&["start", failing]);
        let fault = rig.workshop.start(&target(), RUN).await.unwrap_err();
        let StartFault::Failed(fault) = fault else {
            panic!("{failing}: {fault:?}");
        };
        assert!(fault.message.contains("no start"), "{fault}");
        let undone = "stop detach unregister release";
        assert!(rig.done().ends_with(undone), "{failing}");
        // The same for what ran; the first failure is told.
        let fault = rig
            .workshop
            .stop(&target(), Duration::ZERO)
            .await
            .unwrap_err();
        assert!(fault.message.contains(&format!("no {failing}")), "{fault}");
        assert_eq!(rig.done(), undone, "{failing}");
    }
}
