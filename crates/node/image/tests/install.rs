//! Installing images from layouts and over HTTP, with everything that can go wrong on the way.

mod common;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::server::{Faults, FileServer};
use common::{
    TestLayout, image, layer, layer_content, noise, open_with, settings, tree, url_source,
};
use muster_api::domain::Digest;
use muster_image::{
    FetchBlobError, HttpSettings, InstallError, LayoutSource, Progress, SpaceLimit, UrlSource,
};
use muster_lab::oci::{BlobDigest, Compression, Image, LayerBuilder};
use muster_lab::poll_until;
use muster_layer::UnpackError;
use tokio::sync::watch;

#[tokio::test]
async fn an_image_of_a_layout_is_installed_with_all_that_it_says() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 100_000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let (sender, progress) = watch::channel(Progress::default());
    let installed = store
        .install(digest, layout.source(), Some(sender))
        .await
        .unwrap();
    assert_eq!(installed.manifest_digest, digest);
    assert_eq!(installed.image_config.entrypoint, ["/opt/run"]);
    assert_eq!(installed.item_config.hostname.as_deref(), Some("host-1"));
    assert_eq!(installed.layers.len(), 3);
    for (index, folder) in installed.layers.iter().enumerate() {
        let seed = index as u64 + 1;
        assert_eq!(layer_content(folder, seed), noise(seed, 100_000));
    }
    let progress = *progress.borrow();
    assert!(progress.total_bytes > 300_000, "{progress:?}");
    assert!(
        progress.received_bytes >= progress.total_bytes,
        "{progress:?}"
    );
    assert_eq!(store.installed(digest).await.unwrap(), Some(installed));
    // Compressed layers are not kept; three documents are.
    assert_eq!(store.inventory().blobs.len(), 3);
    assert!(store.inventory().partials.is_empty() && store.inventory().pins.is_empty());
    assert_eq!(store.usage().reserved_bytes, 0);
}

#[tokio::test]
async fn an_index_leads_to_the_manifest_for_this_node_and_tar_layouts_work_too() {
    let mut layout = TestLayout::new();
    layout.add("other", &image(1, 1000).platform("riscv64", "linux"));
    let manifest = layout.add("this", &image(4, 1000));
    let index: Digest = layout
        .layout
        .add_index_blob()
        .unwrap()
        .as_str()
        .parse()
        .unwrap();
    let archive = tempfile::NamedTempFile::new().unwrap();
    let mut tar = tar::Builder::new(archive.reopen().unwrap());
    tar.append_dir_all(".", layout.folder.path()).unwrap();
    tar.finish().unwrap();
    let source = LayoutSource::open(archive.path()).unwrap();
    assert_eq!(source.image(Some("this")).unwrap(), manifest);
    assert!(
        source
            .image(None)
            .unwrap_err()
            .to_string()
            .contains("2 images")
    );
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(index, Arc::new(source), None).await.unwrap();
    assert_eq!(
        (installed.digest, installed.manifest_digest),
        (index, manifest)
    );
    // The index is a document of the item as well.
    assert_eq!(store.inventory().items[&index].blobs.len(), 4);
}

#[tokio::test]
async fn a_download_goes_on_where_it_broke_off_and_at_another_server() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1_000_000));
    let cut = Faults {
        cut: Some((4, 300_000)),
        ..Faults::default()
    };
    let bad = FileServer::start(layout.blobs(), cut);
    let good = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let source = url_source(&[&bad.url(), &good.url()]);
    store.install(digest, source, None).await.unwrap();
    let all: u64 = layout.blobs().values().map(|blob| blob.len() as u64).sum();
    let sent = bad.sent() + good.sent();
    assert!(
        sent < all + 300_000,
        "sent {sent} of {all}: something came twice"
    );
    let resumed = good.asked().iter().any(|(_, from)| *from > 0);
    assert!(resumed, "{:?}", good.asked());
}

#[tokio::test]
async fn a_server_without_ranges_is_read_from_its_beginning_again() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 500_000));
    let faults = Faults {
        cut: Some((2, 200_000)),
        ignore_ranges: true,
        ..Faults::default()
    };
    let server = FileServer::start(layout.blobs(), faults);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store
        .install(digest, url_source(&[&server.url()]), None)
        .await
        .unwrap();
    assert_eq!(layer_content(&installed.layers[0], 1), noise(1, 500_000));
}

