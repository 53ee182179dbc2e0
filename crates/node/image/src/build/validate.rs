//! What is wrong with an image.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use muster_api::domain::{Digest, DigestAlgorithm};
use muster_item::{
    Descriptor, Document, ImageConfig, ItemConfig, LayerFormat, Limits, Manifest, MediaType,
};
use muster_layer::{Budget, Compression, Durability, Options, Rule, UnpackError};
use muster_telemetry::ErrorChain;
use serde::Serialize;

use crate::folders::Free;
use crate::hash::Hasher;
use crate::settings::possible_options;
use crate::source::LayoutSource;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It runs, and probably not as it was meant.
    Warning,
    /// A node refuses it.
    Error,
}

/// Something about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Of which blob.
    pub digest: String,
    /// What it is.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}: {}", self.digest, self.text)
    }
}

/// Indexes that lead to indexes are followed so far.
const MAX_DEPTH: usize = 4;

/// Looks at everything that an image refers to, and unpacks its layers on trial. Nothing found means that a node takes it.
/// Blocks.
pub fn validate(layout: &LayoutSource, digest: Digest) -> Vec<Finding> {
    let mut judge = Judge {
        layout,
        limits: Limits::default(),
        findings: Vec::new(),
    };
    let listed = layout.index().manifests.iter();
    let listed = listed.map(|entry| &entry.descriptor);
    for listed in listed.filter(|listed| listed.digest == digest) {
        judge.listed(listed);
    }
    judge.document(&digest, MAX_DEPTH);
    judge.findings
}

struct Judge<'l> {
    layout: &'l LayoutSource,
    limits: Limits,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn find(&mut self, severity: Severity, digest: &Digest, text: impl fmt::Display) {
        self.findings.push(Finding {
            severity,
            digest: digest.to_string(),
            text: text.to_string(),
        });
    }

    fn error(&mut self, digest: &Digest, error: &(dyn std::error::Error + 'static)) {
        self.find(Severity::Error, digest, ErrorChain(error));
    }

    fn document(&mut self, digest: &Digest, depth: usize) {
        let Some(bytes) = self.blob_bytes(digest) else {
            return;
        };
        match Document::read(&bytes, &self.limits) {
            Err(error) => self.error(digest, &error),
            Ok(Document::Manifest(manifest)) => self.manifest(digest, &manifest),
            Ok(Document::Index(_)) if depth == 0 => {
                self.find(Severity::Error, digest, "indexes lead to indexes too often");
            }
            Ok(Document::Index(index)) => {
                // What no node chooses, none refuses.
                let offered = index.manifests.iter().filter(|entry| entry.is_offered());
                let mut entries = offered.peekable();
                if entries.peek().is_none() {
                    self.find(Severity::Error, digest, "the index leads to no image");
                }
                for entry in entries {
                    self.listed(&entry.descriptor);
                    self.document(&entry.descriptor.digest, depth - 1);
                }
            }
        }
    }

    /// Looks whether a document is as long as an index says; what else is wrong with it is said elsewhere.
    fn listed(&mut self, blob: &Descriptor) {
        if let Ok(bytes) = self.layout.read_document(&blob.digest) {
            self.check_size(blob, bytes.len() as u64);
        }
    }

    /// The bytes of a document whose digest is right.
    fn blob_bytes(&mut self, digest: &Digest) -> Option<Vec<u8>> {
        let bytes = match self.layout.read_document(digest) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.error(digest, &error);
                return None;
            }
        };
        let mut hasher = Hasher::like(digest);
        hasher.update(&bytes);
        let found = hasher.finish();
        if found != *digest {
            self.find(
                Severity::Error,
                digest,
                format_args!("its content is {found}"),
            );
            return None;
        }
        Some(bytes)
    }

    fn manifest(&mut self, digest: &Digest, manifest: &Manifest) {
        let config = self.image_config(manifest);
        match &manifest.item_config {
            None => self.find(Severity::Warning, digest, "it has no item configuration"),
            Some(item) => {
                if let Some(bytes) = self.described_bytes(item)
                    && let Err(error) = ItemConfig::read(&bytes, &self.limits)
                {
                    self.error(&item.digest, &error);
                }
            }
        }
        let unpacked = |layer: &&Descriptor| matches!(layer.media_type, MediaType::Layer(_));
        let count = manifest.layers.iter().filter(unpacked).count();
        let diff_ids = config.map(|config| config.diff_ids).unwrap_or_default();
        if diff_ids.len() != count {
            let severity = match diff_ids.is_empty() {
                true => Severity::Warning,
                false => Severity::Error,
            };
            let text = format!("it has {count} layers and {} diff ids", diff_ids.len());
            self.find(severity, digest, text);
        }
        let mut diff_ids = diff_ids.into_iter();
        let mut is_lowest = true;
        for layer in &manifest.layers {
            match &layer.media_type {
                MediaType::Layer(format) => {
                    let undescribed = self.layer(layer, *format, diff_ids.next());
                    if undescribed > 0 && !is_lowest {
                        let text = format!(
                            "it has {undescribed} folders without an entry, which become root's with mode 0755, whatever layers below say"
                        );
                        self.find(Severity::Warning, &layer.digest, text);
                    }
                    is_lowest = false;
                }
                MediaType::Component(_) => self.opaque(layer),
                MediaType::Empty => {}
                other => {
                    let text = format!("its type {other} is not known");
                    self.find(Severity::Error, &layer.digest, text);
                }
            }
        }
    }

    fn image_config(&mut self, manifest: &Manifest) -> Option<ImageConfig> {
        let digest = &manifest.config.digest;
        let bytes = self.described_bytes(&manifest.config)?;
        match ImageConfig::read(&bytes, &self.limits) {
            Err(error) => {
                self.error(digest, &error);
                None
            }
            Ok(config) => {
                let is_run = manifest
                    .layers
                    .iter()
                    .any(|layer| matches!(layer.media_type, MediaType::Layer(_)));
                if is_run && config.command().next().is_none() {
                    self.find(Severity::Warning, digest, "it names no program to run");
                }
                if config.platform.is_none() && is_run {
                    self.find(
                        Severity::Warning,
                        digest,
                        "it does not say what it is built for",
                    );
                }
                Some(config)
            }
        }
    }

    fn described_bytes(&mut self, blob: &Descriptor) -> Option<Vec<u8>> {
        let bytes = self.blob_bytes(&blob.digest)?;
        self.check_size(blob, bytes.len() as u64);
        Some(bytes)
    }

    fn check_size(&mut self, blob: &Descriptor, found: u64) {
        if found != blob.size {
            let text = format!(
                "it has {found} bytes, and its descriptor says {}",
                blob.size
            );
            self.find(Severity::Error, &blob.digest, text);
        }
    }

    /// Hashes a blob that nobody here can look into.
    fn opaque(&mut self, blob: &Descriptor) {
        let content = match self.layout.open_blob(&blob.digest) {
            Ok(content) => content,
            Err(error) => return self.error(&blob.digest, &error),
        };
        let mut counted = Counted::new(content, &blob.digest);
        let read = io::copy(&mut counted, &mut io::sink());
        self.conclude(blob, counted, read.err());
    }

    /// Unpacks it on trial. Answers how many folders it has without an entry.
    fn layer(&mut self, blob: &Descriptor, format: LayerFormat, diff_id: Option<Digest>) -> u64 {
        let opened = self.layout.open_blob(&blob.digest);
        let content = match opened {
            Ok(content) => content,
            Err(error) => {
                self.error(&blob.digest, &error);
                return 0;
            }
        };
        if let Some(diff_id) = diff_id.filter(|it| it.algorithm() != DigestAlgorithm::Sha256) {
            let text =
                format!("its diff id {diff_id} is not of SHA-256, which is what nodes compute");
            self.find(Severity::Error, &blob.digest, text);
        }
        let mut counted = Counted::new(content, &blob.digest);
        let compression = match format {
            LayerFormat::Tar => Compression::None,
            LayerFormat::TarGzip => Compression::Gzip,
            LayerFormat::TarZstd => Compression::Zstd,
        };
        let undescribed = match try_to_unpack(&mut counted, compression, diff_id) {
            Ok(report) => report.undescribed_folders,
            Err((severity, text)) => {
                self.find(severity, &blob.digest, text);
                0
            }
        };
        let rest = io::copy(&mut counted, &mut io::sink());
        self.conclude(blob, counted, rest.err());
        undescribed
    }

    fn conclude(
        &mut self,
        blob: &Descriptor,
        counted: Counted<impl Read>,
        failed: Option<io::Error>,
    ) {
        if let Some(error) = failed {
            return self.error(&blob.digest, &error);
        }
        let found = counted.hasher.finish();
        if found != blob.digest {
            self.find(
                Severity::Error,
                &blob.digest,
                format_args!("its content is {found}"),
            );
        }
        self.check_size(blob, counted.bytes);
    }
}

