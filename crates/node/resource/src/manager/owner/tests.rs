use std::os::unix::fs::symlink;
use std::time::Duration;

use muster_store::testing::Weakness;
use muster_store::{OnDamage, StoreConfig};

use super::*;

#[derive(Debug)]
struct Nobody;

impl AlertSink for Nobody {
    fn raise(&self, _: Alert) {}
}

#[tokio::test]
async fn without_a_watch_devices_are_looked_at_from_time_to_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (device, file) = (
        folder.path().join("device"),
        folder.path().join("resources.json"),
    );
    let text = format!(r#"[{{"name": "r", "devices": ["{}"]}}]"#, device.display());
    std::fs::write(&file, text).expect("the file");
    let config = StoreConfig::new(folder.path().join("sm.db"), "test 1", OnDamage::Refuse)
        .schema(&database::SCHEMA)
        .weakened(Weakness::NoFlush);
    let store = Store::open(&config).expect("the store").store;
    let settings = Settings {
        look_every: Duration::from_millis(5),
        ..Settings::new(&file)
    };
    let (announced_out, mut announced) = watch::channel(Vec::new());
    let inventory = Inventory::unwatched(file);
    let (ledger, alerts) = (Ledger::default(), Arc::new(Nobody));
    let owner = Owner::new(store, settings, alerts, ledger, inventory, announced_out).await;
    let (_requests, queue) = mpsc::channel(1);
    let task = tokio::spawn(owner.run(queue));
    assert!(announced.borrow().is_empty());
    symlink("/dev/null", device).expect("plugged in");
    let noticed = announced.wait_for(|resources| !resources.is_empty());
    let noticed = tokio::time::timeout(Duration::from_secs(10), noticed).await;
    assert!(noticed.expect("in time").is_ok());
    task.abort();
}
