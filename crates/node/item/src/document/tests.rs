use proptest::prelude::*;

use super::*;

const HEX: &str = "5b0bcabd1ed22e9fb1310cf6c2dec7cdef19f0ad69efa1f392e94a4333501270";

fn descriptor(kind: &MediaType, size: u64) -> String {
    let name = kind.name();
    format!(r#""mediaType": "{name}", "digest": "sha256:{HEX}", "size": {size}"#)
}

fn entry(size: u64, platform: &str) -> String {
    format!(
        r#"{{{}, "platform": {platform}}}"#,
        descriptor(&MediaType::Manifest, size)
    )
}

fn read(json: &str) -> Result<Document, ReadDocumentError> {
    Document::read(json.as_bytes(), &Limits::default())
}

fn index(entries: &[String]) -> Index {
    let json = format!(r#"{{"manifests": [{}]}}"#, entries.join(","));
    match read(&json).unwrap() {
        Document::Index(index) => index,
        other => panic!("{other:?}"),
    }
}

fn manifest(json: &str) -> Manifest {
    match read(json).unwrap() {
        Document::Manifest(manifest) => *manifest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_manifest_has_its_item_configuration_and_layers_in_order() {
    let [config, item, low, high] = [
        (MediaType::ImageConfig, 1),
        (MediaType::ItemConfig, 2),
        (
            MediaType::from_name("application/vnd.docker.image.rootfs.diff.tar.gzip"),
            3,
        ),
        (
            MediaType::from_name("application/vnd.oci.image.layer.v1.tar+zstd"),
            4,
        ),
    ]
    .map(|(kind, size)| descriptor(&kind, size));
    let read = manifest(&format!(
        r#"{{"schemaVersion": 2, "config": {{{config}}}, "aosItemConfig": {{{item}}}, "layers": [{{{low}}}, {{{high}}}]}}"#
    ));
    let sizes: Vec<u64> = read.blobs().map(|blob| blob.size).collect();
    assert_eq!(sizes, [1, 2, 3, 4]);
    assert_eq!(read.item_config.unwrap().media_type, MediaType::ItemConfig);
}

#[test]
fn the_best_platform_is_chosen_and_the_first_of_equals() {
    let index = index(&[
        entry(1, r#"{"os": "unknown", "architecture": "unknown"}"#),
        format!("{{{}}}", descriptor(&MediaType::Manifest, 2)),
        entry(
            3,
            r#"{"os": "linux", "architecture": "arm", "variant": "v6"}"#,
        ),
        entry(
            4,
            r#"{"os": "linux", "architecture": "arm", "variant": "v7"}"#,
        ),
        entry(
            5,
            r#"{"OS": "linux", "Architecture": "arm", "variant": "v7"}"#,
        ),
        entry(6, r#"{"os": "linux", "architecture": "arm64"}"#),
    ]);
    let size = |variant| {
        let node = Platform::new("linux", "arm").with_variant(variant);
        index.select(&node).map(|chosen| chosen.size)
    };
    assert_eq!(size("v7"), Ok(4));
    assert_eq!(size("v8"), Ok(4));
    assert_eq!(size("v6"), Ok(3));
    // Nothing fits: the one that does not say what it is for.
    assert_eq!(size("v5"), Ok(2));
}

#[test]
fn statements_about_images_are_nobodys_choice() {
    let attestation = |size, platform: &str| {
        let annotations = r#""annotations": {"vnd.docker.reference.type": "attestation-manifest"}"#;
        let descriptor = descriptor(&MediaType::Manifest, size);
        format!("{{{descriptor}, {annotations}{platform}}}")
    };
    let linux = r#"{"os": "linux", "architecture": "arm64"}"#;
    let index = index(&[
        attestation(1, ""),
        attestation(2, &format!(r#", "platform": {linux}"#)),
        entry(3, r#"{"os": "unknown", "architecture": "unknown"}"#),
        entry(4, linux),
    ]);
    let offered = index.manifests.iter().map(IndexEntry::is_offered);
    assert_eq!(offered.collect::<Vec<_>>(), [false, false, false, true]);
    let chosen = index.select(&Platform::new("linux", "arm64"));
    assert_eq!(chosen.map(|it| it.size), Ok(4));
    let error = index.select(&Platform::new("linux", "amd64")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no manifest of the index is for linux/amd64; it has linux/arm64"
    );
}

#[test]
fn nothing_for_the_platform_is_said_with_what_there_is() {
    let index = index(&[entry(
        1,
        r#"{"os": "linux", "architecture": "arm64", "variant": "v9"}"#,
    )]);
    let error = index.select(&Platform::new("linux", "amd64")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no manifest of the index is for linux/amd64; it has linux/arm64/v9"
    );
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let config = descriptor(&MediaType::ImageConfig, 1);
    let refused = [
        format!(r#"{{"manifests": [], "layers": [], "config": {{{config}}}}}"#),
        format!(r#"{{"manifests": [], "Layers": [], "config": {{{config}}}}}"#),
        r#"{"mediaType": "application/vnd.oci.image.manifest.v1+json", "manifests": []}"#
            .to_owned(),
        format!(
            r#"{{"mediaType": "application/vnd.oci.image.index.v1+json", "config": {{{config}}}, "layers": []}}"#
        ),
        r#"{"manifests": [], "manifests": []}"#.to_owned(),
        r#"{"manifests": [], "Manifests": []}"#.to_owned(),
        r#"{"schemaVersion": 1, "manifests": []}"#.to_owned(),
    ];
    for json in &refused {
        assert!(read(json).is_err(), "accepted {json}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let config = descriptor(&MediaType::ImageConfig, 1);
    let cases = [
        (
            "[]".to_owned(),
            "the index or manifest: (document): is a list, expected an object",
        ),
        ("{}".to_owned(), "the manifest: config: missing"),
        (
            format!(
                r#"{{"config": {{{config}}}, "layers": [{{{config}}}, {{"digest": "md5:x", "size": 1}}]}}"#
            ),
            "the manifest: layers[1].digest: \"md5:x\" is refused (digest: \"md5:x\" is not \
             sha256:<64 hex> or sha512:<128 hex> in lower case)",
        ),
        (
            format!(
                r#"{{"config": {{{config}}}, "layers": [{{"digest": "sha256:{HEX}", "size": -1}}]}}"#
            ),
            "the manifest: layers[0].size: -1 is not a whole number from 0 on",
        ),
        (
            r#"{"manifests": [{"size": 1}]}"#.to_owned(),
            "the index: manifests[0].digest: missing",
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(read(&json).unwrap_err().to_string(), expected);
    }
}

#[test]
fn limits_of_size_and_layers_hold() {
    let config = descriptor(&MediaType::ImageConfig, 1);
    let json = format!(r#"{{"config": {{{config}}}, "layers": [{{{config}}}, {{{config}}}]}}"#);
    let with = |limits| Document::read(json.as_bytes(), &limits).map(|_| ());
    let base = Limits {
        document_bytes: json.len(),
        layers: 2,
        ..Limits::default()
    };
    assert_eq!(with(base), Ok(()));
    let problem = with(Limits { layers: 1, ..base }).unwrap_err().to_string();
    assert_eq!(
        problem,
        "the manifest: layers: has 2 entries, and at most 1 are allowed"
    );
    let problem = with(Limits {
        document_bytes: json.len() - 1,
        ..base
    });
    assert!(matches!(problem, Err(ReadDocumentError::TooLarge { .. })));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = Document::read(&bytes, &Limits::default());
    }

    /// The law of choosing: nothing that suits better was passed over, and nothing that suits as well stood before.
    #[test]
    fn no_better_manifest_is_passed_over(
        offers in prop::collection::vec((prop::sample::select(vec!["amd64", "arm", "arm64"]), 0_u32..9), 0..12),
        own in (prop::sample::select(vec!["amd64", "arm", "arm64"]), 0_u32..9),
    ) {
        let platform = |(architecture, level): &(&str, u32)| {
            let variant = if *level == 0 { String::new() } else { format!("v{level}") };
            Platform::new("linux", *architecture).with_variant(variant)
        };
        let manifests = offers.iter().enumerate().map(|(size, offer)| IndexEntry {
            descriptor: Descriptor {
                media_type: MediaType::Manifest,
                digest: muster_api::domain::Digest::from_sha256([0; 32]),
                size: size as u64,
            },
            platform: Some(platform(offer)),
            name: None,
            refers: false,
        });
        let index = Index { manifests: manifests.collect() };
        let node = platform(&own);
        let fits: Vec<_> = offers.iter().map(|offer| node.fit(&platform(offer))).collect();
        let best = fits.iter().flatten().max();
        let expected = best.and_then(|best| fits.iter().position(|fit| fit.as_ref() == Some(best)));
        prop_assert_eq!(index.select(&node).ok().map(|chosen| chosen.size), expected.map(|at| at as u64));
    }
}
