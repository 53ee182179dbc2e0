//! Layers and a configuration, put together.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::{Blob, Descriptor, Layer, media_type};

/// Images are not of today, so that their digests are the same tomorrow.
const CREATED: &str = "1970-01-01T00:00:00Z";

type Edit = Box<dyn Fn(&mut Value) + Send + Sync>;

/// An image to be made.
#[must_use]
pub struct Image {
    layers: Vec<Layer>,
    architecture: String,
    os: String,
    config: BTreeMap<&'static str, Value>,
    item_config: Option<Value>,
    edit_config: Vec<Edit>,
    edit_manifest: Vec<Edit>,
}

impl Image {
    /// An image without layers, for Linux on this machine's architecture.
    pub fn new() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            layers: Vec::new(),
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
            config: BTreeMap::new(),
            item_config: None,
            edit_config: Vec::new(),
            edit_manifest: Vec::new(),
        }
    }

    /// Adds a layer on top.
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Sets what it runs on, in Go's words: `amd64`, `linux`.
    pub fn platform(mut self, architecture: &str, os: &str) -> Self {
        self.architecture = architecture.to_owned();
        self.os = os.to_owned();
        self
    }

    /// Sets the program.
    pub fn entrypoint(self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.words("Entrypoint", words)
    }

    /// Sets the program's arguments.
    pub fn cmd(self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.words("Cmd", words)
    }

    /// Sets the environment, as `NAME=value`.
    pub fn env(self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.words("Env", words)
    }

    /// Sets the ports that it listens on, as `8080/tcp`.
    pub fn exposed_ports(self, ports: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let ports = ports.into_iter().map(|port| (port.into(), json!({})));
        self.setting("ExposedPorts", Value::Object(ports.collect()))
    }

    /// Sets the folder that it starts in.
    pub fn working_dir(self, path: &str) -> Self {
        self.setting("WorkingDir", path.into())
    }

    /// Adds an item configuration, as the Service Manager reads it.
    pub fn item_config(mut self, config: Value) -> Self {
        self.item_config = Some(config);
        self
    }

    /// Changes the image configuration before it is written.
    pub fn edit_config(mut self, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.edit_config.push(Box::new(edit));
        self
    }

    /// Changes the manifest before it is written.
    pub fn edit_manifest(mut self, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.edit_manifest.push(Box::new(edit));
        self
    }

    /// Makes the image's blobs.
    pub fn build(&self) -> ImageParts {
        let diff_ids: Vec<_> = self.layers.iter().map(|layer| &layer.diff_id).collect();
        let mut config = json!({
            "created": CREATED,
            "architecture": self.architecture,
            "os": self.os,
            "config": self.config,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        self.edit_config.iter().for_each(|edit| edit(&mut config));
        let config = document(media_type::CONFIG, &config);
        let item_config = self
            .item_config
            .as_ref()
            .map(|config| document(media_type::ITEM_CONFIG, config));
        let layers: Vec<Blob> = self.layers.iter().map(|layer| layer.blob.clone()).collect();
        let described: Vec<&Descriptor> = layers.iter().map(|blob| &blob.descriptor).collect();
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type::MANIFEST,
            "config": config.descriptor,
            "layers": described,
        });
        if let Some(item_config) = &item_config {
            manifest["aosItemConfig"] = json!(item_config.descriptor);
        }
        self.edit_manifest
            .iter()
            .for_each(|edit| edit(&mut manifest));
        ImageParts {
            manifest: document(media_type::MANIFEST, &manifest),
            config,
            item_config,
            layers,
            platform: json!({ "architecture": self.architecture, "os": self.os }),
        }
    }

    fn words(self, key: &'static str, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        self.setting(key, words.into())
    }

    fn setting(mut self, key: &'static str, value: Value) -> Self {
        self.config.insert(key, value);
        self
    }
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("layers", &self.layers.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The blobs of a finished image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageParts {
    /// The manifest.
    pub manifest: Blob,
    /// The image configuration.
    pub config: Blob,
    /// The item configuration, if there is one.
    pub item_config: Option<Blob>,
    /// The layers, lowest first.
    pub layers: Vec<Blob>,
    /// What the index says about where it runs.
    pub(super) platform: Value,
}

impl ImageParts {
    /// All blobs, the manifest last.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers
            .iter()
            .chain([&self.config])
            .chain(&self.item_config)
            .chain([&self.manifest])
    }
}

/// A JSON document as a blob. Keys are sorted, since that is how `Value` keeps them.
fn document(media_type: &str, value: &Value) -> Blob {
    Blob::new(media_type, value.to_string().into_bytes())
}
