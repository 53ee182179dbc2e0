//! Putting an image together.

use std::path::{Path, PathBuf};

use muster_api::domain::Digest;
use muster_item::{Document, ImageConfig, ItemConfig, Limits, Manifest, MediaType};
use serde_json::{Map, Value, json};

use super::pack::{PackedLayer, pack_folder, pack_program};
use super::program;
use super::writer::{LayoutWriter, Unfinished, platform_value};
use super::{BuildError, BuildOrder, BuiltImage, Content};
use crate::source::{LayoutError, LayoutSource};

/// Makes an image. What is wrong with its documents is found before anything is written. Blocks.
pub fn build(order: &BuildOrder) -> Result<BuiltImage, BuildError> {
    if let Some(item_config) = &order.item_config {
        ItemConfig::read(item_config, &Limits::default()).map_err(|source| {
            BuildError::Document {
                what: "item configuration",
                source,
            }
        })?;
    }
    match &order.content {
        Content::Layout { layout, name } => from_layout(order, layout, name.as_deref()),
        Content::Folder(folder) => from_files(order, None, |writer| {
            pack_folder(folder, order.format, writer)
        }),
        Content::Binary { program, path } => {
            program::check(program)?;
            let path = path
                .as_deref()
                .map_or_else(|| default_path(program), PathBuf::from);
            let name: PathBuf = path.components().filter(is_normal).collect();
            let entrypoint = Path::new("/").join(&name).to_string_lossy().into_owned();
            from_files(order, Some(entrypoint), |writer| {
                pack_program(program, &name, order.format, writer)
            })
        }
    }
}

fn default_path(program: &Path) -> PathBuf {
    Path::new("bin").join(program.file_name().unwrap_or_default())
}

fn is_normal(component: &std::path::Component<'_>) -> bool {
    matches!(component, std::path::Component::Normal(_))
}

fn from_files(
    order: &BuildOrder,
    program: Option<String>,
    pack: impl FnOnce(&LayoutWriter) -> Result<PackedLayer, BuildError>,
) -> Result<BuiltImage, BuildError> {
    let mut run = run_value(order);
    if let Some(program) = program
        && order.run.entrypoint.is_empty()
    {
        run.insert("Entrypoint".to_owned(), json!([program]));
    }
    let mut config = json!({ "config": run, "rootfs": { "type": "layers", "diff_ids": [] } });
    for (key, value) in platform_value(&order.platform)
        .as_object()
        .into_iter()
        .flatten()
    {
        config[key] = value.clone();
    }
    check_config(&config)?;

    let writer = LayoutWriter::create(&order.output, order.as_archive, Unfinished::Remove)?;
    let layer = pack(&writer)?;
    config["rootfs"]["diff_ids"] = json!([layer.diff_id.to_string()]);
    let config = writer
        .document(&MediaType::ImageConfig, &config)
        .map_err(BuildError::Disk)?;
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MediaType::Manifest.name(),
        "config": config,
        "layers": [layer.descriptor],
    });
    let digest = finish(order, writer, &mut manifest)?;
    Ok(BuiltImage {
        digest,
        layers: vec![layer.digest],
    })
}

fn run_value(order: &BuildOrder) -> Map<String, Value> {
    let run = &order.run;
    let mut value = Map::new();
    let lists = [
        ("Entrypoint", &run.entrypoint),
        ("Cmd", &run.cmd),
        ("Env", &run.env),
    ];
    for (key, list) in lists {
        if !list.is_empty() {
            value.insert(key.to_owned(), json!(list));
        }
    }
    if let Some(folder) = &run.working_dir {
        value.insert("WorkingDir".to_owned(), json!(folder));
    }
    if !run.exposed_ports.is_empty() {
        let ports = run
            .exposed_ports
            .iter()
            .map(|port| (port.clone(), json!({})));
        value.insert("ExposedPorts".to_owned(), Value::Object(ports.collect()));
    }
    value
}

/// What is written must be readable: wrong ports or variables are found here.
fn check_config(config: &Value) -> Result<(), BuildError> {
    ImageConfig::read(config.to_string().as_bytes(), &Limits::default())
        .map(drop)
        .map_err(|source| BuildError::Document {
            what: "image configuration",
            source,
        })
}

/// Adds the item configuration, and writes manifest and index.
fn finish(
    order: &BuildOrder,
    writer: LayoutWriter,
    manifest: &mut Value,
) -> Result<Digest, BuildError> {
    if let Some(item_config) = &order.item_config {
        let descriptor = writer.bytes(&MediaType::ItemConfig, item_config);
        manifest["aosItemConfig"] = descriptor.map_err(BuildError::Disk)?;
    }
    let text = manifest.to_string();
    let descriptor = writer
        .bytes(&MediaType::Manifest, text.as_bytes())
        .map_err(BuildError::Disk)?;
    let digest = crate::hash::sha256(text.as_bytes());
    writer.finish(descriptor, Some(&order.platform), order.name.as_deref())?;
    Ok(digest)
}

fn from_layout(
    order: &BuildOrder,
    path: &Path,
    name: Option<&str>,
) -> Result<BuiltImage, BuildError> {
    let layout = LayoutSource::open(path).map_err(BuildError::Layout)?;
    let digest = layout.image(name).map_err(BuildError::Layout)?;
    let bytes = layout.read_document(&digest).map_err(BuildError::Layout)?;
    let unreadable = |source| BuildError::Document {
        what: "manifest",
        source,
    };
    let document = Document::read(&bytes, &Limits::default()).map_err(unreadable)?;
    let Document::Manifest(manifest) = document else {
        return Err(BuildError::NotAManifest(digest));
    };
    // What this version does not know of the manifest stays in it.
    let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let writer = LayoutWriter::create(&order.output, order.as_archive, Unfinished::Remove)?;
    copy_blobs(&layout, &manifest, path, &writer)?;
    let digest = finish(order, writer, &mut value)?;
    Ok(BuiltImage {
        digest,
        layers: manifest.layers.iter().map(|layer| layer.digest).collect(),
    })
}

fn copy_blobs(
    layout: &LayoutSource,
    manifest: &Manifest,
    path: &Path,
    writer: &LayoutWriter,
) -> Result<(), BuildError> {
    for blob in manifest.blobs() {
        let mut content = layout.open_blob(&blob.digest).map_err(BuildError::Layout)?;
        let found = writer
            .copy(&mut content, &blob.digest)
            .map_err(BuildError::Disk)?;
        if found != blob.digest {
            return Err(BuildError::Layout(LayoutError::WrongBlob {
                path: path.to_owned(),
                digest: Box::new(blob.digest),
                found: Box::new(found),
            }));
        }
    }
    Ok(())
}