#[tokio::test]
async fn after_a_restart_only_the_rest_comes() {
    let mut layout = TestLayout::new();
    let one = Image::new().layer(layer(1, 2_000_000, Compression::Gzip));
    let digest = layout.add("web", &one);
    let cut = Faults {
        cut: Some((99, 700_000)),
        ..Faults::default()
    };
    let server = FileServer::start(layout.blobs(), cut.clone());
    let folder = tempfile::tempdir().unwrap();
    let mut few = settings(folder.path());
    few.tries = 1;
    let (store, _) = open_with(few.clone()).await;
    // Every answer ends after 700 kB, so going on makes progress until the server is gone.
    let going = tokio::time::timeout(Duration::from_secs(30), async {
        let source = url_source(&[&server.url()]);
        server.set(Faults {
            cut: Some((1, 700_000)),
            ..Faults::default()
        });
        let blobs = url_source(&[&server.url()]);
        drop(source);
        // The first answer breaks off, and then nothing is there any more.
        let install = store.install(digest, blobs, None);
        let watch = async {
            while server.sent() < 700_000 {
                tokio::task::yield_now().await;
            }
            server.set(Faults {
                missing: true,
                ..Faults::default()
            });
        };
        tokio::join!(install, watch).0
    });
    let error = going.await.unwrap().unwrap_err();
    assert!(matches!(error, InstallError::Fetch { .. }), "{error:?}");
    let partial: u64 = store
        .inventory()
        .partials
        .values()
        .map(|part| part.bytes)
        .sum();
    assert!(partial >= 700_000, "{partial}");
    assert_eq!(
        store.usage().used_bytes,
        partial + store.inventory().blobs.values().sum::<u64>()
    );
    drop(store);

    server.set(Faults::default());
    let before = server.sent();
    let (store, _) = open_with(few).await;
    let installed = store
        .install(digest, url_source(&[&server.url()]), None)
        .await
        .unwrap();
    assert_eq!(layer_content(&installed.layers[0], 1), noise(1, 2_000_000));
    let rest = server.sent() - before;
    assert!(rest < 1_500_000, "{rest} bytes came again");
}

#[tokio::test]
async fn wrong_bytes_are_got_elsewhere_or_refused() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 300_000));
    let wrong = FileServer::start(
        layout.blobs(),
        Faults {
            corrupt: Some(50),
            ..Faults::default()
        },
    );
    let good = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let error = store
        .install(digest, url_source(&[&wrong.url()]), None)
        .await
        .unwrap_err();
    let InstallError::Fetch {
        source: FetchBlobError::WrongContent { places, .. },
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(places.len(), 1);
    assert!(store.inventory().blobs.is_empty() && store.inventory().partials.is_empty());
    let both = url_source(&[&wrong.url(), &good.url()]);
    let installed = store.install(digest, both, None).await.unwrap();
    assert_eq!(layer_content(&installed.layers[1], 2), noise(2, 300_000));
}

