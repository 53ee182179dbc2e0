//! Unpacks image layers from people nobody trusts into a folder, and nowhere else.
//!
//! [`unpack`] reads one layer (tar, tar+gzip or tar+zstd) from any [`Read`](std::io::Read), verifies it as it
//! streams, and builds the folder that an overlay mount takes as a lower layer. [`remove_tree`] and
//! [`remove_contents`] take such a folder away again, whatever shape it has.
//!
//! ```no_run
//! use std::os::fd::AsFd;
//! use muster_layer::{Compression, Options, unpack};
//! let layer = std::fs::File::open("layer.tar.gz")?;
//! let folder = std::fs::File::open("an-empty-folder")?;
//! let report = unpack(layer, Compression::Gzip, folder.as_fd(), &Options::default())?;
//! println!("{} entries, diff id {:x?}", report.entries, report.diff_id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it runs
//! The caller's thread reads, hashes and decompresses; one thread, which lives only as long as the call, hashes the
//! tar stream, parses it and writes files. Between them go 32 buffers of 64 KiB, in a circle, so a layer of any
//! size needs about 3 MiB, plus the window of a zstd layer ([`Limits::zstd_window_log`]) and the table of folders
//! ([`Limits::folder_table_bytes`]). Nothing else outlives the call. To stop it, let the reader return an error.
//!
//! # What a layer can do
//! - **Names.** An entry is created relative to a descriptor of its own folder, which `openat2` found beneath the
//!   destination without following any symbolic link and without leaving the file system. Slashes in front of a name or of a hard
//!   link's target mean the destination (so do `ko` and `kaniko` write their layers, and everybody reads them), and `/` is the
//!   destination itself. Names with a `..` step are refused, not repaired. Nothing is ever opened, written or changed through a
//!   symbolic link.
//! - **Symbolic links** are data: created as they are, wherever they point.
//! - **Hard links** may name anything but a folder in the same layer. A target that only a lower layer has is refused: each layer
//!   is a folder of its own, and a link across folders would tie two layers' lives together.
//! - **Whiteouts** `.wh.NAME` become what overlayfs understands, opaque markers an attribute of their folder
//!   ([`Whiteouts`]). They speak about lower layers only: what the layer itself has under that name stays, before or after.
//!   Other names that start with `.wh.`, and a marker that hides everything below the root (overlayfs would ignore it), are refused.
//! - **Duplicates**: the last one wins. A file replaces a folder with all that is in it; a folder on a folder changes its
//!   attributes only. Existing files are unlinked, never written into.
//! - **Devices, fifos, set-id bits, file capabilities, owners**: by [`Options`]; the default makes nothing that is privileged.
//! - **Attributes**: `user.*` is kept, except `user.overlay.*`. `trusted.*` and `system.*` are refused. Other `security.*`
//!   attributes and those of links and special files are left out and counted.
//! - **Sparse files** in all four of GNU tar's forms become files with holes.
//! - **Folders** get owner, mode and time at the end, deepest first. One that no entry describes gets root, 0755 and the epoch, so
//!   that the result never depends on the moment, on how the destination was made, or on the layers below, which are others in
//!   another image. An overlay shows the uppermost folder's attributes, so such a folder hides those that layers below describe:
//!   [`Report::undescribed_folders`] counts them, for whoever wants to warn.
//!
//! Every refusal is [`UnpackError::Refused`] with the entry and the [`Rule`]. After an error the destination holds whatever was
//! made until then; it is the caller's to remove.
//!
//! # Durability
//! [`Durability::SyncFs`] ends with one `syncfs`, which also reports write errors of any of the files. When it returned, the tree
//! survives a power cut, but for the destination's own name: that needs an `fsync` of its parent. Before, or with
//! [`Durability::None`], a power cut leaves any part of the tree, with files of the right length and wrong content among it. One `syncfs`
//! costs a few flushes where an `fsync` per file costs thousands.
//!
//! # Invariants
//! - The destination is empty at the start and nobody else changes it during the call. Everything in it was therefore
//!   made by the call, and a name that was looked at is still the same when it is used.
//! - Header, pax and sparse-map code is pure and never panics, whatever the bytes.
//! - Everything a layer can make grow has a limit in [`Limits`].
//! - The digests in the [`Report`] cover every byte up to the reader's end, also behind the archive's.
//!
//! # What it does not do
//! It does not apply whiteouts to a tree, mount anything, or know about images; it never guesses a compression.
//! `LIBARCHIVE.xattr.*` records are ignored: the tools that write them write `SCHILY.xattr.*` as well.
//! Multi-volume and incremental archives are refused. Linux 5.8 or later is needed.

mod archive;
mod decode;
mod error;
mod folders;
mod header;
mod options;
mod path;
mod pax;
mod pipe;
mod remove;
mod report;
mod sparse;
mod tree;
mod unpack;
mod xattr;

pub use decode::DamageKind;
pub use error::{EntryRef, NameRule, Rule, UnpackError};
pub use options::{
    Budget, Compression, Durability, EndOfLayer, IdRange, Limits, Options, OverlayXattrs,
    Ownership, Privilege, Special, WhiteoutForm, Whiteouts,
};
pub use remove::{RemoveError, remove_contents, remove_tree};
pub use report::Report;
pub use unpack::{FAULT_POINTS, unpack};
