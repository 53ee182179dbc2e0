use std::fs;
use std::path::Path;

use super::*;
use crate::source::LayoutSource;

fn order(content: Content, output: &Path) -> BuildOrder {
    BuildOrder {
        content,
        run: RunSettings::default(),
        item_config: Some(br#"{"hostname": "web"}"#.to_vec()),
        platform: Platform::of_this_program(),
        format: LayerFormat::TarGzip,
        name: Some("web".to_owned()),
        output: output.to_owned(),
        as_archive: false,
    }
}

fn content(folder: &Path) -> Content {
    let root = folder.join("rootfs");
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("usr/bin/run"), "#!/bin/sh\n").unwrap();
    fs::write(root.join("a.txt"), vec![b'x'; 100_000]).unwrap();
    fs::write(root.join("a/b/").join("n".repeat(200)), "long").unwrap();
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    Content::Folder(root)
}

#[test]
fn the_same_input_gives_the_same_image_in_a_folder_and_in_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for (round, format) in [LayerFormat::TarGzip, LayerFormat::TarZstd, LayerFormat::Tar]
        .into_iter()
        .enumerate()
    {
        for again in 0..2 {
            // Other times and another order of creation.
            let input = folder.path().join(format!("input-{round}-{again}"));
            let output = folder.path().join(format!("output-{round}-{again}"));
            let mut order = order(content(&input), &output);
            order.format = format;
            order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
            order.as_archive = again == 1;
            let built = build(&order).unwrap();
            let layout = LayoutSource::open(&output).unwrap();
            assert_eq!(layout.image(Some("web")).unwrap(), built.digest);
            assert_eq!(validate(&layout, built.digest), []);
            found.push(built);
        }
        assert_eq!(found[2 * round], found[2 * round + 1]);
    }
    let leftovers = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with(".muster")
    });
    assert_eq!(leftovers.count(), 0);
}

#[test]
fn a_program_becomes_the_entry_point() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hello");
    fs::write(&program, "ELF").unwrap();
    let output = folder.path().join("out");
    let content = Content::Binary {
        program,
        path: None,
    };
    build(&order(content, &output)).unwrap();
    let layout = LayoutSource::open(&output).unwrap();
    let [image] = inspect(&layout, None).unwrap().try_into().unwrap();
    assert_eq!(image.command, ["/bin/hello"]);
    assert_eq!(image.item_config.unwrap()["hostname"], "web");
    assert_eq!(image.name.as_deref(), Some("web"));
    assert_eq!(image.layers.len(), 1);
}

#[test]
fn an_image_of_a_layout_gets_an_item_configuration_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (
        folder.path().join("first"),
        folder.path().join("second.tar"),
    );
    let mut plain = order(content(folder.path()), &first);
    plain.item_config = None;
    plain.run.env = vec!["A=1".to_owned()];
    plain.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&plain).unwrap();
    let layout = LayoutSource::open(&first).unwrap();
    let [warning] = validate(&layout, built.digest).try_into().unwrap();
    assert_eq!(
        (warning.severity, warning.text.as_str()),
        (Severity::Warning, "it has no item configuration")
    );

    let again = Content::Layout {
        layout: first,
        name: None,
    };
    let mut again = order(again, &second);
    again.as_archive = true;
    let rebuilt = build(&again).unwrap();
    assert_eq!(rebuilt.layers, built.layers);
    assert_ne!(rebuilt.digest, built.digest);
    let layout = LayoutSource::open(&second).unwrap();
    assert_eq!(validate(&layout, rebuilt.digest), []);
    assert_eq!(inspect(&layout, None).unwrap()[0].env, ["A"]);
}

#[test]
fn wrong_input_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let content = content(folder.path());
    let output = folder.path().join("out");
    let item = BuildOrder {
        item_config: Some(b"{\"quotas\": 5}".to_vec()),
        ..order(content.clone(), &output)
    };
    assert!(matches!(
        build(&item),
        Err(BuildError::Document {
            what: "item configuration",
            ..
        })
    ));
    let mut port = order(content.clone(), &output);
    port.run.exposed_ports = vec!["http".to_owned()];
    assert!(matches!(
        build(&port),
        Err(BuildError::Document {
            what: "image configuration",
            ..
        })
    ));
    assert!(!output.exists());
    fs::create_dir(&output).unwrap();
    fs::write(output.join("mine"), "").unwrap();
    assert!(matches!(
        build(&order(content, &output)),
        Err(BuildError::OutputInUse(_))
    ));
}

#[test]
fn what_no_layer_can_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("rootfs");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".wh.x"), "").unwrap();
    let refused = build(&order(
        Content::Folder(root.clone()),
        &folder.path().join("out1"),
    ));
    assert!(
        matches!(refused, Err(BuildError::Unpackable { .. })),
        "{refused:?}"
    );
    fs::remove_file(root.join(".wh.x")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let refused = build(&order(Content::Folder(root), &folder.path().join("out2")));
    assert!(
        matches!(refused, Err(BuildError::Unpackable { .. })),
        "{refused:?}"
    );
}

#[test]
fn validation_names_what_is_wrong_with_which_blob() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut order = order(content(folder.path()), &output);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&order).unwrap();
    let blob = output.join("blobs/sha256").join(built.layers[0].to_hex());
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let layout = LayoutSource::open(&output).unwrap();
    let findings = validate(&layout, built.digest);
    assert!(
        findings
            .iter()
            .all(|finding| finding.digest == built.layers[0].to_string()),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding.text.starts_with("its content is sha256:")),
        "{findings:?}"
    );
    fs::remove_file(&blob).unwrap();
    let [missing] = validate(&layout, built.digest).try_into().unwrap();
    assert_eq!(missing.severity, Severity::Error);
}

#[tokio::test]
async fn an_image_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut order = order(content(folder.path()), &first);
    order.run.entrypoint = vec!["/usr/bin/run".to_owned()];
    let built = build(&order).unwrap();
    let layout = LayoutSource::open(&first).unwrap();
    pull(&layout, built.digest, Some("copy"), &second, false)
        .await
        .unwrap();
    let copy = LayoutSource::open(&second).unwrap();
    assert_eq!(copy.image(Some("copy")).unwrap(), built.digest);
    assert_eq!(validate(&copy, built.digest), []);
}
