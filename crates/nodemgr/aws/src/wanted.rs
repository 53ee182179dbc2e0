//! What an order wants of EC2. Pure: an order and the settings in, requests out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_mapping::{AmiLookup, ImageType, MachineSpec};
use muster_provider::{Order, Purchase, Secret};
use muster_template::Arch;

use crate::ec2::{
    CreateFleet, CreateLaunchTemplate, Image, InstanceData, RootVolume, RunInstances,
};
use crate::extra::{Extra, ExtraProblem};
use crate::kinds::{Needs, fitting};
use crate::settings::{AwsSettings, Region};

/// What EC2 takes as user data, before it is encoded.
const MOST_USER_DATA: usize = 16 * 1024;
/// What EC2 takes as a client token.
const LONGEST_TOKEN: usize = 64;
/// What an attempt's number takes of that.
const TOKEN_SUFFIX: usize = 3;
/// What EC2 takes of tags: how many, and how long names and values may be.
const MOST_TAGS: usize = 50;
const LONGEST_TAG_NAME: usize = 128;
const LONGEST_TAG_VALUE: usize = 256;
/// Types that are tried where the template names none.
const MOST_KINDS: usize = 4;
/// Memory of a machine of which nobody says how much it needs: less than this, and systems do not start.
const DEFAULT_MEMORY_MB: u64 = 1024;

/// Says that a machine was given keys, and for which user.
pub(crate) const USER_TAG: &str = "muster-user";
/// Names the launch template that a machine was made with.
pub(crate) const TEMPLATE_TAG: &str = "muster-launch-template";

/// Why an order cannot be carried out by EC2, whatever its state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WantedProblem {
    /// A field of the provider's own.
    #[error(transparent)]
    Extra(#[from] ExtraProblem),
    /// The region is no text for a region.
    #[error(transparent)]
    Region(#[from] crate::settings::InvalidRegion),
    /// Machines that are made where nobody looks would be forgotten.
    #[error(
        "the region {0} is not among the regions of the settings, where machines are looked for"
    )]
    OtherRegion(Region),
    /// Nothing says which image.
    #[error("there is no image: give ami, ami_lookup, or a mapping that gives one of them")]
    NoImage,
    /// The image is of another kind.
    #[error("EC2 starts no image of the type {0:?}")]
    ImageType(ImageType),
    /// EC2 has no such machines.
    #[error("EC2 has no machines of the architecture {0}")]
    Arch(Arch),
    /// No type is large enough.
    #[error(
        "no instance type has {cpus} cpus, {memory_mb} MiB and {arch}: name one as instance_type"
    )]
    NoKind {
        /// Processors.
        cpus: u32,
        /// Memory.
        memory_mb: u64,
        /// Architecture.
        arch: Arch,
    },
    /// A network that is no subnet.
    #[error("the network {0:?} is no subnet: give subnet-...")]
    Network(String),
    /// User data is too long.
    #[error(
        "the user data has {0} bytes with the keys of the machine, and EC2 takes {MOST_USER_DATA}"
    )]
    UserData(usize),
    /// A tag that EC2 does not take.
    #[error("the label {name:?} cannot be a tag: {problem}")]
    Tag {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Too many of them.
    #[error("the machine would have {0} tags, and EC2 takes {MOST_TAGS}")]
    Tags(usize),
    /// A spot machine cannot be hibernated.
    #[error("a spot machine cannot be hibernated: leave hibernation out, or order it on demand")]
    SpotHibernation,
    /// Hibernation is switched off.
    #[error("hibernation is switched off in the settings of the provider")]
    NoHibernation,
    /// Memory is written to the root volume.
    #[error(
        "a machine that can be hibernated has an encrypted root volume: leave encrypted out, or set it"
    )]
    PlainHibernation,
    /// The token is too long.
    #[error("the order's token is longer than the {} characters that EC2 takes", LONGEST_TOKEN - TOKEN_SUFFIX)]
    Token,
}

/// Where the image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageChoice {
    Ami(String),
    Newest {
        owner: String,
        name: String,
        arch: &'static str,
    },
    Parameter(String),
}

/// A way to make the machine. They are tried in turn while there is no capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    Run(RunInstances),
    Fleet {
        template: CreateLaunchTemplate,
        fleet: CreateFleet,
    },
}

/// The region that a spec is for.
pub(crate) fn region(spec: &MachineSpec, regions: &[Region]) -> Result<Region, WantedProblem> {
    let Some(text) = &spec.region else {
        // The provider has at least one.
        return Ok(regions[0].clone());
    };
    let region: Region = text.parse()?;
    match regions.contains(&region) {
        true => Ok(region),
        false => Err(WantedProblem::OtherRegion(region)),
    }
}

