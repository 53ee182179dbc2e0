//! The file that says what shall run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::domain::{Digest, EnvVar, ItemId, RuntimeType, SubjectId};
use muster_config::{ConfigError, Duration, Load, Problems, Validate};
use serde::Deserialize;

/// One item runs at most so often; more is a typing error.
const MAX_INSTANCES: u64 = 1000;

/// What shall run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The items, each in one version.
    pub items: Vec<DesiredItem>,
}

/// An item and how it shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredItem {
    /// Its name.
    pub id: ItemId,
    /// Whom it runs for.
    pub subject: SubjectId,
    /// Its version, for people; a change of it restarts the item.
    pub version: String,
    /// Where its image comes from.
    pub image: ImageFrom,
    /// Who runs it; the first that its image names and this machine has where absent.
    pub runtime: Option<RuntimeType>,
    /// How many of it run.
    pub instances: u64,
    /// Higher ones start first.
    pub priority: u64,
    /// Variables over those of the image.
    pub env: Vec<EnvVar>,
    /// Variables over all others, for a while from the moment that the file is read.
    pub env_override: Vec<Override>,
}

/// A variable that is set for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// What is set.
    pub variable: EnvVar,
    /// For how long; until the file says something else where absent.
    pub lasts: Option<std::time::Duration>,
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageFrom {
    /// An OCI image layout: a folder or a tar archive.
    Layout {
        /// The folder or archive.
        path: PathBuf,
        /// Which of its images; the only one where absent.
        name: Option<String>,
    },
    /// A registry.
    Registry {
        /// As `HOST[:PORT]/NAME[:TAG][@DIGEST]`.
        reference: String,
        /// How it is reached.
        access: RegistryAccess,
    },
    /// It is here already, from an earlier run.
    Present(Digest),
}

/// How a registry is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryAccess {
    /// The user.
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) to trust beside the system's.
    pub ca: Vec<PathBuf>,
    /// Speak HTTP without protection.
    pub insecure: bool,
}

