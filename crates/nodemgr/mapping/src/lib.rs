//! Mappings: from a template to what one provider shall make.
//!
//! The same thing has other names elsewhere: what Docker calls `ubuntu:24.04` is a disc for libvirt and an AMI in EC2, another one
//! in each region and for each architecture. Mappings say so in one place:
//!
//! ```yaml
//! mapping:
//! - match: { image: "ubuntu:*", arch: arm64, region: eu-central-1 }
//!   match_type: glob                       # or exact, which is the default; may stand inside `match` too
//!   overrides:
//!     all: { user: ubuntu }
//!     aws: { image_type: ami, ami_lookup: { ssm: /aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id } }
//! ```
//!
//! # Entry points
//! * [`Mappings::load`] and [`Mappings::read`] read mappings.
//! * [`resolve`] lays a template's layers and the mappings on each other for a [`Request`]; [`Resolved`] knows every field with who
//!   set it, and [`Resolved::explain`] tells the whole story, also of mappings that did not match.
//! * [`MachineSpec::from_resolved`] types the fields for a provider.
//! * [`LockFile`] pins what names of images meant: [`LockFile::plan`] before a provider looks them up, [`LockFile::pin`] after it,
//!   [`Resolved::pinned`] to use a pin.
//!
//! There are no tasks and no channels: everything is pure but [`Mappings::load`], [`LockFile::load`] and [`LockFile::save`].
//!
//! # The order of layers
//! Each layer speaks of some fields; the last one that speaks of a field wins, and `null` takes the field back.
//! 1. The request's defaults: the architecture and the region that the provider has where nobody names one.
//! 2. Fields of templates (common ones, labels and `extra`), the topmost ancestor first and the template itself last.
//! 3. `overrides.all` of the same templates in the same order.
//! 4. The provider's overrides, in the same order.
//! 5. What the request gives.
//! 6. Each mapping that matches, in the order of the file: its `overrides.all`, then those for the provider.
//! 7. What is pinned.
//!
//! A mapping matches when all fields that it names are what it wants; a field that is not set, a list and a map never are. It looks
//! at the fields as the layers before have left them, mappings above it included: one mapping can give an image its full name and
//! the next one match that. So the order of two mappings matters where both set the same field, and where one sets a field that
//! the other one matches; otherwise it does not.
//!
//! # Invariants
//! * The same inputs give the same result, and nothing depends on the order of keys in a file.
//! * What nobody set is not there: no field is ever 0 or empty because it is not spoken of.
//! * A pattern that is no glob, an unknown provider, and a field that is nearly a known one are errors when a file is read, with
//!   line and column. A pattern that could never match (an architecture that there is not) is one too.
//! * A pin is used only while everything that it was found from is the same.
//!
//! # What this crate does not do
//! It asks no registry and no cloud: providers find images, and hand what they found to the lock file.

#![forbid(unsafe_code)]

mod explain;
mod lock;
mod mapping;
mod own;
mod pattern;
mod resolve;
mod spec;

pub use explain::{Explanation, FieldStory, MappingStory, Step};
pub use lock::{
    BadPin, FrozenError, Inputs, LockError, LockFile, LockKey, LockUse, Pin, PinFor, Pins, Plan,
    Stale, pin_for,
};
pub use mapping::{Condition, Mapping, Mappings};
pub use own::{own_fields, refusal};
pub use pattern::{MatchType, Pattern};
pub use resolve::{Assignment, Considered, Outcome, Provenance, Request, Resolved, resolve};
pub use spec::{AmiLookup, FieldProblem, ImageType, MachineSpec, SpecError};