/// Where a spec's image comes from.
pub(crate) fn image(spec: &MachineSpec) -> Result<ImageChoice, WantedProblem> {
    if let Some(kind) = spec.image_type
        && kind != ImageType::Ami
    {
        return Err(WantedProblem::ImageType(kind));
    }
    if let Some(ami) = &spec.ami {
        return Ok(ImageChoice::Ami(ami.clone()));
    }
    match &spec.ami_lookup {
        Some(AmiLookup::Newest { owner, name }) => Ok(ImageChoice::Newest {
            owner: owner.clone(),
            name: name.clone(),
            arch: ec2_arch(arch(spec))?,
        }),
        Some(AmiLookup::Ssm { parameter }) => Ok(ImageChoice::Parameter(parameter.clone())),
        None => match &spec.image {
            Some(image) if image.starts_with("ami-") => Ok(ImageChoice::Ami(image.clone())),
            _ => Err(WantedProblem::NoImage),
        },
    }
}

pub(crate) fn arch(spec: &MachineSpec) -> Arch {
    spec.arch.unwrap_or(Arch::Amd64)
}

pub(crate) fn ec2_arch(arch: Arch) -> Result<&'static str, WantedProblem> {
    arch.ec2_name().ok_or(WantedProblem::Arch(arch))
}

/// An order that EC2 can carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) region: Region,
    pub(crate) image: ImageChoice,
    extra: Extra,
    kinds: Vec<String>,
    /// The size of the root volume.
    size_gib: Option<u64>,
    user_data: Option<Secret>,
    tags: BTreeMap<String, String>,
    purchase: Purchase,
    token: String,
}

impl Wanted {
    pub(crate) fn read(
        order: &Order,
        settings: &AwsSettings,
        regions: &[Region],
    ) -> Result<Self, WantedProblem> {
        let spec = &order.spec;
        let mut extra = Extra::read(&spec.extra)?;
        if let Some(network) = &spec.network {
            if !network.starts_with("subnet-") {
                return Err(WantedProblem::Network(network.clone()));
            }
            extra.subnet.get_or_insert_with(|| network.clone());
        }
        let spot = matches!(order.purchase, Purchase::Spot { .. });
        match (extra.hibernation, settings.hibernation, spot) {
            (true, false, _) => return Err(WantedProblem::NoHibernation),
            (true, _, true) => return Err(WantedProblem::SpotHibernation),
            (true, _, _) if extra.encrypted == Some(false) => {
                return Err(WantedProblem::PlainHibernation);
            }
            _ => {}
        }
        let token = order.mark.token.as_str();
        if token.len() + TOKEN_SUFFIX > LONGEST_TOKEN {
            return Err(WantedProblem::Token);
        }
        Ok(Self {
            region: region(spec, regions)?,
            image: image(spec)?,
            kinds: kinds(order, &extra, settings)?,
            extra,
            size_gib: spec.disk_mb.map(|size| size.get().div_ceil(1024)),
            user_data: user_data(order)?,
            tags: tags(order)?,
            purchase: order.purchase.clone(),
            token: token.to_owned(),
        })
    }

    /// Whether something about the image must be known besides its name.
    pub(crate) fn needs_root_device(&self) -> bool {
        let extra = &self.extra;
        let volume = extra.volume_type.is_some() || extra.encrypted.is_some();
        self.size_gib.is_some() || extra.hibernation || volume
    }

    fn data(&self, image: &Image) -> InstanceData {
        let extra = &self.extra;
        let root = self.needs_root_device().then(|| RootVolume {
            // Every image of Linux that has none says so by this name.
            device: image
                .root_device
                .clone()
                .unwrap_or_else(|| "/dev/xvda".to_owned()),
            size_gib: self.size_gib,
            kind: extra.volume_type.clone(),
            encrypted: match extra.hibernation {
                true => Some(true),
                false => extra.encrypted,
            },
        });
        InstanceData {
            image: image.id.clone(),
            user_data: self.user_data.clone(),
            key_name: extra.key_name.clone(),
            subnet: extra.subnet.clone(),
            security_groups: extra.security_groups.clone(),
            iam_profile: extra.iam_profile.clone(),
            zone: extra.zone.clone(),
            tenancy: extra.tenancy.clone(),
            root,
            hibernation: extra.hibernation,
            tags: self.tags.clone(),
        }
    }

