//! The task with its handle, over a real database, with parts that answer, fail or hang.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosError, InstanceIdent, NodeId};
use muster_config::{Format, Limits as ParseLimits};
use muster_desired::seams::{
    Assignment, Balancer, DownloadMeter, Downloads, NodeShare, Nodes, Question, Reports,
};
use muster_desired::{
    Accepted, ApplyError, DesiredStatus, Item, Limits, Origin, Parts, Progress, RollbackError,
    SCHEMA, UpdateId, UpdateStep, Updates,
};
use muster_store::{OnDamage, Store, StoreConfig};

/// A Unit without nodes, whose parts can be made to hang.
#[derive(Debug, Default)]
struct Unit {
    downloads_hang: AtomicBool,
    balancer_hangs: AtomicBool,
    dropped: Arc<AtomicUsize>,
    retained: Mutex<Vec<BTreeSet<Item>>>,
    finished: AtomicUsize,
}

/// Counts when a download is given up.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Downloads for Unit {
    fn download(
        &self,
        _: Item,
        _: Arc<DesiredStatus>,
        meter: DownloadMeter,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            meter.set(3, 10);
            if self.downloads_hang.load(Ordering::SeqCst) {
                let _guard = Guard(Arc::clone(&self.dropped));
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }

    fn retain(&self, items: BTreeSet<Item>) -> BoxFuture<'_, Result<(), AosError>> {
        self.retained.lock().expect("the list").push(items);
        Box::pin(async { Ok(()) })
    }
}

impl Balancer for Unit {
    fn plan(&self, _: Question) -> BoxFuture<'_, Result<Assignment, AosError>> {
        Box::pin(async {
            if self.balancer_hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(Assignment::default())
        })
    }
}

impl Nodes for Unit {
    fn configure(&self, _: Arc<DesiredStatus>) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async { Ok(()) })
    }

    fn update(
        &self,
        _: NodeId,
        _: NodeShare,
        _: Vec<InstanceIdent>,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Reports for Unit {
    fn changed(&self, _: &Arc<Progress>) {}

    fn finished(&self, progress: &Arc<Progress>) {
        assert!(progress.done);
        self.finished.fetch_add(1, Ordering::SeqCst);
    }
}

fn limits() -> Limits {
    Limits {
        nodes_patience: Duration::from_millis(1),
        answer: Duration::from_millis(50),
        report_period: Duration::from_millis(1),
        ..Limits::default()
    }
}

async fn start(folder: &Path, unit: &Arc<Unit>) -> (Updates, tokio::task::JoinHandle<()>, Store) {
    start_with(folder, unit, limits()).await
}

async fn start_with(
    folder: &Path,
    unit: &Arc<Unit>,
    limits: Limits,
) -> (Updates, tokio::task::JoinHandle<()>, Store) {
    let config = StoreConfig::new(folder.join("unit.db"), "test 1", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA)).expect("a store").store;
    let parts = Parts {
        store: store.clone(),
        downloads: unit.clone(),
        balancer: unit.clone(),
        nodes: unit.clone(),
        reports: unit.clone(),
    };
    let (updates, task) = Updates::start(parts, limits).await.expect("it starts");
    (updates, tokio::spawn(task), store)
}

fn desired(version: &str) -> DesiredStatus {
    let text = format!("items: [{{id: web, version: '{version}', image: {{registry: r/web}}}}]");
    DesiredStatus::read(
        "/d.yaml",
        Format::Yaml,
        text.as_bytes(),
        ParseLimits::default(),
    )
    .expect("a document")
}

async fn apply(updates: &Updates, version: &str) -> UpdateId {
    let applied = updates.apply(desired(version), Origin::Operator, "d.yaml");
    match applied.await.expect("it is accepted") {
        Accepted::New(update) => update,
        Accepted::Unchanged(update) => panic!("{update} is the same"),
    }
}

async fn until(updates: &Updates, what: impl Fn(&Progress) -> bool) -> Arc<Progress> {
    let mut progress = updates.progress();
    let wait = progress.wait_for(|it| what(it));
    let found = tokio::time::timeout(Duration::from_secs(20), wait).await;
    let found = found.expect("it takes too long").expect("the task runs");
    Arc::clone(&found)
}

async fn done(updates: &Updates, update: UpdateId) -> Arc<Progress> {
    until(updates, |it| it.done && it.update == Some(update)).await
}

