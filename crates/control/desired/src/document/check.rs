//! From what is written to what can be meant: everything that is wrong is told at once, each with its key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use muster_api::domain::{
    Digest, EnvVar, InstanceFilter, ItemId, ItemType, NodeId, OwnerId, SubjectId,
};
use muster_balance::Distribution;
use muster_config::{ConfigError, Format, Limits, Load, Problems, Validate};

use super::raw::{
    CertificateEntry, ChainEntry, DistributionName, Document, EnvEntry, ImageEntry, InstancesEntry,
    ItemEntry, ItemKind,
};
use super::{
    DesiredStatus, EnvOverride, ImageSource, Instances, InstancesKey, Item, LOCAL_SUBJECT,
    RegistryAccess, Subject, Trust, UnitConfigText,
};

/// Texts of which Muster knows nothing but that they are names have at most so many bytes.
const MAX_TEXT: usize = 512;

/// Something that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentProblem {
    /// Where: `items[2].version`.
    pub key: String,
    /// What.
    pub message: String,
}

impl fmt::Display for DocumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// A document that says nothing that could be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the desired status is not valid: {}", listed(problems))]
pub struct InvalidDocument {
    /// Everything that is wrong.
    pub problems: Vec<DocumentProblem>,
}

fn listed(problems: &[DocumentProblem]) -> String {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    problems.join("; ")
}

impl DesiredStatus {
    /// Reads a document that an operator wrote. Paths in it are relative to the folder of `name`, which otherwise only stands
    /// in messages.
    ///
    /// # Errors
    /// With file, line and key of everything that is wrong.
    pub fn read(
        name: &str,
        format: Format,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Self, ConfigError> {
        Load::<Document>::new("muster apply")
            .document(name, format, bytes)
            .limits(limits)
            .load()?
            .validate()
            .map(|mut desired| {
                let folder = Path::new(name).parent().unwrap_or(Path::new(""));
                desired.resolve(folder);
                desired
            })
    }

    fn resolve(&mut self, folder: &Path) {
        for item in self.items.values_mut() {
            for path in item.image.paths_mut() {
                let joined = folder.join(&*path);
                // Only an empty path has no absolute form, and those were refused.
                *path = std::path::absolute(&joined).unwrap_or(joined);
            }
        }
    }
}

impl Document {
    /// What the document means. There is no folder that its paths could be relative to.
    ///
    /// # Errors
    /// With the key of everything that is wrong.
    pub fn check(self) -> Result<DesiredStatus, InvalidDocument> {
        let mut problems = Vec::new();
        let mut complain = |key: &str, message: String| {
            let key = key.to_owned();
            problems.push(DocumentProblem { key, message });
        };
        let mut desired = self.checked(&mut complain);
        for item in desired.items.values_mut() {
            for path in item.image.paths_mut() {
                if !path.is_absolute() {
                    let message = format!("{} must be absolute", path.display());
                    complain(&format!("items.{}.image", item.id), message);
                }
            }
        }
        match problems.is_empty() {
            true => Ok(desired),
            false => Err(InvalidDocument { problems }),
        }
    }
}

impl ImageSource {
    /// Every path of a file.
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Cloud { .. } => Vec::new(),
            Self::Layout { path, .. } => vec![path],
            Self::Registry { access, .. } => {
                let password = access.login.iter_mut().map(|(_, file)| file);
                password.chain(&mut access.ca).collect()
            }
        }
    }
}

impl Validate for Document {
    type Valid = DesiredStatus;

    fn validate(self, problems: &mut Problems<'_>) -> Option<DesiredStatus> {
        Some(self.checked(&mut |key, message| problems.report(key, message)))
    }
}

/// Takes what is wrong: the key, and what is the matter with it.
type Complain<'a> = dyn FnMut(&str, String) + 'a;

/// A part, or a complaint about it.
fn part<T, E: fmt::Display>(
    value: Result<T, E>,
    key: &str,
    complain: &mut Complain<'_>,
) -> Option<T> {
    value.map_err(|error| complain(key, error.to_string())).ok()
}

fn name_text(text: String) -> Result<String, String> {
    match text.len() {
        0 => Err("must not be empty".to_owned()),
        length if length > MAX_TEXT => Err(format!("must have at most {MAX_TEXT} bytes")),
        _ if text.chars().any(char::is_control) => {
            Err("must not hold control characters".to_owned())
        }
        _ => Ok(text),
    }
}