    /// The ways to make the machine, in the order in which they are tried: always the same for the same order. Each has a token of
    /// its own, because EC2 takes no token twice for two different requests.
    pub(crate) fn attempts(&self, image: &Image) -> Vec<Attempt> {
        let data = self.data(image);
        let mut attempts = Vec::new();
        let token = |nth: usize| match nth {
            0 => self.token.clone(),
            _ => format!("{}-{nth}", self.token),
        };
        let run = |attempts: &mut Vec<Attempt>, kind: &String, spot| {
            attempts.push(Attempt::Run(RunInstances {
                data: data.clone(),
                kind: kind.clone(),
                spot,
                token: token(attempts.len()),
            }));
        };
        let (spot, on_demand) = match &self.purchase {
            Purchase::OnDemand => (false, true),
            Purchase::Spot { fallback, .. } => (true, *fallback),
        };
        match self.kinds.as_slice() {
            [kind] if spot => run(&mut attempts, kind, true),
            kinds if spot => attempts.push(self.fleet(&data, kinds)),
            _ => {}
        }
        if on_demand {
            for kind in &self.kinds {
                run(&mut attempts, kind, false);
            }
        }
        attempts
    }

    fn fleet(&self, data: &InstanceData, kinds: &[String]) -> Attempt {
        let name = format!("muster-{}", self.token);
        let mut data = data.clone();
        data.tags.insert(TEMPLATE_TAG.to_owned(), name.clone());
        Attempt::Fleet {
            fleet: CreateFleet {
                template: name.clone(),
                kinds: kinds.to_vec(),
                subnet: data.subnet.clone(),
                token: self.token.clone(),
                tags: data.tags.clone(),
            },
            template: CreateLaunchTemplate { name, data },
        }
    }
}

/// The types to try: those of the purchase, those of the template, or those that fit.
fn kinds(
    order: &Order,
    extra: &Extra,
    settings: &AwsSettings,
) -> Result<Vec<String>, WantedProblem> {
    if let Purchase::Spot { types, .. } = &order.purchase
        && !types.is_empty()
    {
        return Ok(types.clone());
    }
    if !extra.kinds.is_empty() {
        return Ok(extra.kinds.clone());
    }
    let spec = &order.spec;
    let arch = arch(spec);
    ec2_arch(arch)?;
    let needs = Needs {
        cpus: spec.cpus.map_or(1, std::num::NonZeroU32::get),
        memory_mb: spec
            .memory_mb
            .map_or(DEFAULT_MEMORY_MB, std::num::NonZeroU64::get),
        arch,
    };
    let kinds = fitting(&settings.instance_types, needs, MOST_KINDS);
    match kinds.is_empty() {
        true => Err(WantedProblem::NoKind {
            cpus: needs.cpus,
            memory_mb: needs.memory_mb,
            arch,
        }),
        false => Ok(kinds),
    }
}

fn user_data(order: &Order) -> Result<Option<Secret>, WantedProblem> {
    let text = match &order.ssh {
        Some(seed) => Some(muster_seed::user_data(&order.spec, seed)),
        None => order.spec.user_data.clone(),
    };
    match text {
        Some(text) if text.len() > MOST_USER_DATA => Err(WantedProblem::UserData(text.len())),
        text => Ok(text.map(Secret::new)),
    }
}

/// The mark, and what people look for in a console.
fn tags(order: &Order) -> Result<BTreeMap<String, String>, WantedProblem> {
    let mut tags = BTreeMap::from([("Name".to_owned(), order.mark.machine.to_string())]);
    for (name, value) in &order.spec.labels {
        let problem = if name.is_empty() || name.chars().count() > LONGEST_TAG_NAME {
            Some("its name is empty or longer than 128 characters")
        } else if value.chars().count() > LONGEST_TAG_VALUE {
            Some("its value is longer than 256 characters")
        } else if name.starts_with("aws:") || name.starts_with("muster-") {
            Some("names that begin with aws: or muster- are not for templates")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(WantedProblem::Tag {
                name: muster_config::printable(name, LONGEST_TAG_NAME),
                problem,
            });
        }
        tags.insert(name.clone(), value.clone());
    }
    if let Some(seed) = &order.ssh {
        tags.insert(USER_TAG.to_owned(), seed.user.clone());
    }
    for (name, value) in order.mark.labels() {
        tags.insert(name.to_owned(), value.to_owned());
    }
    // One more is there for a launch template.
    match tags.len() >= MOST_TAGS {
        true => Err(WantedProblem::Tags(tags.len())),
        false => Ok(tags),
    }
}
