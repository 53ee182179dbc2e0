//! Machines of EC2: the provider `aws`.
//!
//! It speaks EC2's Query API itself, signed with Signature Version 4; credentials come from where every tool of AWS takes them.
//!
//! # Entry points
//! * [`AwsProvider::open`] with [`AwsSettings`] is a [`Provider`](muster_provider::Provider). [`AwsProvider::find_image`] says which
//!   image a template means today, for the lock file.
//! * [`ec2`] has the requests and answers, pure: typed requests to parameters, XML to values, faults to what they [mean](ec2::Meaning).
//! * `testing` (feature `testing`) is a fake of EC2 that keeps its rules and makes its troubles.
//!
//! # How a machine is made
//! 1. The order is checked ([`WantedProblem`] says what EC2 would never do): region, image, types, tags, user data, hibernation.
//! 2. A machine that was made for the order's token before is looked for by its tags.
//! 3. The image is looked up where the template does not name it: the newest of an owner, or what a parameter of the Systems Manager
//!    says. Another architecture is refused.
//! 4. The attempts are made in turn while EC2 has no capacity: `RunInstances` for one type after another; for spot machines of several
//!    types `CreateFleet` (instant) with a launch template that is gone again when it answers, and then, if the purchase says so,
//!    machines on demand. Each attempt has a client token of its own that follows from the order's, and tags instance and
//!    volumes in the same call.
//!
//! # Fields of templates
//! `ami` or `ami_lookup`, `cpus` and `memoryMB` (the cheapest type of [`AwsSettings::instance_types`] that has them), `diskMB`, `arch`,
//! `region`, `labels` (as tags), `network` (a subnet), and of its own: `instance_type` (one or several), `subnet`, `security_groups`,
//! `iam_profile`, `key_name`, `zone`, `tenancy`, `volume_type`, `encrypted`, `hibernation`.
//!
//! # What can be relied on
//! * One token makes one machine: by EC2's client tokens, by tags, and by going on with the attempt that was not answered when an
//!   order is repeated. One gap is left to the registry, which destroys duplicates: the manager dies while a second attempt is not
//!   answered, comes back before EC2 shows its machine, and the first attempt finds room this time.
//! * A machine that EC2 does not show within [`AwsSettings::settle`] after it was made, or after a restart, is not believed to be
//!   gone.
//! * Which account answers is told ([`home`](muster_provider::Provider::home)): that another account does not know a machine says
//!   nothing about it.
//! * Nothing is changed that does not bear the mark, which is looked at before each change.
//! * What EC2 would refuse is refused before it is asked: stopping a spot machine, hibernating one that was not made for it.
//! * Machines are made only in regions in which [`list`](muster_provider::Provider::list) looks for them.
//! * No secret is in a log, an error, or `Debug`: user data, keys, credentials. Plain HTTP is used with this machine only.
//! * Instances demand IMDSv2. Spot instances are asked for once and end with an interruption, so that nothing comes back by itself.
//!
//! # What the account must be allowed
//! `ec2:` RunInstances, DescribeInstances, StartInstances, StopInstances, RebootInstances, TerminateInstances, DescribeImages,
//! CreateTags; for spot machines of several types also CreateFleet, CreateLaunchTemplate, DescribeLaunchTemplates and
//! DeleteLaunchTemplate; `ssm:GetParameter` for images that a parameter names; `iam:PassRole` for instance profiles. The account's
//! number is asked of STS, for which nobody needs leave; where STS cannot be reached, it is not known.
//!
//! # Tasks
//! None. Requests that EC2 throttles are repeated a few times, at random intervals that grow; all else is the registry's to repeat.
//!
//! # What this crate does not do
//! No networks, keys, roles or images are made: it uses those that there are. Profiles with single sign-on are used through a
//! `credential_process`. Prices are not asked for: types are chosen by size.

#![forbid(unsafe_code)]

mod client;
mod credentials;
pub mod ec2;
mod endpoint;
mod extra;
mod fault;
mod kinds;
mod launches;
mod place;
mod provider;
mod rules;
mod settings;
mod ssm;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wanted;

pub use client::CallError;
pub use credentials::{CredentialSource, NoCredentials};
pub use endpoint::InvalidEndpoint;
pub use extra::ExtraProblem;
pub use fault::FAULT_POINTS;
pub use kinds::Kind;
pub use place::InvalidPlace;
pub use provider::{AwsProvider, OpenAwsError};
pub use rules::VerbProblem;
pub use settings::{AddressChoice, AwsSettings, InvalidRegion, Region};
pub use transport::{HttpSetupError, SendError};
pub use wanted::WantedProblem;
