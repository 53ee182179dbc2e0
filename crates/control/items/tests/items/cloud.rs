//! Items of the cloud: signatures, encryption, servers that misbehave.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::domain::Digest;
use muster_desired::{ImageSource, Item, Trust};
use muster_items::{Items, ItemsSettings};
use tempfile::TempDir;

use crate::rig::{TestLayout, image, item, kept, open_with, settings};
use crate::server::{Faults, FileServer};
use crate::test_cloud::{ALL, KEY, Protection, TestCloud, cloud, sign, signers, upload};

/// Settings that take plain HTTP and unsigned blobs, for tests of other things.
fn lenient(folder: &Path) -> ItemsSettings {
    let mut settings = settings(folder);
    settings.plain_http = true;
    settings.signatures.accept_unsigned = true;
    settings
}

fn of_cloud(index: Digest) -> Item {
    item("web", "1.0.0", ImageSource::Cloud { index })
}

/// One image, protected one way, on a server.
struct Scene {
    layout: TestLayout,
    web: Item,
    server: FileServer,
    cloud: Arc<TestCloud>,
    folder: TempDir,
    largest: Digest,
}

impl Scene {
    fn new(protection: Protection, bytes: usize, faults: Faults) -> Self {
        let (layout, digest) = TestLayout::of(&image(1, bytes));
        let (files, infos) = upload(&layout, |_| protection);
        let server = FileServer::start(files, faults);
        let cloud = cloud(infos, &[&server.url()]);
        let largest = layout.blobs().into_iter();
        let largest = largest.max_by_key(|blob| layout.blob(blob).len()).unwrap();
        Self {
            web: of_cloud(digest),
            server,
            cloud,
            folder: tempfile::tempdir().unwrap(),
            layout,
            largest,
        }
    }

    async fn open(&self) -> Items {
        open_with(lenient(self.folder.path()), Some(self.cloud.link())).await
    }

    async fn refused(&self) -> String {
        let items = self.open().await;
        let error = items.download(&self.web, &Trust::default(), None).await;
        error.unwrap_err().fault().message
    }
}

#[tokio::test]
async fn an_item_comes_signed_and_encrypted_from_the_second_url() {
    muster_lab::require!(Tool("openssl"));
    let mut layout = TestLayout::new();
    layout.add("here", &image(1, 100_000).platform("amd64", "linux"));
    layout.add("there", &image(2, 100_001).platform("arm64", "linux"));
    let index = layout.index();
    let (files, infos) = upload(&layout, |number| ALL[number % ALL.len()]);
    let empty = FileServer::start(BTreeMap::new(), Faults::default());
    let full = FileServer::start(files, Faults::default());
    let cloud = cloud(infos, &[&empty.url(), &full.url()]);
    let signers = signers();
    sign(&cloud, &layout, &signers);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.plain_http = true;
    settings.signatures.roots = vec![signers.root()];
    let items = open_with(settings, Some(cloud.link())).await;

    let web = of_cloud(index);
    items.download(&web, &signers.trust(), None).await.unwrap();
    assert_eq!(kept(&items), layout.blobs());
    assert_eq!(items.describe(&web).await.unwrap().images.len(), 2);
    for digest in layout.blobs() {
        assert_eq!(
            cloud.told(&digest),
            ["interrupted", "started", "finished"],
            "{digest}"
        );
    }
    let events = cloud.events.lock().unwrap();
    assert!(!format!("{events:?}").contains("secret=abc"));
    drop(events);
    assert!(!format!("{items:?} {cloud:?}").contains("the key that"));
    drop(items);
    assert_nowhere(folder.path(), &KEY);
}

