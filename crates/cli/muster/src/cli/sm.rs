//! `muster sm`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLE: &str = "\
The file (YAML, JSON or TOML):
  items:
  - id: web                       # its name
    version: 1.2.0                # a change of it restarts the item [default: 0.0.0]
    image:                        # one of these:
      layout: web.tar             #   an OCI image layout, folder or tar; name: which of its images
      registry: host/web:1.2      #   a registry; also user, passwordFile, ca, insecure
      digest: sha256:...          #   an image that an earlier run has got
    instances: 2                  # [default: 1]
    env: {COLOUR: red}            # over the image's own
    envOverride:                  # over all others, for a while from when the file is read
      LEVEL: {value: debug, for: 10m}
    priority: 10                  # higher ones start first [default: 0]
    runtime: runc                 # runc, crun, youki (not tested) or native [default: as its image says]
    subject: local                # whom it runs for [default: local]
Paths are relative to the file.

What is needed: root, Muster's programs (muster-init, muster-core, muster-container), and runc or crun, or items
for the runtime native. An init of the machine is not used, and nothing of it is touched: instances are units of a private
muster-init. Without root, `muster up` runs a whole Unit with items for the runtime native.

Instances have no network. What items have quotas for, storage and state, is kept below --state. Nobody gives out devices or
other resources of the node: items that ask for them are refused. There is no identity manager: items that ask for permissions
are named, and run without.

Exit codes:
  0  done: with --once everything came up, else it was ended in order
  1  something failed
  2  the command line or the file makes no sense
  3  refused: not root, an item that asks for a runtime or for resources that are not here, or another run uses one of the
     folders, or has left its instances in it
  4  there is no such file or image
  5  the private init cannot be started
  130  interrupted: with --once, before everything was up or had failed";

/// The Service Manager.
#[derive(Debug, Subcommand)]
pub(crate) enum Sm {
    /// Run what a file says on this machine, without a controller
    ///
    /// Gets the images, starts the instances, keeps them running and tells what happens to them, until Ctrl-C ends everything.
    /// What an earlier run with --keep left is taken over: what the file still says is not touched, the rest is stopped.
    #[command(after_help = EXAMPLE)]
    Run(Run),
}

/// `muster sm run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The file that says what shall run.
    #[arg(value_name = "DESIRED")]
    pub(crate) desired: PathBuf,
    /// End as soon as everything is up or has failed, and say how it is; what runs is stopped, unless --keep is given too.
    #[arg(long)]
    pub(crate) once: bool,
    /// Leave everything running at the end. A later run takes it over.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where images and the state of the node are kept.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "MUSTER_STATE",
        default_value = "/var/lib/muster/standalone"
    )]
    pub(crate) state: PathBuf,
    /// Where what a reboot may empty is kept.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "MUSTER_RUNTIME",
        default_value = "/run/muster/standalone"
    )]
    pub(crate) runtime: PathBuf,
    /// The folder of Muster's programs [default: beside this one, ../lib/muster, or /usr/lib/muster]
    #[arg(long, value_name = "FOLDER", env = "MUSTER_PROGRAMS")]
    pub(crate) programs: Option<PathBuf>,
}