#[tokio::test]
async fn file_urls_work_and_others_are_refused_with_their_reason() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let error = store
        .install(digest, url_source(&["ftp://127.0.0.1"]), None)
        .await
        .unwrap_err();
    let InstallError::Fetch {
        source: FetchBlobError::GivenUp { source, .. },
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    let reason = std::error::Error::source(source.as_ref())
        .unwrap()
        .to_string();
    assert_eq!(reason, "only https, http and file are known");
    let blobs = format!("file://{}", layout.layout.blob_folder().display());
    store
        .install(digest, url_source(&[&blobs]), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_an_image_is_said_and_leaves_nothing() {
    let mut layout = TestLayout::new();
    let lying = layer(7, 1000, Compression::Gzip);
    let cases = [
        (
            "platform",
            image(1, 100).platform("riscv64", "linux"),
            "WrongPlatform",
        ),
        (
            "diff id",
            Image::new().layer(lying.claim_diff_id(BlobDigest::of(b"x"))),
            "WrongDiffId",
        ),
        (
            "count",
            image(2, 100).edit_config(|config| {
                config["rootfs"]["diff_ids"].as_array_mut().unwrap().pop();
            }),
            "LayerCount",
        ),
        (
            "type",
            image(3, 100).edit_manifest(|manifest| {
                manifest["layers"][0]["mediaType"] = "application/x-thing".into();
            }),
            "LayerType",
        ),
        (
            "item",
            image(4, 100).item_config(serde_json::json!({"quotas": {"ramLimit": "much"}})),
            "Document",
        ),
        (
            "no layer",
            Image::new().layer(muster_lab::oci::Layer::from_tar_bytes(
                "application/vnd.oci.image.layer.v1.tar",
                vec![7; 2048],
            )),
            "Unpack",
        ),
    ];
    for (what, image, expected) in cases {
        let digest = layout.add(what, &image);
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_with(settings(folder.path())).await;
        let error = store
            .install(digest, layout.source(), None)
            .await
            .unwrap_err();
        assert!(
            format!("{error:?}").starts_with(expected),
            "{what}: {error:?}"
        );
        assert_eq!(store.installed(digest).await.unwrap(), None);
        let left = tree(&folder.path().join("images"));
        let unpacked = left.iter().any(|path| {
            let path = path.to_str().unwrap();
            path.starts_with("unpacking/")
                || path.starts_with("layers/sha256/")
                || path.starts_with("trash/")
        });
        assert!(!unpacked, "{what}: {left:?}");
    }
}

#[tokio::test]
async fn a_hostile_layer_is_refused_by_its_rule() {
    let mut layout = TestLayout::new();
    let tar = {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..9].copy_from_slice(b"../escape");
        header.set_size(0);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        tar.append(&header, std::io::empty()).unwrap();
        tar.into_inner().unwrap()
    };
    let layer =
        muster_lab::oci::Layer::from_tar_bytes("application/vnd.oci.image.layer.v1.tar", tar);
    let digest = layout.add("evil", &Image::new().layer(layer));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let error = store
        .install(digest, layout.source(), None)
        .await
        .unwrap_err();
    let InstallError::Unpack { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(*source, UnpackError::Refused { .. }), "{source:?}");
    let all = tree(folder.path());
    let escaped = all.iter().find(|path| path.ends_with("escape"));
    assert_eq!(escaped, None);
}

#[tokio::test]
async fn installations_at_the_same_time_share_what_they_have_in_common() {
    let mut layout = TestLayout::new();
    let common = layer(9, 400_000, Compression::Gzip);
    let one = layout.add(
        "one",
        &Image::new().layer(common.clone()).entrypoint(["/one"]),
    );
    let two = layout.add("two", &Image::new().layer(common).entrypoint(["/two"]));
    let server = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let source = url_source(&[&server.url()]);
    let (first, second, third) = tokio::join!(
        store.install(one, source.clone(), None),
        store.install(two, source.clone(), None),
        store.install(one, source.clone(), None),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.layers, second.layers);
    assert_eq!(third.unwrap(), first);
    let mut asked: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
    asked.sort();
    let times = asked.len();
    asked.dedup();
    assert_eq!(asked.len(), times, "something was asked for twice");
}

#[tokio::test]
async fn a_dropped_installation_stops_and_the_next_one_goes_on() {
    let mut layout = TestLayout::new();
    let digest = layout.add(
        "web",
        &Image::new().layer(layer(1, 3_000_000, Compression::None)),
    );
    let server = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let source = url_source(&[&server.url()]);
    for yields in [1, 5, 20, 80, 320] {
        let install = store.install(digest, source.clone(), None);
        let impatience = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = install => {}
            () = impatience => {}
        }
    }
    let installed = store.install(digest, source, None).await.unwrap();
    assert_eq!(layer_content(&installed.layers[0], 1), noise(1, 3_000_000));
    assert_eq!(store.usage().reserved_bytes, 0);
    assert!(store.inventory().pins.is_empty());
}

