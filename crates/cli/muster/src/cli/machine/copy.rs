//! `muster machine cp` and `muster machine sync`.

use clap::Args;

pub(super) const CP_HELP: &str = "\
Examples:
  muster machine cp notes.txt dev:                 into the home of the machine's login
  muster machine cp src dev:/tmp                   /tmp/src, with all that it holds; /tmp is there
  muster machine cp src/. dev:/build               what src holds, into /build
  muster machine cp dev:/var/log/syslog .          from the machine, into this folder

As with `cp -r`: a folder that is there takes the copy in; otherwise the copy gets the name TO, and folders above it are made. Links
that are named here are followed, those in folders are copied as links. What is the same already is left alone, and a copy that was
cut goes on where it was.";

pub(super) const SYNC_HELP: &str = "\
Examples:
  muster machine sync src dev:/src                 /src of the machine becomes like src
  muster machine sync src dev:/src --delete -n     what that would do, also to what is only there
  muster machine sync dev:/src src                 the other way round

TO becomes like FROM itself, whether or not it is there: nothing goes into it under FROM's name, as it would with `cp`.";

/// `muster machine cp`
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// What is copied: a path of this machine, or MACHINE:PATH.
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// Where it goes: a path of this machine, or MACHINE:PATH. A path of a machine that is not absolute begins in the login's home.
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    /// Compare and verify files by what they hold instead of by size and time.
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Only show what would be copied, made and removed.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// `muster machine sync`
#[derive(Debug, Args)]
pub(crate) struct Sync {
    #[command(flatten)]
    pub(crate) copy: Copy,
    /// Remove what is only in the target.
    #[arg(long)]
    pub(crate) delete: bool,
}
