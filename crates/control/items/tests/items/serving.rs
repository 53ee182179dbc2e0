//! A node gets an item through the file server, straight from the folder of items.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_desired::Trust;
use muster_file_server::{BlobFolder, FileServer, FileServerConfig, TokenKey, Urls};
use muster_image::{BlobUrls, BoxError, HttpSettings, ImageStore, StoreSettings, UrlSource};
use muster_item::Platform;
use muster_layer::{Ownership, WhiteoutForm};
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{Alpn, Insecure, ServerOptions, ServerTls};

use crate::rig::{TestLayout, image, item, noise, open};

struct Told(Urls);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

impl BlobUrls for Told {
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>> {
        Box::pin(std::future::ready(Ok(vec![self.0.of(&digest)])))
    }
}

#[tokio::test]
async fn a_node_installs_an_item_from_the_folder_of_items() {
    let mut layout = TestLayout::new();
    layout.add("other", &image(1, 10_000).platform("riscv64", "linux"));
    layout.add("this", &image(2, 300_000));
    let web = item("web", "1.0.0", layout.source(Some(layout.index())));
    let folder = tempfile::tempdir().unwrap();
    let items = open(folder.path()).await;
    items.download(&web, &Trust::default(), None).await.unwrap();
    let node = Platform::of_this_program();
    let described = items.describe(&web).await.unwrap();
    let manifest = described.image_for(&node).unwrap().manifest_digest;

    let options = ServerOptions {
        alpn: Alpn::Http1,
        ..ServerOptions::default()
    };
    let tls = ServerTls::insecure(Insecure::because("a test").unwrap(), options);
    let server = FileServer::start(
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        &tls,
        BlobFolder::open(&items.blob_folder()).unwrap(),
        TokenKey::open(&folder.path().join("url.key")).unwrap(),
        FileServerConfig::new("127.0.0.1"),
    );
    let server = server.await.unwrap();
    let urls = Arc::new(Told(server.urls()));
    let source = UrlSource::new(urls, HttpSettings::default()).unwrap();

    let state = folder.path().join("node/sm.db");
    let config = StoreConfig::new(state, "node 1", OnDamage::Refuse).schema(&muster_image::SCHEMA);
    let mut settings = StoreSettings::new(folder.path().join("node/images"), node);
    settings.unpack.ownership = Ownership::Caller;
    settings.unpack.whiteouts.form = WhiteoutForm::EmptyFile;
    let store = ImageStore::open(settings, Store::open(&config).unwrap().store);
    let (store, _) = store.await.unwrap();
    let installed = store
        .install(manifest, Arc::new(source), None)
        .await
        .unwrap();
    assert_eq!(installed.item_config.hostname.as_deref(), Some("host-2"));
    let content = std::fs::read(installed.layers[0].join("data")).unwrap();
    assert_eq!(content, noise(2, 300_000));
}