#[tokio::test]
async fn space_is_reserved_before_the_download_and_made_by_removing_what_nobody_wants() {
    let mut layout = TestLayout::new();
    let one = layout.add(
        "one",
        &Image::new().layer(layer(1, 400_000, Compression::None)),
    );
    let two = layout.add(
        "two",
        &Image::new().layer(layer(2, 400_000, Compression::None)),
    );
    let server = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let mut small = settings(folder.path());
    small.max_bytes = Some(1_100_000);
    // Documents of unknown size reserve what documents may have.
    small.documents.document_bytes = 64 << 10;
    let (store, _) = open_with(small).await;
    let source = url_source(&[&server.url()]);
    store.install(one, source.clone(), None).await.unwrap();
    let sent = server.sent();
    let error = store.install(two, source.clone(), None).await.unwrap_err();
    let InstallError::NoSpace { limit, missing, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(limit, SpaceLimit::Setting(1_100_000));
    assert!(missing > 0);
    assert!(
        server.sent() - sent < 10_000,
        "it was downloaded all the same"
    );
    assert!(
        store.installed(one).await.unwrap().is_some(),
        "what is wanted stays"
    );

    store
        .keep(&BTreeSet::from([two]), SystemTime::now())
        .await
        .unwrap();
    store.install(two, source, None).await.unwrap();
    assert_eq!(store.installed(one).await.unwrap(), None);
}

#[tokio::test]
async fn layers_that_grow_at_the_same_time_share_what_there_is() {
    const MIB: usize = 1 << 20;
    let mut layout = TestLayout::new();
    let mut image = Image::new();
    for number in 0..8_u8 {
        // A thousand times what comes.
        let large = LayerBuilder::new().file("large", vec![number; 2 * MIB], 0o644);
        image = image.layer(large.build(Compression::Gzip).unwrap());
    }
    let digest = layout.add("all", &image);
    let at_most = async |max_bytes: u64| {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path());
        settings.max_bytes = Some(max_bytes);
        settings.parallel = 8;
        settings.documents.document_bytes = 64 << 10;
        let (store, _) = open_with(settings).await;
        let mut installing = pin!(store.install(digest, layout.source(), None));
        let mut most = 0;
        let mut look = || {
            let usage = store.usage();
            most = most.max(usage.used_bytes + usage.reserved_bytes);
            usage.reserved_bytes
        };
        let installed = loop {
            let turn = tokio::time::timeout(Duration::from_millis(1), &mut installing);
            if let Ok(installed) = turn.await {
                break installed;
            }
            look();
        };
        // Those that were being unpacked go on to their ends.
        poll_until(Duration::from_secs(60), "nothing is unpacked", || {
            look() == 0
        });
        assert!(most <= max_bytes, "{most} of {max_bytes}");
        installed
    };
    let installed = at_most(20 * MIB as u64).await;
    assert_eq!(installed.unwrap().layers.len(), 8);
    let error = at_most(5 * MIB as u64).await.unwrap_err();
    // Whichever of them was first to want too much.
    let is_short = match &error {
        InstallError::NoSpace { .. } => true,
        InstallError::Unpack { source, .. } => {
            let rule = std::error::Error::source(&**source);
            rule.is_some_and(|rule| rule.to_string().contains("no space left"))
        }
        _ => false,
    };
    assert!(is_short, "{error:?}");
}

#[tokio::test]
async fn removed_items_stay_for_their_time_and_go_then_and_nothing_else_does() {
    let mut layout = TestLayout::new();
    let shared = layer(5, 10_000, Compression::Gzip);
    let old = layout.add(
        "old",
        &Image::new()
            .layer(shared.clone())
            .layer(layer(6, 10_000, Compression::Gzip)),
    );
    let new = layout.add("new", &Image::new().layer(shared).entrypoint(["/new"]));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    store.install(old, layout.source(), None).await.unwrap();
    store.install(new, layout.source(), None).await.unwrap();
    let now = SystemTime::now();
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    assert!(
        store.collect(now + 100 * month).await.unwrap().is_empty(),
        "everything is wanted at first"
    );
    store.keep(&BTreeSet::from([new]), now).await.unwrap();
    assert!(
        store
            .collect(now + month - Duration::from_secs(2))
            .await
            .unwrap()
            .is_empty()
    );
    let gone = store.collect(now + month).await.unwrap();
    assert_eq!(gone.items, BTreeSet::from([old]));
    assert_eq!(gone.layers.len(), 1);
    assert!(store.installed(old).await.unwrap().is_none());
    let kept = store.installed(new).await.unwrap().unwrap();
    assert_eq!(layer_content(&kept.layers[0], 5), noise(5, 10_000));
    drop(store);
    // And it stays so.
    let (store, report) = open_with(settings(folder.path())).await;
    assert_eq!(report, Default::default());
    assert_eq!(store.inventory().layers.len(), 1);
}