#[tokio::test]
async fn wishes_previews_and_ways_back_outlive_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = Arc::new(Unit::default());
    let (updates, task, store) = start(folder.path(), &unit).await;
    let nothing = updates
        .rollback(None)
        .await
        .expect_err("nothing was wanted");
    assert_eq!(nothing, ApplyError::Rollback(RollbackError::NoEarlier));
    let first = apply(&updates, "1").await;
    done(&updates, first).await;
    let second = apply(&updates, "2").await;
    let progress = done(&updates, second).await;
    assert_eq!(
        (progress.step, progress.failures().len()),
        (UpdateStep::None, 0)
    );
    assert_eq!(unit.finished.load(Ordering::SeqCst), 2);
    // What the previous one needs is kept, so that going back needs no network.
    let kept = unit.retained.lock().expect("the list").last().cloned();
    let kept: Vec<String> = kept.into_iter().flatten().map(|it| it.version).collect();
    assert_eq!(kept, ["1", "2"]);
    drop(updates);
    task.await.expect("it ends with its last handle");
    store.close().await.expect("it closes");

    let (updates, task, store) = start(folder.path(), &unit).await;
    let versions = updates.versions().await.expect("versions");
    let ids: Vec<u64> = versions.iter().map(|it| it.id.0).collect();
    assert_eq!((ids, versions[0].name.as_str()), (vec![2, 1], "d.yaml"));
    let preview = updates.preview_rollback(None).await.expect("a preview");
    let lines: Vec<String> = preview
        .differences
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(lines, ["~ item web: 2 from r/web -> 1 from r/web"]);
    assert_eq!(updates.rollback(None).await, Ok(Accepted::New(UpdateId(3))));
    done(&updates, UpdateId(3)).await;
    let versions = updates.versions().await.expect("versions");
    assert_eq!(versions[0].desired, versions[2].desired);
    let same = updates.preview(desired("1")).await.expect("a preview");
    assert_eq!(same.differences, []);
    let other = updates.preview(desired("9")).await.expect("a preview");
    assert_eq!(other.question.items["web"].version, "9");
    assert_eq!(
        updates.versions().await.expect("versions").len(),
        3,
        "only looked at"
    );
    drop(updates);
    task.await.expect("it ends");
    store.close().await.expect("it closes");
}

/// However rarely progress is told: whoever is answered that there is an update finds it.
#[tokio::test]
async fn an_update_that_was_accepted_can_be_followed_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        report_period: Duration::from_secs(3600),
        ..limits()
    };
    let unit = Arc::new(Unit::default());
    let (updates, task, _store) = start_with(folder.path(), &unit, limits).await;
    let first = apply(&updates, "1").await;
    assert_eq!(updates.progress().borrow().update, Some(first));
    let second = apply(&updates, "2").await;
    assert_eq!(updates.progress().borrow().update, Some(second));
    drop(updates);
    task.await.expect("it ends");
}

#[tokio::test]
async fn a_download_that_hangs_is_dropped_for_the_next_wish() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = Arc::new(Unit::default());
    unit.downloads_hang.store(true, Ordering::SeqCst);
    let (updates, task, _store) = start(folder.path(), &unit).await;
    apply(&updates, "1").await;
    let progress = until(&updates, |it| {
        it.items.values().any(|it| it.bytes.done == 3)
    })
    .await;
    assert_eq!(progress.step, UpdateStep::Downloading);
    unit.downloads_hang.store(false, Ordering::SeqCst);
    let second = apply(&updates, "2").await;
    done(&updates, second).await;
    assert_eq!(unit.dropped.load(Ordering::SeqCst), 1);
    drop(updates);
    task.await.expect("it ends");
}

#[tokio::test]
async fn a_balancer_that_hangs_is_told_and_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = Arc::new(Unit::default());
    unit.balancer_hangs.store(true, Ordering::SeqCst);
    let (updates, task, _store) = start(folder.path(), &unit).await;
    let first = apply(&updates, "1").await;
    let progress = done(&updates, first).await;
    assert_eq!(
        progress.failures(),
        ["placement: timeout: there was no answer for 50 ms"]
    );
    unit.balancer_hangs.store(false, Ordering::SeqCst);
    // The same wish is worth another try, because the first one failed.
    let second = apply(&updates, "1").await;
    assert_eq!(done(&updates, second).await.failures().len(), 0);
    drop(updates);
    task.await.expect("it ends");
}
