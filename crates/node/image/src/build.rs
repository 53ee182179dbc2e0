//! Making images, looking into them, and judging them: what `muster image` does, without its command line.
//!
//! * [`build`] makes an image layout from a folder, a static program, or an existing layout, with an item configuration.
//! * [`inspect`] says what an image is, [`validate`] what is wrong with it.
//! * [`pull`] copies an image from any [`BlobSource`](crate::BlobSource) into a layout. Pushing to a registry is
//!   `RegistrySource::push`.
//!
//! A layout that was not finished, because something failed or ended the program, is gone on with by the next try to the same place.
//!
//! What is built depends on its input only: entries are sorted, owned by root and of 1970, documents have sorted keys. The same
//! input gives the same digests, on any machine with the same version of Muster.

mod assemble;
mod inspect;
mod pack;
mod program;
mod pull;
mod validate;
mod writer;

use std::path::PathBuf;

use muster_api::domain::Digest;
use muster_item::{LayerFormat, Platform, ReadDocumentError};

use crate::folders::DiskError;
use crate::source::LayoutError;

pub use self::assemble::build;
pub use self::inspect::{BlobSummary, Inspection, inspect};
pub use self::pull::{PullError, pull};
pub use self::validate::{Finding, Severity, validate};

/// What an image is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Everything in a folder becomes the one layer.
    Folder(PathBuf),
    /// A program that needs nothing else becomes the one file of the one layer, executable for everybody, and the entry point.
    Binary {
        /// The program, or a link to it.
        program: PathBuf,
        /// Where it is in the image: `/bin/NAME` unless it is said.
        path: Option<String>,
    },
    /// An image of a layout gets another item configuration.
    Layout {
        /// The layout, a folder or a tar archive.
        layout: PathBuf,
        /// Which of its images; the only one if absent.
        name: Option<String>,
    },
}

/// How an image is run. Without effect on [`Content::Layout`], which says so itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments.
    pub cmd: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// The folder that it starts in.
    pub working_dir: Option<String>,
    /// `8080`, `8000-8010/udp`.
    pub exposed_ports: Vec<String>,
}

/// An image to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOrder {
    /// From what.
    pub content: Content,
    /// How it is run.
    pub run: RunSettings,
    /// The item configuration, as JSON.
    pub item_config: Option<Vec<u8>>,
    /// What it is for.
    pub platform: Platform,
    /// How its layer is packed.
    pub format: LayerFormat,
    /// Its name in the layout.
    pub name: Option<String>,
    /// Where the layout goes: a new or empty folder, or a file if [`as_archive`](Self::as_archive). In the folder that is packed it
    /// is left out.
    pub output: PathBuf,
    /// Make a tar archive.
    pub as_archive: bool,
}

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// Its manifest: what the image is known by.
    pub digest: Digest,
    /// Its layers.
    pub layers: Vec<Digest>,
}

/// Why an image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file could not be read or written.
    #[error("cannot make the image")]
    Disk(#[source] DiskError),
    /// The output is there already.
    #[error("{} is there and not empty", .0.display())]
    OutputInUse(PathBuf),
    /// Somebody else makes it at this moment.
    #[error("{} is being written by another process", .0.display())]
    OutputBusy(PathBuf),
    /// A file is of a kind that images do not have, or has a name that means something else in one.
    #[error("{} cannot be packed: {reason}", path.display())]
    Unpackable {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A document makes no sense.
    #[error("cannot use the {what}")]
    Document {
        /// Which one.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: ReadDocumentError,
    },
    /// The layout cannot be read.
    #[error("cannot use the image layout")]
    Layout(#[source] LayoutError),
    /// What was named is an index: it has no item configuration of its own.
    #[error("{0} is an index; name one of its images")]
    NotAManifest(Digest),
}

#[cfg(test)]
mod tests;