/// Puts a value in, or complains that there is one.
fn insert_once<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    at: &str,
    complain: &mut Complain<'_>,
) {
    if map.insert(key, value).is_some() {
        complain(at, "stands twice".to_owned());
    }
}

impl Document {
    /// What can be meant. What was complained about is left out.
    fn checked(self, complain: &mut Complain<'_>) -> DesiredStatus {
        let mut desired = DesiredStatus::default();
        for (at, node) in self.nodes.into_iter().enumerate() {
            let at = format!("nodes[{at}].id");
            if let Some(id) = part(NodeId::new(&node.id), &at, complain) {
                insert_once(&mut desired.paused, id, node.paused, &at, complain);
            }
        }
        desired.unit_config = self
            .unit_config
            .and_then(|value| unit_config(&value, complain));
        for (at, entry) in self.items.into_iter().enumerate() {
            let at = format!("items[{at}]");
            if let Some(item) = item(entry, &at, complain) {
                let id = item.id.clone();
                insert_once(&mut desired.items, id, item, &format!("{at}.id"), complain);
            }
        }
        for (at, entry) in self.instances.into_iter().enumerate() {
            let at = format!("instances[{at}]");
            if let Some((key, instances)) = instances(entry, &at, complain) {
                let at = format!("{at}.item");
                if !desired.items.contains_key(&key.item) {
                    complain(&at, "is not one of the items".to_owned());
                }
                insert_once(&mut desired.instances, key, instances, &at, complain);
            }
        }
        for (at, entry) in self.subjects.into_iter().enumerate() {
            let at = format!("subjects[{at}].id");
            if let Some(id) = part(SubjectId::new(&entry.id), &at, complain) {
                let subject = Subject {
                    kind: entry.kind,
                    reported_from_unit: entry.reported_from_unit,
                };
                insert_once(&mut desired.subjects, id, subject, &at, complain);
            }
        }
        for (at, entry) in self.env.into_iter().enumerate() {
            desired
                .env
                .extend(env(entry, &format!("env[{at}]"), complain));
        }
        desired.trust = trust(self.certificates, self.certificate_chains, complain);
        desired
    }
}

fn unit_config(value: &serde_json::Value, complain: &mut Complain<'_>) -> Option<UnitConfigText> {
    let Some(object) = value.as_object() else {
        complain("unitConfig", "must be a table".to_owned());
        return None;
    };
    let version = object
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("version"))
        .map(|(_, version)| version);
    match version {
        Some(serde_json::Value::String(version)) => Some(UnitConfigText {
            version: version.clone(),
            // Serde's map is sorted, so that the order in which keys were written means nothing.
            json: value.to_string(),
        }),
        Some(_) => {
            complain("unitConfig.version", "must be a text".to_owned());
            None
        }
        None => {
            complain("unitConfig", "needs a version".to_owned());
            None
        }
    }
}

fn item(entry: ItemEntry, at: &str, complain: &mut Complain<'_>) -> Option<Item> {
    let id = part(ItemId::new(&entry.id), &format!("{at}.id"), complain);
    let version = part(name_text(entry.version), &format!("{at}.version"), complain);
    let owner = entry.owner.as_deref().map(OwnerId::new).transpose();
    let owner = part(owner, &format!("{at}.owner"), complain);
    let image = image(entry.image, at, complain);
    Some(Item {
        id: id?,
        kind: match entry.kind {
            ItemKind::Service => ItemType::Service,
            ItemKind::Component => ItemType::Component,
        },
        version: version?,
        owner: owner?,
        image: image?,
    })
}

