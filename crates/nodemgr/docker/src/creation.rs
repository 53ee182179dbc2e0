//! What a container is made of: decided from an order, without asking anybody.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{ContainerCreateBody, HealthConfig, HostConfig, Mount, MountType};
use muster_mapping::{ImageType, MachineSpec};
use muster_provider::{MachineId, Order, Purchase};

use crate::image::Exact;
use crate::options::{InvalidOption, MountOption, MountSource, Options};

/// What the labels of our own begin with; a template may not set such.
const RESERVED: &str = "muster-";
/// The image as it was ordered. Docker's own word for it changes when the image's name is given to another.
pub(crate) const IMAGE_LABEL: &str = "muster-image";
/// The image by a checksum that a registry has, or by the engine's own id.
pub(crate) const EXACT_LABEL: &str = "muster-exact";
pub(crate) const LOCAL_LABEL: &str = "muster-local-image";
/// What of the order does not hold, for people.
pub(crate) const NOTE_LABEL: &str = "muster-note";
/// Waits for ever, in every image that has a shell's usual tools.
const WAITS: [&str; 2] = ["sleep", "infinity"];
/// What a name of a host may be long.
const LONGEST_HOSTNAME: usize = 63;

/// A container that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Creation {
    /// The name is the lock: of all who make it at once, one succeeds.
    pub(crate) name: String,
    /// The image, as the engine names it.
    pub(crate) image: String,
    /// Its platform, where the order has one.
    pub(crate) platform: Option<String>,
    pub(crate) body: ContainerCreateBody,
}

impl Creation {
    /// What is made when the image is known: of that and no other, also if its name is given to another meanwhile.
    pub(crate) fn made_of(&self, exact: &Exact) -> ContainerCreateBody {
        let mut body = self.body.clone();
        body.image = Some(exact.reference.clone());
        let label = match exact.local {
            true => LOCAL_LABEL,
            false => EXACT_LABEL,
        };
        let labels = body.labels.get_or_insert_default();
        labels.insert(label.to_owned(), exact.pin.clone());
        body
    }
}

/// The name of a machine's container.
pub(crate) fn container_name(machine: &MachineId) -> String {
    format!("muster-{machine}")
}

