//! A small daemon's use of an image store, for tests that kill it.
//!
//! `image_installer FOLDER LAYOUT STEP...`: opens the store in FOLDER and does the steps in turn: `install DIGEST` (from LAYOUT),
//! `keep DIGEST` (nothing else is wanted), `collect` (as if a year had passed), `check`. What it prints has happened: `opened`,
//! `installed DIGEST`, `kept`, `collected`, `checked`, `closed`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::Digest;
use muster_image::{ImageStore, LayoutSource, SCHEMA, StoreSettings};
use muster_item::Platform;
use muster_store::{OnDamage, Store, StoreConfig};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[
        muster_image::FAULT_POINTS,
        muster_layer::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, layout, steps @ ..] = arguments.as_slice() else {
        panic!("FOLDER LAYOUT STEP...")
    };
    let folder = Path::new(folder);
    let config = StoreConfig::new(
        folder.join("state/sm.db"),
        "image_installer 1",
        OnDamage::Refuse,
    );
    let db = Store::open(&config.schema(&SCHEMA))
        .expect("the database opens")
        .store;
    let mut settings = StoreSettings::new(folder.join("images"), Platform::of_this_program());
    settings.keep_layer_blobs = steps.iter().any(|step| step == "keep-blobs");
    let (images, _) = ImageStore::open(settings, db.clone())
        .await
        .expect("the store opens");
    say("opened");
    let source = Arc::new(LayoutSource::open(layout).expect("a layout"));
    let mut steps = steps.iter();
    let digest =
        |text: Option<&String>| -> Digest { text.expect("a digest").parse().expect("a digest") };
    while let Some(step) = steps.next() {
        match step.as_str() {
            "install" => {
                let item = digest(steps.next());
                images
                    .install(item, source.clone(), None)
                    .await
                    .expect("installed");
                say(&format!("installed {item}"));
            }
            "keep" => {
                let wanted = BTreeSet::from([digest(steps.next())]);
                images.keep(&wanted, SystemTime::now()).await.expect("kept");
                say("kept");
            }
            "collect" => {
                images
                    .collect(SystemTime::now() + YEAR)
                    .await
                    .expect("collected");
                say("collected");
            }
            "check" => {
                images.check(u64::MAX).await.expect("checked");
                say("checked");
            }
            "keep-blobs" => {}
            other => panic!("no step {other}"),
        }
    }
    drop(images);
    db.close().await.expect("a clean close");
    say("closed");
}