#[tokio::test]
async fn damage_is_found_quarantined_and_repaired() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 50_000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    let clean = store.check(u64::MAX).await.unwrap();
    assert_eq!((clean.checked, clean.damaged.len()), (6, 0));

    let file = installed.layers[1].join("opt/data-2");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[40_000] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let config = installed.manifest.config.digest;
    let blob = folder
        .path()
        .join("images/blobs/sha256")
        .join(config.to_hex());
    std::fs::write(&blob, "{}").unwrap();
    let found = store.check(u64::MAX).await.unwrap();
    let layer = installed.manifest.layers[1].digest;
    assert_eq!(
        found.damaged.iter().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from([config, layer])
    );
    assert_eq!(found.items, BTreeSet::from([digest]));
    assert_eq!(
        store.installed(digest).await.unwrap(),
        None,
        "what is damaged is not there"
    );
    assert_eq!(store.inventory().quarantined.len(), 2);

    let repaired = store.install(digest, layout.source(), None).await.unwrap();
    assert_eq!(repaired, installed);
    assert_eq!(layer_content(&repaired.layers[1], 2), noise(2, 50_000));
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
}

#[tokio::test]
async fn a_second_process_is_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, _) = open_with(settings(folder.path())).await;
    let other = folder.path().join("other");
    let config =
        muster_store::StoreConfig::new(other.join("x.db"), "t", muster_store::OnDamage::StartEmpty)
            .schema(&muster_image::SCHEMA);
    let db = muster_store::Store::open(&config).unwrap().store;
    let error = muster_image::ImageStore::open(settings(folder.path()), db)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is in use by another process"),
        "{error}"
    );
}

/// Whiteouts of an upper layer survive into the unpacked folder, where an overlay mount looks for them.
#[tokio::test]
async fn whiteouts_are_there_for_the_overlay() {
    muster_lab::require!(Root);
    use std::os::unix::fs::FileTypeExt;
    let mut layout = TestLayout::new();
    let upper = LayerBuilder::new()
        .folder("opt", 0o755)
        .whiteout("opt/data-1")
        .build(Compression::Gzip)
        .unwrap();
    let digest = layout.add(
        "web",
        &Image::new()
            .layer(layer(1, 10, Compression::Gzip))
            .layer(upper),
    );
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    let whiteout = installed.layers[1]
        .join("opt/data-1")
        .symlink_metadata()
        .unwrap();
    assert!(whiteout.file_type().is_char_device());
}

#[tokio::test]
async fn https_needs_a_server_that_is_trusted() {
    use muster_tls::rustls::{self, RootCertStore};
    use muster_tls::rustls_pki_types::pem::PemObject;
    use muster_tls::rustls_pki_types::{CertificateDer, PrivateKeyDer};
    let keys = tempfile::tempdir().unwrap();
    let pki = muster_lab::pki::Pki::new("unit-7").unwrap();
    let issued = pki
        .issue(&muster_lab::pki::CertSpec::node("main", "cm").localhost())
        .unwrap();
    let files = issued.write_to(keys.path(), "cm").unwrap();
    let certs = CertificateDer::pem_file_iter(&files.cert)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .unwrap();
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 100_000));
    let server = FileServer::start_tls(layout.blobs(), tls);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let error = store
        .install(digest, url_source(&[&server.url()]), None)
        .await
        .unwrap_err();
    assert!(matches!(error, InstallError::Fetch { .. }), "{error:?}");
    assert_eq!(server.asked(), [], "nothing is asked of a stranger");

    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap())
        .unwrap();
    let trusting = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let http = HttpSettings {
        tls: Some(trusting),
        ..HttpSettings::default()
    };
    let urls = common::Servers(vec![server.url()]);
    let source = UrlSource::new(Arc::new(urls), http).unwrap();
    let installed = store.install(digest, Arc::new(source), None).await.unwrap();
    assert_eq!(layer_content(&installed.layers[0], 1), noise(1, 100_000));
}