/// Nothing on disk has these bytes in it.
fn assert_nowhere(folder: &Path, bytes: &[u8]) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_nowhere(&path, bytes);
        } else {
            let content = fs::read(&path).unwrap();
            let is_there = content.windows(bytes.len()).any(|it| it == bytes);
            assert!(!is_there, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_download_that_is_cut_goes_on_by_range() {
    for protection in ALL {
        // Every answer ends after 40,001 bytes, so the largest blob needs several.
        let cut = Faults {
            cut: Some((1000, 40_001)),
            ..Faults::default()
        };
        let scene = Scene::new(protection, 200_000, cut);
        let items = scene.open().await;
        let done = items.download(&scene.web, &Trust::default(), None).await;
        done.unwrap();
        assert_eq!(kept(&items), scene.layout.blobs());
        let total: u64 = scene
            .layout
            .blobs()
            .iter()
            .map(|it| scene.layout.blob(it).len() as u64)
            .sum();
        let again = scene.server.sent().saturating_sub(total);
        // A block before each part, padding and tags.
        assert!(again < 1000, "{protection:?}: {again} bytes came twice");
        let told = scene.cloud.told(&scene.largest);
        assert!(told.len() >= 10, "{told:?}");
        assert_eq!(told[..2], ["started", "interrupted"]);
        assert_eq!(told.last(), Some(&"finished"));
    }
}

#[tokio::test]
async fn a_server_without_ranges_gives_all_of_it_again() {
    for protection in ALL {
        let cut = Faults {
            cut: Some((1, 150_000)),
            ignore_ranges: true,
            ..Faults::default()
        };
        let scene = Scene::new(protection, 200_000, cut);
        let items = scene.open().await;
        let done = items.download(&scene.web, &Trust::default(), None).await;
        done.unwrap();
        assert_eq!(kept(&items), scene.layout.blobs());
    }
}

#[tokio::test]
async fn a_url_that_is_no_longer_valid_makes_the_cloud_be_asked_again() {
    let forbid = Faults {
        forbid: 2,
        ..Faults::default()
    };
    let scene = Scene::new(Protection::Gcm, 1000, forbid);
    let items = scene.open().await;
    items
        .download(&scene.web, &Trust::default(), None)
        .await
        .unwrap();
    let asked = scene.cloud.asked.lock().unwrap().len();
    assert_eq!(asked, scene.layout.blobs().len() + 2);
}

#[tokio::test]
async fn a_cloud_that_is_away_is_an_error_and_no_trouble_for_what_is_there() {
    let scene = Scene::new(Protection::Cbc, 1000, Faults::default());
    let infos = std::mem::take(&mut *scene.cloud.infos.lock().unwrap());
    let message = scene.refused().await;
    assert!(message.contains("the cloud is away"), "{message}");
    assert_eq!(scene.cloud.asked.lock().unwrap().len(), 3, "three tries");

    *scene.cloud.infos.lock().unwrap() = infos;
    let items = scene.open().await;
    items
        .download(&scene.web, &Trust::default(), None)
        .await
        .unwrap();
    scene.cloud.infos.lock().unwrap().clear();
    items
        .download(&scene.web, &Trust::default(), None)
        .await
        .unwrap();
    drop(items);
    let items = scene.open().await;
    items
        .download(&scene.web, &Trust::default(), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cloud_that_does_not_answer_is_given_up() {
    #[derive(Debug)]
    struct Silent;
    impl muster_items::BlobInfos for Silent {
        fn info(
            &self,
            _: Digest,
        ) -> futures_util::future::BoxFuture<
            '_,
            Result<muster_items::BlobInfo, muster_items::BoxError>,
        > {
            Box::pin(std::future::pending())
        }
    }
    let scene = Scene::new(Protection::None, 1000, Faults::default());
    let mut settings = lenient(scene.folder.path());
    settings.answer = Duration::from_millis(20);
    let mut link = scene.cloud.link();
    link.infos = Arc::new(Silent);
    let items = open_with(settings, Some(link)).await;
    let error = items.download(&scene.web, &Trust::default(), None).await;
    let message = error.unwrap_err().fault().message;
    assert!(message.contains("did not say within"), "{message}");
}

#[tokio::test]
async fn what_is_not_signed_is_not_even_asked_for() {
    muster_lab::require!(Tool("openssl"));
    let signers = signers();
    let strict = |scene: &Scene, roots: Vec<Vec<u8>>| {
        let mut settings = lenient(scene.folder.path());
        settings.signatures.accept_unsigned = false;
        settings.signatures.roots = roots;
        open_with(settings, Some(scene.cloud.link()))
    };
    let scene = Scene::new(Protection::Cbc, 1000, Faults::default());
    let refused = async |roots: Vec<Vec<u8>>, trust: &Trust| {
        let items = strict(&scene, roots).await;
        let error = items.download(&scene.web, trust, None).await.unwrap_err();
        assert_eq!(scene.server.asked(), [], "nothing was asked for");
        assert_eq!(kept(&items), []);
        error.fault().message
    };
    let trust = signers.trust();
    let message = refused(vec![signers.root()], &trust).await;
    assert!(message.contains("nobody has signed it"), "{message}");
    sign(&scene.cloud, &scene.layout, &signers);
    let message = refused(Vec::new(), &trust).await;
    assert!(message.contains("no authority is configured"), "{message}");
    let message = refused(vec![signers.root()], &Trust::default()).await;
    assert!(message.contains("has no chain"), "{message}");
    let stranger = crate::signer::Signers::new().root();
    let message = refused(vec![stranger], &trust).await;
    assert!(message.contains("is not trusted"), "{message}");
    // Signatures of other blobs.
    {
        let mut infos = scene.cloud.infos.lock().unwrap();
        let signs: Vec<_> = infos.values().map(|info| info.sign.clone()).collect();
        let moved = signs.iter().skip(2).chain(&signs[..2]);
        for (info, sign) in infos.values_mut().zip(moved) {
            info.sign = sign.clone();
        }
    }
    let message = refused(vec![signers.root()], &trust).await;
    assert!(message.contains("is wrong"), "{message}");
}

#[tokio::test]
async fn what_the_cloud_says_wrongly_is_refused_and_leaves_nothing() {
    for protection in [Protection::Cbc, Protection::Gcm] {
        let scene = Scene::new(protection, 1000, Faults::default());
        scene.cloud.edit(|info| {
            if let Some(decrypt) = &mut info.decrypt {
                decrypt.key[0] ^= 1;
            }
        });
        let message = scene.refused().await;
        assert!(!message.contains("the key that"), "{message}");
        let items = scene.open().await;
        assert_eq!(kept(&items), []);
        assert!(
            scene.server.asked().len() < 20,
            "{:?}",
            scene.server.asked()
        );
    }

    let scene = Scene::new(Protection::Gcm, 1000, Faults::default());
    scene.cloud.edit(|info| {
        if let Some(decrypt) = &mut info.decrypt {
            decrypt.key.truncate(16);
        }
    });
    assert!(scene.refused().await.contains("the key has 16 bytes"));
    scene.cloud.edit(|info| info.size = u64::MAX);
    assert!(scene.refused().await.contains("cannot be decrypted"));
    scene.cloud.edit(|info| info.decrypt = None);
    assert!(scene.refused().await.contains("another digest"));
    assert_eq!(scene.server.asked(), []);

    let scene = Scene::new(Protection::None, 1000, Faults::default());
    let file = format!(
        "file://{}",
        scene.layout.path().join("index.json").display()
    );
    scene
        .cloud
        .edit(|info| info.urls = vec![file.clone(), "ftp://a/b".into(), String::new()]);
    assert!(scene.refused().await.contains("only https is"));
    scene.cloud.edit(|info| info.urls.clear());
    assert!(scene.refused().await.contains("none of the 0 URLs"));
}

#[tokio::test]
async fn plain_http_needs_a_word_that_this_is_fine() {
    let scene = Scene::new(Protection::Gcm, 1000, Faults::default());
    let mut settings = lenient(scene.folder.path());
    settings.plain_http = false;
    let items = open_with(settings, Some(scene.cloud.link())).await;
    let error = items.download(&scene.web, &Trust::default(), None).await;
    let message = error.unwrap_err().fault().message;
    assert!(message.contains("only https is"), "{message}");
    assert_eq!(scene.server.asked(), []);
}

#[tokio::test]
async fn a_server_that_lies_costs_tries_and_nothing_else() {
    for protection in ALL {
        let corrupt = Faults {
            corrupt: Some(1),
            ..Faults::default()
        };
        let scene = Scene::new(protection, 1000, corrupt);
        scene.refused().await;
        let items = scene.open().await;
        assert_eq!(kept(&items), []);
        scene.server.set(Faults::default());
        items
            .download(&scene.web, &Trust::default(), None)
            .await
            .unwrap();
        assert_eq!(kept(&items), scene.layout.blobs());
    }
}

#[tokio::test]
async fn a_download_that_is_dropped_is_paused_and_goes_on_later() {
    for protection in ALL {
        let scene = Scene::new(protection, 3 << 20, Faults::default());
        let items = scene.open().await;
        let (sender, mut progress) = tokio::sync::watch::channel(muster_items::Progress::default());
        let trust = Trust::default();
        {
            let download = items.download(&scene.web, &trust, Some(sender));
            let enough = progress.wait_for(|it| it.received_bytes > 1 << 20);
            tokio::select! {
                done = download => panic!("it was too fast: {done:?}"),
                enough = enough => drop(enough.unwrap()),
            }
        }
        assert_eq!(scene.cloud.told(&scene.largest), ["started", "paused"]);
        let before = scene.server.asked().len();
        items.download(&scene.web, &trust, None).await.unwrap();
        assert_eq!(kept(&items), scene.layout.blobs());
        let asked = scene.server.asked();
        let (_, from) = &asked[before];
        assert!(*from > 1 << 19, "{protection:?} went on at {from}");
    }
}

/// Lists as authorities publish them.
fn publish(file: &Path, lists: &[Vec<u8>]) {
    let pem = lists.iter().map(|der| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n")
    });
    fs::write(file, pem.collect::<String>()).unwrap();
}

#[tokio::test]
async fn revocation_lists_are_read_anew_for_every_item_and_must_be_there() {
    muster_lab::require!(Tool("openssl"));
    let signers = signers();
    let scene = Scene::new(Protection::Cbc, 1000, Faults::default());
    sign(&scene.cloud, &scene.layout, &signers);
    let file = scene.folder.path().join("lists.pem");
    let mut settings = lenient(scene.folder.path());
    settings.signatures.accept_unsigned = false;
    settings.signatures.roots = vec![signers.root()];
    settings.revocation_list_files = vec![file.clone()];
    let items = open_with(settings, Some(scene.cloud.link())).await;
    let refused = async || {
        let error = items.download(&scene.web, &signers.trust(), None).await;
        assert_eq!(scene.server.asked(), [], "nothing was asked for");
        error.unwrap_err().fault().message
    };
    let message = refused().await;
    assert!(message.contains("lists.pem"), "{message}");
    fs::write(&file, "no list").unwrap();
    let message = refused().await;
    assert!(message.contains("no revocation list in it"), "{message}");
    publish(
        &file,
        &[
            signers.list("root", &["middle"]),
            signers.list("middle", &[]),
        ],
    );
    let message = refused().await;
    assert!(message.contains("CertRevoked"), "{message}");
    publish(
        &file,
        &[signers.list("root", &[]), signers.list("middle", &[])],
    );
    items
        .download(&scene.web, &signers.trust(), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_the_disk_damages_is_got_again_without_a_new_signature() {
    let scene = Scene::new(Protection::Gcm, 5000, Faults::default());
    let items = scene.open().await;
    items
        .download(&scene.web, &Trust::default(), None)
        .await
        .unwrap();
    drop(items);
    let mut settings = lenient(scene.folder.path());
    settings.signatures.accept_unsigned = false;
    let items = open_with(settings, Some(scene.cloud.link())).await;
    let file = items
        .blob_folder()
        .join("sha256")
        .join(scene.largest.to_hex());
    let mut content = fs::read(&file).unwrap();
    content[100] ^= 1;
    fs::write(&file, content).unwrap();

    let deadline = Instant::now() + Duration::from_secs(60);
    let repaired = async {
        while fs::read(&file).ok() != Some(scene.layout.blob(&scene.largest)) {
            assert!(Instant::now() < deadline, "it is not repaired");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = items.maintain() => unreachable!("it has no end"),
        () = repaired => {}
    }
}
