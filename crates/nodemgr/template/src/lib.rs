//! Templates: what a machine shall be, whoever makes it.
//!
//! ```yaml
//! name: ubuntu-worker-small
//! extends: worker            # what is not said here, `worker` says
//! image: ubuntu:24.04
//! cpus: 2
//! memoryMB: 256
//! labels: { team: build }
//! overrides:
//!   all: { user: ubuntu }
//!   libvirt:
//!     memoryMB: 1024
//!     diskGB: 3
//!     network: default
//! extra:
//!   instance_type: m7i.large # for the provider that knows it: EC2
//! ```
//!
//! # Entry points
//! * [`TemplateSet::load`] reads files and folders, [`TemplateSet::new`] takes templates from elsewhere; [`TemplateSet::get`]
//!   and [`TemplateSet::lineage`] look one up.
//! * [`Template::read_all`] reads one text, YAML or JSON, of one or several documents. [`Template`] is also a serde value: what
//!   an interface sends is read by the same rules as a file ([`Template::from_value`]).
//! * [`Fields`], [`Overrides`] and [`Value`] are what templates and mappings consist of; [`field`] names the fields.
//! * [`ProviderId`] is who can make machines: a closed set.
//!
//! What a template comes to for a provider, with the mappings applied, is the mapping crate's to say. There are no tasks and no
//! channels here: everything is pure but [`TemplateSet::load`] and [`read_texts`] below it.
//!
//! # Keys
//! | key | value |
//! |---|---|
//! | `name` | letters, digits, `-`, `_`, `.`; at most 63; required |
//! | `extends` | the name of another template |
//! | `image`, `region` | text without spaces |
//! | `user` | a user's name |
//! | `cpus` (`cpu`) | 1 to 4096 |
//! | `memoryMB`, `diskMB`, `diskGB` | at least 1; `diskGB` is 1024 of `diskMB`, and only one of them may stand in a table |
//! | `arch` | `amd64` (`x86_64`), `arm64` (`aarch64`), `arm`, `riscv64` |
//! | `sshKeys` (`ssh_keys`) | one public key or a list of them; a private one is refused |
//! | `userData` (`user_data`, `user-data`) | text |
//! | `labels` | a table of texts |
//! | `overrides` | tables of fields under `all` and under providers |
//! | `extra` | fields that only some provider knows |
//!
//! Keys are matched as they are written. One that has no meaning is an error with its file, line and column and with what was
//! probably meant; all errors of all files are reported together. In `overrides` any field may stand, because providers know
//! fields that this crate does not; here only what is nearly a known field is an error, and a field of such a name goes under
//! `extra`. Which fields a provider knows, the mapping crate says: when a template is resolved for a provider, one that nobody knows
//! is refused, and so is one that was meant for a provider that does not know it.
//!
//! # Unset, taken back, and inherited
//! A field is set, taken back (`null`), or not spoken of. Nothing is ever 0 because nobody spoke of it, and 0 itself is refused
//! where it makes no machine. What a child does not speak of, its parent says; `null` in a child takes the parent's value back,
//! so that the provider's default holds.
//!
//! Field by field, the last one that speaks wins, in this order: the topmost ancestor's fields, then the next one's, down to the
//! template itself; then `overrides.all` from the topmost ancestor down; then the provider's overrides from the topmost ancestor
//! down. So a child's common field does not beat what its parent says for one provider: the child overrides it for that
//! provider. A field is replaced whole, lists and maps too, with one exception: each label is a field of its own
//! (`labels.team`).
//!
//! # Invariants
//! * A [`Fields`] holds each field once, under one name, and common fields only with values that are valid.
//! * Every parent in a [`TemplateSet`] is there, and nobody is their own ancestor.
//! * No input panics; size, depth, number of values, files, templates and ancestors are bounded by [`Limits`].
//! * What may be secret (user data, values of environment variables, what stands under keys such as `password`) is neither in
//!   `Debug` texts nor in messages: see [`show`].

#![forbid(unsafe_code)]

mod arch;
mod error;
pub mod field;
mod fields;
mod findings;
mod limits;
mod name;
mod provider;
mod set;
mod show;
mod sources;
mod template;
mod value;

pub use arch::{Arch, UnknownArch};
pub use error::{DescriptionError, UnknownTemplate};
pub use fields::{Assigned, Fields, Overrides};
pub use findings::{Findings, join};
pub use limits::Limits;
pub use name::{BadTemplateName, TemplateName};
pub use provider::{ProviderId, Target, UnknownProvider};
pub use set::TemplateSet;
pub use show::show;
pub use sources::read_texts;
pub use template::Template;
pub use value::{Finite, Value};

/// What problems with documents are made of: they are part of errors here.
pub use muster_config::{Format, Origin, Problem};