fn image(entry: ImageEntry, item: &str, complain: &mut Complain<'_>) -> Option<ImageSource> {
    let at = format!("{item}.image");
    let index: Result<Option<Digest>, _> = entry.digest.as_deref().map(str::parse).transpose();
    let index = part(index, &format!("{at}.digest"), complain)?;
    let has_access = entry.user.is_some() || entry.password_file.is_some() || !entry.ca.is_empty();
    let key = |name: &str| format!("{at}.{name}");
    if entry.name.is_some() && entry.layout.is_none() {
        complain(&key("name"), "is for images of a layout only".to_owned());
    }
    if (has_access || entry.insecure) && entry.registry.is_none() {
        let name = if entry.insecure { "insecure" } else { "user" };
        complain(&key(name), "is for images of a registry only".to_owned());
    }
    match (entry.layout, entry.registry, index) {
        (Some(path), None, index) => {
            if path.as_os_str().is_empty() {
                complain(&key("layout"), "must not be empty".to_owned());
            }
            Some(ImageSource::Layout {
                path,
                name: entry.name,
                index,
            })
        }
        (None, Some(reference), index) => {
            let reference = part(name_text(reference), &key("registry"), complain)?;
            let login: Option<(String, PathBuf)> = match (entry.user, entry.password_file) {
                (Some(user), Some(file)) => Some((user, file)),
                (None, None) => None,
                (Some(_), None) => {
                    complain(&key("user"), "goes with passwordFile".to_owned());
                    None
                }
                (None, Some(_)) => {
                    complain(&key("passwordFile"), "goes with user".to_owned());
                    None
                }
            };
            let access = RegistryAccess {
                login,
                ca: entry.ca,
                insecure: entry.insecure,
            };
            Some(ImageSource::Registry {
                reference,
                access,
                index,
            })
        }
        (None, None, Some(index)) => Some(ImageSource::Cloud { index }),
        (Some(_), Some(_), _) => {
            complain(&key("registry"), "does not go with layout".to_owned());
            None
        }
        (None, None, None) => {
            // Named by the item's own line: an empty table has none.
            let message = "needs an image with one of layout, registry and digest";
            complain(&format!("{item}.id"), message.to_owned());
            None
        }
    }
}

fn instances(
    entry: InstancesEntry,
    at: &str,
    complain: &mut Complain<'_>,
) -> Option<(InstancesKey, Instances)> {
    let item = part(ItemId::new(&entry.item), &format!("{at}.item"), complain);
    let subject = entry.subject.as_deref().unwrap_or(LOCAL_SUBJECT);
    let subject = part(SubjectId::new(subject), &format!("{at}.subject"), complain);
    let pin = entry.node.as_deref().map(NodeId::new).transpose();
    let pin = part(pin, &format!("{at}.node"), complain);
    let labels: Option<_> = (entry.labels.into_iter().enumerate())
        .map(|(nth, label)| part(name_text(label), &format!("{at}.labels[{nth}]"), complain))
        .collect();
    let key = InstancesKey {
        item: item?,
        subject: subject?,
    };
    let instances = Instances {
        count: entry.count,
        priority: entry.priority,
        labels: labels?,
        pin: pin?,
        distribution: match entry.distribution {
            DistributionName::Best => Distribution::Best,
            DistributionName::Spread => Distribution::Spread,
        },
    };
    Some((key, instances))
}

fn env(entry: EnvEntry, at: &str, complain: &mut Complain<'_>) -> Option<EnvOverride> {
    let item = entry.item.as_deref().map(ItemId::new).transpose();
    let item = part(item, &format!("{at}.item"), complain)?;
    let subject = entry.subject.as_deref().map(SubjectId::new).transpose();
    let subject = part(subject, &format!("{at}.subject"), complain)?;
    let filter = InstanceFilter::new(item, subject, entry.instance);
    let filter = part(filter, &format!("{at}.instance"), complain)?;
    let mut variables = Vec::with_capacity(entry.variables.len());
    for (name, value) in entry.variables {
        let key = format!("{at}.variables.{name}");
        let variable = name.parse().and_then(|name| EnvVar::new(name, value.0));
        variables.extend(part(variable, &key, complain));
    }
    Some(EnvOverride { filter, variables })
}

fn trust(
    certificates: Vec<CertificateEntry>,
    chains: Vec<ChainEntry>,
    complain: &mut Complain<'_>,
) -> Trust {
    let mut trust = Trust::default();
    for entry in certificates {
        // The same certificate may come with several chains.
        trust
            .certificates
            .insert(entry.fingerprint, entry.certificate);
    }
    for (at, entry) in chains.into_iter().enumerate() {
        for (nth, fingerprint) in entry.fingerprints.iter().enumerate() {
            if !trust.certificates.contains_key(fingerprint) {
                let key = format!("certificateChains[{at}].fingerprints[{nth}]");
                complain(&key, "is not one of the certificates".to_owned());
            }
        }
        let at = format!("certificateChains[{at}].name");
        insert_once(
            &mut trust.chains,
            entry.name,
            entry.fingerprints,
            &at,
            complain,
        );
    }
    trust
}