/// The file as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDesired {
    items: Vec<RawItem>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawItem {
    id: String,
    subject: Option<String>,
    version: Option<String>,
    image: RawImage,
    runtime: Option<String>,
    instances: Option<u64>,
    priority: u64,
    env: BTreeMap<String, String>,
    env_override: BTreeMap<String, RawOverride>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawOverride {
    value: String,
    #[serde(rename = "for")]
    lasts: Option<Duration>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawImage {
    layout: Option<PathBuf>,
    name: Option<String>,
    registry: Option<String>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca: Vec<PathBuf>,
    insecure: bool,
    digest: Option<String>,
}

impl Desired {
    /// Reads a file (YAML, JSON or TOML, by its name). Paths in it are relative to its folder.
    ///
    /// # Errors
    /// With the line and key of everything that is wrong.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let raw = Load::<RawDesired>::new("muster sm run").file(file).load()?;
        let mut desired: Self = raw.validate()?;
        let folder = file.parent().unwrap_or(Path::new(""));
        for item in &mut desired.items {
            item.image.resolve(folder);
        }
        Ok(desired)
    }
}

impl ImageFrom {
    fn resolve(&mut self, folder: &Path) {
        match self {
            Self::Layout { path, .. } => *path = folder.join(&*path),
            Self::Registry { access, .. } => {
                let files = access.password_file.iter_mut().chain(&mut access.ca);
                for path in files {
                    *path = folder.join(&*path);
                }
            }
            Self::Present(_) => {}
        }
    }
}

impl Validate for RawDesired {
    type Valid = Desired;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Desired> {
        let mut names = BTreeSet::new();
        let mut items = Vec::with_capacity(self.items.len());
        for (index, raw) in self.items.into_iter().enumerate() {
            let path = format!("items[{index}]");
            if let Some(item) = raw.validate(&path, problems) {
                if !names.insert((item.id.clone(), item.subject.clone())) {
                    problems.report(&format!("{path}.id"), "stands twice for the same subject");
                }
                items.push(item);
            }
        }
        Some(Desired { items })
    }
}

/// A part of an item, or a report of what is wrong with it.
fn part<T, E: std::fmt::Display>(
    value: Result<T, E>,
    key: String,
    problems: &mut Problems<'_>,
) -> Option<T> {
    value.map_err(|error| problems.report(&key, error)).ok()
}

impl RawItem {
    fn validate(self, path: &str, problems: &mut Problems<'_>) -> Option<DesiredItem> {
        let id = part(ItemId::new(&self.id), format!("{path}.id"), problems);
        let subject = self.subject.as_deref().unwrap_or("local");
        let subject = part(SubjectId::new(subject), format!("{path}.subject"), problems);
        let runtime = self.runtime.as_deref().map(RuntimeType::new).transpose();
        let runtime = part(runtime, format!("{path}.runtime"), problems);
        let instances = self.instances.unwrap_or(1);
        if instances > MAX_INSTANCES {
            let most = format!("must be at most {MAX_INSTANCES}");
            problems.report(&format!("{path}.instances"), most);
        }
        let mut env = Vec::with_capacity(self.env.len());
        for (name, value) in self.env {
            let key = format!("{path}.env.{name}");
            let variable = name.parse().and_then(|name| EnvVar::new(name, value));
            env.extend(part(variable, key, problems));
        }
        let mut env_override = Vec::with_capacity(self.env_override.len());
        for (name, raw) in self.env_override {
            let key = format!("{path}.envOverride.{name}");
            let variable = name.parse().and_then(|name| EnvVar::new(name, raw.value));
            let lasts = raw.lasts.map(|it| it.get());
            env_override
                .extend(part(variable, key, problems).map(|variable| Override { variable, lasts }));
        }
        let image = self.image.validate(path, problems);
        Some(DesiredItem {
            id: id?,
            subject: subject?,
            version: self.version.unwrap_or_else(|| "0.0.0".to_owned()),
            image: image?,
            runtime: runtime?,
            instances,
            priority: self.priority,
            env,
            env_override,
        })
    }
}

impl RawImage {
    fn validate(self, item: &str, problems: &mut Problems<'_>) -> Option<ImageFrom> {
        let path = format!("{item}.image");
        let has_access = self.user.is_some()
            || self.password_file.is_some()
            || !self.ca.is_empty()
            || self.insecure;
        let mut only_with = |given: bool, key: &str, owner: &str, is_owner: bool| {
            if given && !is_owner {
                problems.report(&format!("{path}.{key}"), format!("is for {owner} only"));
            }
        };
        let (in_layout, in_registry) = (self.layout.is_some(), self.registry.is_some());
        only_with(self.name.is_some(), "name", "images of a layout", in_layout);
        only_with(has_access, "user", "images of a registry", in_registry);
        if self.user.is_some() != self.password_file.is_some() {
            problems.report(&format!("{path}.user"), "goes with passwordFile");
        }
        // A key that stands in the file has a line.
        let blamed = match (&self.layout, &self.registry) {
            (Some(_), _) => format!("{path}.layout"),
            (None, Some(_)) => format!("{path}.registry"),
            (None, None) => format!("{item}.id"),
        };
        match (self.layout, self.registry, self.digest) {
            (Some(layout), None, None) => Some(ImageFrom::Layout {
                path: layout,
                name: self.name,
            }),
            (None, Some(reference), None) => Some(ImageFrom::Registry {
                reference,
                access: RegistryAccess {
                    user: self.user,
                    password_file: self.password_file,
                    ca: self.ca,
                    insecure: self.insecure,
                },
            }),
            (None, None, Some(digest)) => {
                let digest: Result<Digest, _> = digest.parse();
                part(digest, format!("{path}.digest"), problems).map(ImageFrom::Present)
            }
            _ => {
                let one = "the image needs exactly one of layout, registry and digest";
                problems.report(&blamed, one);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Desired, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("set.yaml");
        std::fs::write(&file, text).unwrap();
        Desired::load(&file).map_err(|error| muster_telemetry::ErrorChain(&error).to_string())
    }

    #[test]
    fn a_short_file_is_enough() {
        let desired = load("items:\n- id: web\n  image: {layout: /images/web.tar}\n").unwrap();
        let [item] = desired.items.as_slice() else {
            panic!("{desired:?}");
        };
        assert_eq!((item.instances, item.priority), (1, 0));
        assert_eq!(item.subject.as_str(), "local");
        let path = PathBuf::from("/images/web.tar");
        assert_eq!(item.image, ImageFrom::Layout { path, name: None });
        assert_eq!(load("items: []").unwrap().items, []);
    }

    #[test]
    fn a_variable_may_be_set_for_a_while() {
        let text = "items:\n- id: web\n  image: {layout: x}\n  envOverride:\n    LEVEL: {value: debug, for: 10m}\n    \
                    MODE: {value: slow}\n";
        let desired = load(text).unwrap();
        let set = desired.items[0].env_override.iter();
        let set: Vec<_> = set
            .map(|it| {
                (
                    it.variable.name().to_string(),
                    it.lasts.map(|it| it.as_secs()),
                )
            })
            .collect();
        assert_eq!(set, [("LEVEL".into(), Some(600)), ("MODE".into(), None)]);
        let wrong = "items:\n- id: web\n  image: {layout: x}\n  envOverride: {A=B: {value: c}}\n";
        assert!(load(wrong).unwrap_err().contains("envOverride.A=B"));
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_place() {
        let error = load(
            "items:\n- id: web\n  instances: 5000\n  image: {layout: a, digest: b}\n\
             - id: web\n  image: {registry: r/x, user: me}\n- id: web\n  image: {digest: rubbish}\n  env: {A=B: c}\n",
        )
        .unwrap_err();
        for part in [
            "instances",
            "exactly one of layout, registry and digest",
            "goes with passwordFile",
            "items[2].image.digest",
            "set.yaml:",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        let twice = "items:\n- {id: a, image: {layout: x}}\n- {id: a, image: {layout: y}}\n";
        assert!(load(twice).unwrap_err().contains("stands twice"));
        assert!(
            load("items:\n- {id: a, imag: {}}\n")
                .unwrap_err()
                .contains("imag")
        );
    }
}
