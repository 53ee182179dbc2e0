//! A small daemon's use of items, for tests that kill it.
//!
//! `item_keeper FOLDER LAYOUT BASE STEP...`: keeps items in FOLDER and does the steps in turn: `layout VERSION DIGEST` (download
//! from LAYOUT), `cloud VERSION DIGEST` (download from BASE/HEX, encrypted), `retain` (only the item of the last download),
//! `collect` (as if a year had passed). What it prints has happened: `opened`, `downloaded VERSION`, `retained`, `collected`, `closed`.
//!
//! What the cloud says is in LAYOUT/infos: a line `DIGEST SHA256 SIZE` for each blob, all encrypted with AES-256 in CBC, under a key of
//! zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use muster_api::domain::{Digest, ItemType};
use muster_desired::{ImageSource, Item, Trust};
use muster_items::{
    BlobInfo, BlobInfos, BlockCipher, BoxError, Cloud, DecryptInfo, DownloadEvent, DownloadEvents,
    Items, ItemsSettings, SCHEMA,
};
use muster_store::{OnDamage, Store, StoreConfig};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

#[derive(Debug)]
struct Written(BTreeMap<Digest, BlobInfo>);

impl Written {
    fn read(file: &Path, base: &str) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let info = |line: &str| {
            let mut words = line.split(' ');
            let digest: Digest = words.next()?.parse().ok()?;
            let sha256: Digest = format!("sha256:{}", words.next()?).parse().ok()?;
            let info = BlobInfo {
                urls: vec![format!("{base}/{}", digest.to_hex())],
                sha256: sha256.as_bytes().try_into().ok()?,
                size: words.next()?.parse().ok()?,
                decrypt: Some(DecryptInfo {
                    cipher: BlockCipher::Aes256Cbc,
                    iv: vec![0; 16],
                    key: vec![0; 32].into(),
                }),
                sign: None,
            };
            Some((digest, info))
        };
        Self(text.lines().filter_map(info).collect())
    }
}

impl BlobInfos for Written {
    fn info(&self, digest: Digest) -> BoxFuture<'_, Result<BlobInfo, BoxError>> {
        let info = self.0.get(&digest).cloned();
        Box::pin(std::future::ready(info.ok_or_else(|| "not known".into())))
    }
}

#[derive(Debug)]
struct Unheard;

impl DownloadEvents for Unheard {
    fn happened(&self, _: DownloadEvent) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[
        muster_items::FAULT_POINTS,
        muster_image::FAULT_POINTS,
        muster_layer::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, layout, base, steps @ ..] = arguments.as_slice() else {
        panic!("FOLDER LAYOUT BASE STEP...")
    };
    let (folder, layout) = (Path::new(folder), Path::new(layout));
    let config = StoreConfig::new(
        folder.join("state/cm.db"),
        "item_keeper 1",
        OnDamage::Refuse,
    );
    let config = config.schema(&muster_image::SCHEMA).schema(&SCHEMA);
    let db = Store::open(&config).expect("the database opens").store;
    let mut settings = ItemsSettings::new(folder.join("items"));
    settings.plain_http = true;
    settings.signatures.accept_unsigned = true;
    let cloud = Cloud {
        infos: Arc::new(Written::read(&layout.join("infos"), base)),
        events: Arc::new(Unheard),
    };
    let items = Items::open(settings, db.clone(), Some(cloud)).await;
    let items = items.expect("items open");
    say("opened");

    let mut needed = BTreeSet::new();
    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        match step.as_str() {
            source @ ("layout" | "cloud") => {
                let version = steps.next().expect("a version").clone();
                let index: Digest = steps.next().expect("a digest").parse().expect("a digest");
                let image = match source {
                    "cloud" => ImageSource::Cloud { index },
                    _ => ImageSource::Layout {
                        path: layout.to_owned(),
                        name: None,
                        index: Some(index),
                    },
                };
                let item = Item {
                    id: "web".parse().expect("an id"),
                    kind: ItemType::Service,
                    version: version.clone(),
                    owner: None,
                    image,
                };
                let done = items.download(&item, &Trust::default(), None).await;
                done.expect("downloaded");
                needed = BTreeSet::from([item]);
                say(&format!("downloaded {version}"));
            }
            "retain" => {
                items.retain(&needed).await.expect("retained");
                say("retained");
            }
            "collect" => {
                let later = SystemTime::now() + YEAR;
                items.collect(later).await.expect("collected");
                say("collected");
            }
            other => panic!("no step {other}"),
        }
    }
    drop(items);
    db.close().await.expect("a clean close");
    say("closed");
}