/// What a layer that is unpacked on trial leaves to others.
#[derive(Debug)]
struct Trial(PathBuf);

impl Budget for Trial {
    fn covers(&self, _bytes: u64) -> bool {
        /// What is uncompressed and not written yet, at most.
        const UNDER_WAY: u64 = 2 << 20;
        // Where the file system cannot be asked, writing to it will tell.
        Free::below(&self.0).map_or(true, |free| free.bytes > UNDER_WAY && free.files > 0)
    }
}

/// Unpacks a layer into a folder that goes again.
fn try_to_unpack(
    layer: &mut impl Read,
    compression: Compression,
    diff_id: Option<Digest>,
) -> Result<muster_layer::Report, (Severity, String)> {
    // Nobody's fault here says anything about the image.
    let untried = |error: &(dyn std::error::Error + 'static)| {
        let text = format!("it cannot be unpacked on trial here: {}", ErrorChain(error));
        (Severity::Warning, text)
    };
    let folder = tempfile::tempdir().map_err(|error| untried(&error))?;
    let opened = File::open(folder.path()).map_err(|error| untried(&error))?;
    let options = Options {
        diff_id: diff_id.and_then(|diff_id| diff_id.as_bytes().try_into().ok()),
        durability: Durability::None,
        budget: Some(Arc::new(Trial(folder.path().to_owned()))),
        ..possible_options()
    };
    let unpacked = muster_layer::unpack(layer, compression, opened.as_fd(), &options);
    // Its own remover knows trees that the standard library's does not manage.
    let _ = muster_layer::remove_contents(opened.as_fd());
    unpacked.map_err(|error| match &error {
        UnpackError::Refused {
            rule: Rule::NoSpace { .. },
            ..
        } => untried(&error),
        error => (Severity::Error, ErrorChain(error).to_string()),
    })
}

/// Hashes and counts what is read through it.
struct Counted<R> {
    inner: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R> Counted<R> {
    fn new(inner: R, like: &Digest) -> Self {
        Self {
            inner,
            hasher: Hasher::like(like),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        self.bytes += length as u64;
        Ok(length)
    }
}