#[tokio::test]
async fn with_compressed_layers_kept_a_damaged_layer_is_made_anew_without_a_download() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 60_000));
    let folder = tempfile::tempdir().unwrap();
    let mut keeping = settings(folder.path());
    keeping.keep_layer_blobs = true;
    let (store, _) = open_with(keeping).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    assert_eq!(store.inventory().blobs.len(), 6);
    std::fs::write(installed.layers[0].join("opt/more"), "damage").unwrap();
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged.len(), 1);
    // A source that has nothing.
    let nothing = FileServer::start(Default::default(), Faults::default());
    let repaired = store
        .install(digest, url_source(&[&nothing.url()]), None)
        .await
        .unwrap();
    assert_eq!(repaired, installed);
    assert!(!installed.layers[0].join("opt/more").exists());
    assert_eq!(nothing.asked(), []);

    // With the compressed form damaged as well, there is a download after all.
    std::fs::write(installed.layers[0].join("opt/more"), "damage").unwrap();
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged.len(), 1);
    let blob = folder
        .path()
        .join("images/blobs/sha256")
        .join(installed.manifest.layers[0].digest.to_hex());
    std::fs::write(blob, "damage").unwrap();
    let repaired = store.install(digest, layout.source(), None).await.unwrap();
    assert_eq!(layer_content(&repaired.layers[0], 1), noise(1, 60_000));
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
}

#[tokio::test]
async fn a_components_image_stays_as_it_came() {
    let kind = "application/vnd.aos.image.component.full.v1+squashfs";
    let mut layout = TestLayout::new();
    let component = muster_lab::oci::Layer::from_tar_bytes(kind, noise(3, 5000));
    let image = Image::new()
        .layer(component)
        .edit_config(|config| *config = serde_json::json!({}));
    let digest = layout.add("boot", &image);
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    assert!(installed.layers.is_empty());
    assert_eq!(
        std::fs::read(&installed.components[0]).unwrap(),
        noise(3, 5000)
    );
}

/// Installing, wanting, removing and checking at the same time: whatever comes first, nothing is believed present that is not.
#[tokio::test(flavor = "multi_thread")]
async fn installation_and_removal_at_the_same_time_leave_a_sound_store() {
    let mut layout = TestLayout::new();
    let shared = layer(5, 20_000, Compression::Gzip);
    let own = |seed| {
        Image::new()
            .layer(shared.clone())
            .layer(layer(seed, 20_000, Compression::Zstd))
    };
    let items = [
        layout.add("one", &own(6)),
        layout.add("two", &own(7)),
        layout.add("three", &own(8)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let later = SystemTime::now() + Duration::from_secs(365 * 24 * 60 * 60);
    let mut work = tokio::task::JoinSet::new();
    for (number, item) in items.into_iter().enumerate() {
        let (store, source) = (store.clone(), layout.source());
        work.spawn(async move {
            for _ in 0..15 {
                store.install(item, source.clone(), None).await.unwrap();
                let others = items.into_iter().filter(|other| *other != item);
                store
                    .keep(&others.take(number).collect(), SystemTime::now())
                    .await
                    .unwrap();
                store.collect(later).await.unwrap();
                store.check(u64::MAX).await.unwrap();
            }
        });
    }
    while let Some(done) = work.join_next().await {
        done.unwrap();
    }
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
    assert_eq!(store.inventory().quarantined.len(), 0, "no false alarm");
    assert_eq!(store.usage().reserved_bytes, 0);
    for item in items {
        let installed = store.install(item, layout.source(), None).await.unwrap();
        assert_eq!(layer_content(&installed.layers[0], 5), noise(5, 20_000));
    }
    drop(store);
    let (_store, report) = open_with(settings(folder.path())).await;
    assert_eq!(report, Default::default());
}
