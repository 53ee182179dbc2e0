//! `muster image`: images in files and registries.

mod registry;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_image::build::{
    self, BuildError, BuildOrder, Content, Finding, Inspection, PullError, RunSettings, Severity,
};
use muster_image::{LayoutError, LayoutSource, RegistryError};
use muster_item::{LayerFormat, Platform};
use serde::Serialize;

use crate::cli::image::{self as cli, Compression, Image};
use crate::console::{Answer, Console, Exit, Table};
use crate::error::CommandError;

/// Why a command about images was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageCommandError {
    #[error("cannot start the runtime that connections need")]
    Runtime(#[source] io::Error),
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{text:?} is no platform; write e.g. linux/arm64 or linux/arm/v7")]
    Platform { text: String },
    #[error("cannot use the image layout")]
    Layout(#[source] LayoutError),
    #[error("cannot build the image")]
    Build(#[source] BuildError),
    #[error("cannot look into the image")]
    Inspect(#[source] BuildError),
    #[error("the image has {errors} errors: nodes will refuse it")]
    Invalid { errors: usize },
    #[error("cannot use the registry")]
    Registry(#[source] RegistryError),
    #[error("cannot download the image")]
    Pull(#[source] PullError),
}

impl ImageCommandError {
    pub(crate) fn exit(&self) -> Exit {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let is_taken = |error: &BuildError| {
            matches!(
                error,
                BuildError::OutputInUse(_) | BuildError::OutputBusy(_)
            )
        };
        match self {
            Self::Platform { .. } | Self::Registry(RegistryError::Name { .. }) => Exit::Usage,
            Self::Build(error) | Self::Pull(PullError::Write(error)) if is_taken(error) => {
                Exit::Refused
            }
            Self::Invalid { .. } => Exit::Refused,
            Self::File { source, .. } if is_missing(source) => Exit::NotFound,
            Self::Layout(LayoutError::Read { source, .. }) if is_missing(source) => Exit::NotFound,
            Self::Layout(LayoutError::NoSuchImage { .. }) => Exit::NotFound,
            _ => Exit::Failed,
        }
    }
}

/// Carries out one command.
pub(crate) fn run(command: Image, console: &mut Console) -> Result<(), CommandError> {
    match command {
        Image::Build(command) => build_image(&command, console),
        Image::Inspect(command) => inspect(&command.image, console),
        Image::Validate(command) => validate(&command.image, console),
        Image::Push(command) => registry::push(&command, console),
        Image::Pull(command) => registry::pull(&command, console),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ImageCommandError> {
    fs::read(path).map_err(|source| ImageCommandError::File {
        path: path.to_owned(),
        source,
    })
}

fn open(image: &cli::Chosen) -> Result<LayoutSource, ImageCommandError> {
    LayoutSource::open(&image.layout).map_err(ImageCommandError::Layout)
}

/// What ends in `.tar` is an archive.
fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tar")
}

fn read_platform(text: &str) -> Result<Platform, ImageCommandError> {
    let refused = || ImageCommandError::Platform {
        text: text.to_owned(),
    };
    let mut parts = text.split('/');
    let (Some(os), Some(architecture)) = (parts.next(), parts.next()) else {
        return Err(refused());
    };
    let variant = parts.next().unwrap_or_default();
    if os.is_empty() || architecture.is_empty() || parts.next().is_some() {
        return Err(refused());
    }
    Ok(Platform::new(os, architecture).with_variant(variant))
}

/// What was made, uploaded or downloaded.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    digest: String,
    result: String,
}

impl Answer for Done {
    fn table(&self) -> Table {
        Table::facts([
            ("Digest", self.digest.clone()),
            ("Result", self.result.clone()),
        ])
    }
}

fn build_image(command: &cli::Build, console: &mut Console) -> Result<(), CommandError> {
    let content = match (&command.folder, &command.binary, &command.layout) {
        (Some(folder), ..) => Content::Folder(folder.clone()),
        (_, Some(program), _) => Content::Binary {
            program: program.clone(),
            path: command.path.clone(),
        },
        (.., layout) => Content::Layout {
            layout: layout.clone().unwrap_or_default(),
            name: command.from.clone(),
        },
    };
    let platform = command.platform.as_deref().map(read_platform).transpose()?;
    let order = BuildOrder {
        content,
        run: RunSettings {
            entrypoint: command.entrypoint.clone(),
            cmd: command.cmd.clone(),
            env: command.env.clone(),
            working_dir: command.working_dir.clone(),
            exposed_ports: command.expose.clone(),
        },
        item_config: command.item_config.as_deref().map(read).transpose()?,
        platform: platform.unwrap_or_else(Platform::of_this_program),
        format: match command.compression {
            Compression::Gzip => LayerFormat::TarGzip,
            Compression::Zstd => LayerFormat::TarZstd,
            Compression::None => LayerFormat::Tar,
        },
        name: command.name.clone(),
        output: command.result.clone(),
        as_archive: is_archive(&command.result),
    };
    let built = build::build(&order).map_err(ImageCommandError::Build)?;
    console.answer(&Done {
        digest: built.digest.to_string(),
        result: command.result.display().to_string(),
    })?;
    Ok(())
}

#[derive(Serialize)]
#[serde(transparent)]
struct Inspected(Vec<Inspection>);

impl Answer for Inspected {
    fn table(&self) -> Table {
        let mut facts = Vec::new();
        for image in &self.0 {
            if !facts.is_empty() {
                facts.push(("", " ".to_owned()));
            }
            facts.extend(image_facts(image));
        }
        Table::facts(facts)
    }
}

/// Text of an image is anybody's; a terminal shall not obey it.
fn image_facts(image: &Inspection) -> Vec<(&'static str, String)> {
    let escaped = |text: &str| text.escape_debug().to_string();
    let mut facts = vec![
        ("Digest", image.digest.clone()),
        (
            "Name",
            image.name.as_deref().map(escaped).unwrap_or_default(),
        ),
        ("Platform", image.platform.clone().unwrap_or_default()),
        ("Command", escaped(&image.command.join(" "))),
        ("Environment", escaped(&image.env.join(" "))),
        ("Starts in", escaped(&image.working_dir)),
        ("Size", format!("{} bytes", image.size)),
    ];
    for layer in &image.layers {
        let kind = escaped(&layer.media_type);
        facts.push((
            "Layer",
            format!("{} {} bytes {kind}", layer.digest, layer.size),
        ));
    }
    if let Some(item) = &image.item_config {
        facts.push(("Item configuration", item.to_string()));
    }
    facts
}

fn inspect(image: &cli::Chosen, console: &mut Console) -> Result<(), CommandError> {
    let layout = open(image)?;
    layout
        .image(image.name.as_deref())
        .map_err(ImageCommandError::Layout)?;
    let found = build::inspect(&layout, image.name.as_deref());
    console.answer(&Inspected(found.map_err(ImageCommandError::Inspect)?))?;
    Ok(())
}

#[derive(Serialize)]
#[serde(transparent)]
struct Findings(Vec<Finding>);

impl Answer for Findings {
    fn table(&self) -> Table {
        let row = |finding: &Finding| {
            let severity = match finding.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            let text = finding.text.escape_debug().to_string();
            vec![severity.to_owned(), finding.digest.clone(), text]
        };
        Table::list(
            &["SEVERITY", "BLOB", "FINDING"],
            self.0.iter().map(row).collect(),
        )
    }
}

fn validate(image: &cli::Chosen, console: &mut Console) -> Result<(), CommandError> {
    let layout = open(image)?;
    let digest = layout
        .image(image.name.as_deref())
        .map_err(ImageCommandError::Layout)?;
    let findings = build::validate(&layout, digest);
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    console.answer(&Findings(findings))?;
    match errors {
        0 => Ok(()),
        errors => Err(ImageCommandError::Invalid { errors }.into()),
    }
}