/// Decides on everything. `boundless` is why the disk cannot be limited, where the engine has said so.
pub(crate) fn plan(order: &Order, boundless: Option<&str>) -> Result<Creation, InvalidOption> {
    let spec = &order.spec;
    let options = Options::read(&spec.extra)?;
    if matches!(
        order.purchase,
        Purchase::Spot {
            fallback: false,
            ..
        }
    ) {
        return Err(InvalidOption::new(
            "purchase",
            "Docker has no spot machines",
        ));
    }
    if let Some(kind) = spec.image_type.filter(|it| *it != ImageType::Container) {
        let kind = format!("{kind:?}").to_lowercase();
        let message = format!("an image of type {kind} makes no container");
        return Err(InvalidOption::new("imageType", message));
    }
    let image = image(spec)?;
    let limit = spec.disk_mb.filter(|_| boundless.is_none());
    let command = match &options.command {
        Some(words) => words.clone(),
        None => WAITS.map(str::to_owned).to_vec(),
    };
    let environment = spec
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let hostname: String = order
        .mark
        .machine
        .as_str()
        .chars()
        .take(LONGEST_HOSTNAME)
        .collect();
    let body = ContainerCreateBody {
        hostname: Some(hostname.trim_matches('-').to_owned()),
        user: spec.user.clone(),
        env: Some(environment.collect()),
        cmd: Some(command),
        // What the image would run is not what a machine runs; nor is its health a machine's.
        entrypoint: Some(Vec::new()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(image.clone()),
        labels: Some(labels(order, &options, boundless, &image)?),
        host_config: Some(HostConfig {
            init: Some(options.init),
            nano_cpus: spec.cpus.map(|cpus| i64::from(cpus.get()) * 1_000_000_000),
            memory: memory(spec)?,
            memory_swap: memory(spec)?,
            storage_opt: limit.map(|size| HashMap::from([("size".to_owned(), format!("{size}M"))])),
            network_mode: network(spec)?,
            mounts: Some(options.mounts.iter().map(mount).collect()),
            privileged: Some(options.rights.is_privileged()),
            cap_add: unless_empty(options.rights.added()),
            cap_drop: unless_empty(options.rights.dropped()),
            security_opt: unless_empty(options.rights.security_options()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    Ok(Creation {
        name: container_name(&order.mark.machine),
        platform: spec.arch.map(|arch| format!("linux/{}", arch.as_str())),
        image,
        body,
    })
}

/// What is not said is the engine's to choose.
fn unless_empty(words: Vec<String>) -> Option<Vec<String>> {
    (!words.is_empty()).then_some(words)
}

/// The image, by its checksum where that is known: a tag may have moved since.
fn image(spec: &MachineSpec) -> Result<String, InvalidOption> {
    let Some(image) = spec.image.as_deref() else {
        return Err(InvalidOption::new(
            "image",
            "is not set, and Docker makes machines of images only",
        ));
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:@._-".contains(&byte);
    if image.is_empty() || !image.bytes().all(plain) {
        return Err(InvalidOption::new(
            "image",
            "is no name of a container image",
        ));
    }
    let Some(digest) = &spec.digest else {
        return Ok(image.to_owned());
    };
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash belongs to a port.
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    let name = name[path..]
        .find(':')
        .map_or(name, |colon| &name[..path + colon]);
    Ok(format!("{name}@{digest}"))
}

fn memory(spec: &MachineSpec) -> Result<Option<i64>, InvalidOption> {
    let bytes = |mib: u64| i64::try_from(mib).ok()?.checked_mul(1 << 20);
    let Some(size) = spec.memory_mb else {
        return Ok(None);
    };
    let bytes = bytes(size.get());
    let bytes = bytes.ok_or_else(|| InvalidOption::new("memoryMB", "is more than there can be"))?;
    Ok(Some(bytes))
}

fn network(spec: &MachineSpec) -> Result<Option<String>, InvalidOption> {
    let Some(network) = &spec.network else {
        return Ok(None);
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    match network.bytes().all(letter) {
        true => Ok(Some(network.clone())),
        false => Err(InvalidOption::new(
            "network",
            "is no name of a Docker network",
        )),
    }
}

fn mount(option: &MountOption) -> Mount {
    let (typ, source) = match &option.source {
        MountSource::Bind(path) => (MountType::BIND, Some(path.clone())),
        MountSource::Volume(name) => (MountType::VOLUME, Some(name.clone())),
        MountSource::Anonymous => (MountType::VOLUME, None),
        MountSource::Tmpfs => (MountType::TMPFS, None),
    };
    Mount {
        typ: Some(typ),
        source,
        target: Some(option.target.clone()),
        read_only: Some(option.read_only),
        ..Mount::default()
    }
}

/// The template's labels, our own, and the mark above all.
fn labels(
    order: &Order,
    options: &Options,
    boundless: Option<&str>,
    image: &str,
) -> Result<HashMap<String, String>, InvalidOption> {
    let mut labels: HashMap<String, String> = HashMap::new();
    for (key, value) in &order.spec.labels {
        if key.starts_with(RESERVED) {
            let message = format!("a label that begins with `{RESERVED}` is Muster's own");
            return Err(InvalidOption::new(&format!("labels.{key}"), message));
        }
        labels.insert(key.clone(), value.clone());
    }
    labels.insert(IMAGE_LABEL.to_owned(), image.to_owned());
    let notes = notes(order, options, boundless);
    if !notes.is_empty() {
        labels.insert(NOTE_LABEL.to_owned(), notes.join("; "));
    }
    for (key, value) in order.mark.labels() {
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// What people should know: what of the order does not hold, and what is weaker than usual.
fn notes(order: &Order, options: &Options, boundless: Option<&str>) -> Vec<String> {
    let spec = &order.spec;
    let mut notes = Vec::new();
    if let (Some(_), Some(why)) = (spec.disk_mb, boundless) {
        notes.push(format!("diskMB is not limited: {why}"));
    }
    notes.extend(options.rights.notes());
    if spec.network.as_deref() == Some("host") {
        notes.push("shares the network of the engine's machine".to_owned());
    }
    let unused: BTreeMap<&str, bool> = BTreeMap::from([
        ("region", spec.region.is_some()),
        ("sshKeys", !spec.ssh_keys.is_empty()),
        ("userData", spec.user_data.is_some()),
        ("iso", spec.iso.is_some()),
        ("ami", spec.ami.is_some() || spec.ami_lookup.is_some()),
    ]);
    let unused: Vec<&str> = unused
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
        .collect();
    if !unused.is_empty() {
        notes.push(format!("not used by Docker: {}", unused.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests;
