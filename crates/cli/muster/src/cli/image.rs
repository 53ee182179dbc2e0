//! `muster image`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

/// Images.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Make an image from a folder, a static program, or an image with another item configuration
    ///
    /// The same input gives the same image, on every machine. The result is an OCI image layout: a folder, or a tar archive if
    /// its name ends in .tar. A result in the folder that is packed is left out.
    Build(Box<Build>),
    /// Show what an image is
    Inspect(Inspect),
    /// Find out whether nodes will take an image
    ///
    /// Reads everything that the image refers to, and unpacks its layers on trial. Fails if there are errors; warnings do not
    /// count.
    Validate(Validate),
    /// Upload an image to a registry, with its item configuration
    Push(Push),
    /// Download an image from a registry, for all of its platforms
    ///
    /// What came of a download that failed or was interrupted is kept: the same command goes on from there. Of an archive it is in
    /// a folder beside it, .NAME.parts.
    Pull(Pull),
}

/// An image of a layout.
#[derive(Debug, Clone, Args)]
pub(crate) struct Chosen {
    /// An OCI image layout: a folder or a tar archive.
    #[arg(value_name = "LAYOUT")]
    pub(crate) layout: PathBuf,
    /// Which of its images, by name or digest [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `muster image build`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("content").required(true).args(["folder", "binary", "layout"])))]
pub(crate) struct Build {
    /// Pack everything in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Pack this program, which must be linked statically; it becomes the entry point, and executable.
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// Take an image of this layout.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: Option<PathBuf>,
    /// Which image of the layout [default: the only one]
    #[arg(long, value_name = "NAME", requires = "layout")]
    pub(crate) from: Option<String>,
    /// Where the program is in the image [default: /bin/ and its name]
    #[arg(long, value_name = "PATH", requires = "binary")]
    pub(crate) path: Option<String>,
    /// The item configuration (JSON).
    #[arg(long, value_name = "FILE")]
    pub(crate) item_config: Option<PathBuf>,
    /// The program and its first arguments; can be repeated.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(crate) entrypoint: Vec<String>,
    /// A further argument; can be repeated.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(crate) cmd: Vec<String>,
    /// A variable as NAME=value; can be repeated.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) env: Vec<String>,
    /// The folder that it starts in.
    #[arg(long, value_name = "PATH")]
    pub(crate) working_dir: Option<String>,
    /// A port that it listens on, e.g. 8080 or 8000-8010/udp; can be repeated.
    #[arg(long, value_name = "PORT")]
    pub(crate) expose: Vec<String>,
    /// What it is for, as OS/ARCHITECTURE[/VARIANT] [default: this machine]
    #[arg(long, value_name = "PLATFORM")]
    pub(crate) platform: Option<String>,
    /// How its layer is packed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) compression: Compression,
    /// Its name in the layout.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where it goes: a new or empty folder, or a file that ends in .tar
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,
}

/// How a layer is packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// Understood everywhere.
    #[default]
    Gzip,
    /// Smaller, and much faster to unpack.
    Zstd,
    /// Not at all.
    None,
}

/// `muster image inspect`
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) image: Chosen,
}

/// `muster image validate`
#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    pub(crate) image: Chosen,
}

/// How a registry is reached.
#[derive(Debug, Clone, Args)]
pub(crate) struct Access {
    /// The user.
    #[arg(
        long,
        value_name = "NAME",
        env = "MUSTER_REGISTRY_USER",
        requires = "password_file"
    )]
    pub(crate) user: Option<String>,
    /// A file with the user's password, - for standard input.
    #[arg(
        long,
        value_name = "FILE",
        env = "MUSTER_REGISTRY_PASSWORD_FILE",
        requires = "user"
    )]
    pub(crate) password_file: Option<PathBuf>,
    /// A certificate (PEM) to trust beside the system's; can be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Vec<PathBuf>,
    /// Speak HTTP without protection, also with a registry that is not on this machine.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// `muster image push`
#[derive(Debug, Args)]
pub(crate) struct Push {
    #[command(flatten)]
    pub(crate) image: Chosen,
    /// Where it goes, as HOST[:PORT]/NAME[:TAG].
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// `muster image pull`
#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// What to download, as HOST[:PORT]/NAME[:TAG][@DIGEST].
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    /// Where it goes: a new or empty folder, or a file that ends in .tar
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,
    /// Its name in the layout [default: the tag]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}
