//! Templates, mappings and the lock file, as they are written now.
//!
//! They are read whenever they are needed: whoever changes a file sees the effect at once, and a mistake in it is told to
//! whoever asks, with its line.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_mapping::{
    BadPin, FrozenError, LockError, LockFile, LockUse, MachineSpec, Mappings, Pin, Pins, Plan,
    Request, Resolved, SpecError, pin_for, resolve,
};
use muster_template::{
    Arch, DescriptionError, Fields, Format, Limits, ProviderId, Template, TemplateName,
    TemplateSet, UnknownTemplate, Value, field,
};

pub use self::kept::{ChangeTemplatesError, Outcome};

/// The template that says nothing, for machines that are described by whoever asks.
pub const PLAIN: &str = "plain";
/// The field for a part of a region that fails on its own.
pub(crate) const ZONE: &str = "zone";

/// Where descriptions of machines are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptions {
    /// Files and folders with templates.
    pub templates: Vec<PathBuf>,
    /// Files and folders with mappings.
    pub mappings: Vec<PathBuf>,
    /// Folders among these that nobody named: they may be missing, and may come while the manager runs.
    pub optional: Vec<PathBuf>,
    /// The manager's own file, with the templates that were added through the contract. It need not be there.
    pub added: PathBuf,
    /// The lock file.
    pub lock_file: PathBuf,
    /// How it is used; `None`: not at all.
    pub lock: Option<LockUse>,
}

/// Why descriptions of machines cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadCatalogError {
    /// Templates or mappings.
    #[error(transparent)]
    Descriptions(DescriptionError),
    /// A template was added, and is written in a file too.
    #[error(
        "the template `{name}` was added to the manager, and is written at {at} too: remove it there, or with `muster machine templates remove {name}`"
    )]
    Twice {
        /// Which.
        name: String,
        /// Where it is written.
        at: String,
    },
    /// The lock file.
    #[error(transparent)]
    Lock(LockError),
}

/// Why a template makes no machine for a provider.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such template.
    #[error(transparent)]
    Unknown(UnknownTemplate),
    /// The lock file forbids it.
    #[error(transparent)]
    Frozen(FrozenError),
    /// What it comes to is no machine.
    #[error(transparent)]
    Spec(SpecError),
}

/// A field that was asked for makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} {problem}")]
pub struct BadField {
    /// Which.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Everything that is written about machines.
#[derive(Debug, Clone)]
pub struct Catalog {
    templates: TemplateSet,
    /// Those among them that were added.
    added: BTreeSet<TemplateName>,
    mappings: Mappings,
    lock: LockFile,
    lock_use: Option<LockUse>,
    /// What holds at each provider where nobody says otherwise.
    usual: BTreeMap<ProviderId, Fields>,
}

impl Descriptions {
    /// Reads them. It reads files: not in a task that others wait for.
    ///
    /// # Errors
    /// What cannot be read, or everything that is wrong with it.
    pub fn load(&self) -> Result<Catalog, LoadCatalogError> {
        let limits = Limits::default();
        let failed = LoadCatalogError::Descriptions;
        let (templates, added) = self.load_templates()?;
        let mappings = Mappings::load(&self.present(&self.mappings), &limits).map_err(failed)?;
        let lock = match self.lock {
            Some(_) => LockFile::load(&self.lock_file, &limits).map_err(LoadCatalogError::Lock)?,
            None => LockFile::default(),
        };
        Ok(Catalog {
            templates,
            added,
            mappings,
            lock,
            lock_use: self.lock,
            usual: BTreeMap::new(),
        })
    }

    /// Those of the paths that are there, or have to be.
    fn present(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let is_expected = |path: &&PathBuf| !self.optional.contains(path) || path.is_dir();
        paths.iter().filter(is_expected).cloned().collect()
    }

    /// The templates of files, of the contract, and built in.
    fn load_templates(&self) -> Result<(TemplateSet, BTreeSet<TemplateName>), LoadCatalogError> {
        let limits = Limits::default();
        let failed = LoadCatalogError::Descriptions;
        let written = self.written_templates()?;
        let added = kept::read(&self.added).map_err(failed)?;
        let names = added.iter().map(|it| it.name().clone()).collect();
        for template in &added {
            if let Ok(first) = written.get(template.name().as_str()) {
                return Err(LoadCatalogError::Twice {
                    name: template.name().to_string(),
                    at: first.origin().to_string(),
                });
            }
        }
        let all = written.iter().cloned().chain(added).collect();
        let all = TemplateSet::new(all, &limits).map_err(failed)?;
        Ok((with_plain(all, &limits).map_err(failed)?, names))
    }

    /// The templates of files alone.
    fn written_templates(&self) -> Result<TemplateSet, LoadCatalogError> {
        let loaded = TemplateSet::load(&self.present(&self.templates), &Limits::default());
        loaded.map_err(LoadCatalogError::Descriptions)
    }

    /// Changes the lock file, if anything is to be changed. Two at a time would undo each other: the caller sees to that.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn change_lock(&self, change: impl FnOnce(&mut LockFile) -> bool) -> Result<(), LockError> {
        let mut lock = LockFile::load(&self.lock_file, &Limits::default())?;
        match change(&mut lock) {
            true => lock.save(&self.lock_file),
            false => Ok(()),
        }
    }
}

fn with_plain(templates: TemplateSet, limits: &Limits) -> Result<TemplateSet, DescriptionError> {
    if templates.get(PLAIN).is_ok() {
        return Ok(templates);
    }
    let text = format!("name: {PLAIN}\n");
    let plain = Template::read_all(Path::new("built in"), Format::Yaml, text.as_bytes(), limits)?;
    let all = templates.iter().cloned().chain(plain);
    TemplateSet::new(all.collect(), limits)
}

impl Catalog {
    /// With what holds at a provider where nobody says otherwise.
    #[must_use]
    pub fn with_usual(mut self, provider: ProviderId, usual: Fields) -> Self {
        self.usual.insert(provider, usual);
        self
    }

    /// The same, with another place where nobody says otherwise at this provider.
    #[must_use]
    pub fn in_place(&self, provider: ProviderId, region: &str, zone: Option<&str>) -> Self {
        let mut usual = self.usual.get(&provider).cloned().unwrap_or_default();
        for (name, value) in [(field::REGION, Some(region)), (ZONE, zone)] {
            if let Some(value) = value {
                // Both are texts, and the configuration's own words.
                let _ = usual.set(name, Value::String(value.to_owned()));
            }
        }
        self.clone().with_usual(provider, usual)
    }

    /// The templates.
    #[must_use]
    pub fn templates(&self) -> &TemplateSet {
        &self.templates
    }

    /// Whether a template was added through the contract.
    #[must_use]
    pub fn is_added(&self, template: &str) -> bool {
        self.added.contains(template)
    }

    /// The lock file.
    #[must_use]
    pub fn lock(&self) -> &LockFile {
        &self.lock
    }

    /// What a template comes to for a provider, whatever is pinned.
    ///
    /// # Errors
    /// There is no such template.
    pub fn unpinned(
        &self,
        template: &str,
        provider: ProviderId,
        given: &Fields,
    ) -> Result<Resolved, UnknownTemplate> {
        let mut request = Request::new(provider);
        request.given = given.clone();
        if let Some(usual) = self.usual.get(&provider) {
            request.defaults = usual.clone();
        }
        resolve(&self.templates, template, &self.mappings, &request)
    }

    /// What a template comes to for a provider, with what is pinned.
    ///
    /// # Errors
    /// There is no such template, or the lock file forbids it.
    pub fn resolve(
        &self,
        template: &str,
        provider: ProviderId,
        given: &Fields,
    ) -> Result<Resolved, ResolveError> {
        let resolved = self.unpinned(template, provider, given);
        let resolved = resolved.map_err(ResolveError::Unknown)?;
        let Some(lock_use) = self.lock_use.filter(|_| has_image(&resolved)) else {
            return Ok(resolved);
        };
        match self.lock.plan(lock_use, &resolved) {
            Ok(Plan::Use(pins)) => Ok(resolved.pinned(&pins)),
            Ok(Plan::Find) => Ok(resolved),
            Err(frozen) => Err(ResolveError::Frozen(frozen)),
        }
    }

    /// The machine that a template makes for a provider.
    ///
    /// # Errors
    /// There is none.
    pub fn spec(
        &self,
        template: &str,
        provider: ProviderId,
        given: &Fields,
    ) -> Result<MachineSpec, ResolveError> {
        let resolved = self.resolve(template, provider, given)?;
        let spec = MachineSpec::from_resolved(&resolved);
        let mut spec = spec.map_err(ResolveError::Spec)?;
        let found_for = pin_for(&resolved);
        let has_image = has_image(&resolved);
        let is_open = has_image && !self.lock.holds(&found_for);
        spec.found_from = has_image.then_some(found_for.inputs);
        spec.pin_for =
            (self.lock_use.is_some_and(|it| it != LockUse::Frozen) && is_open).then_some(found_for);
        Ok(spec)
    }
}

/// Whether there is an image, which could mean something else tomorrow.
#[must_use]
pub fn has_image(resolved: &Resolved) -> bool {
    let images = [field::IMAGE, field::AMI, field::AMI_LOOKUP, field::ISO];
    images.iter().any(|name| resolved.get(name).is_some())
}

/// What a provider says that it has found, in the details of a machine that it made: `image` is an image of EC2, `exact` one of a
/// registry with its digest, `digest` the checksum of what was downloaded; `localImage` and `localDigest` are what only the
/// provider's host has.
#[must_use]
pub fn pins_in(details: &BTreeMap<String, String>) -> Option<Pins> {
    let named = [
        (Pin::Ami, "image"),
        (Pin::Image, "exact"),
        (Pin::Digest, "digest"),
        (Pin::LocalImage, "localImage"),
        (Pin::LocalDigest, "localDigest"),
    ];
    let found = named.into_iter().filter_map(|(pin, name)| {
        let value = details.get(name)?;
        // What could mean something else tomorrow is not pinned; the machine is there all the same.
        let one: Result<Pins, BadPin> = Pins::new([(pin, value.clone())]);
        one.is_ok().then(|| (pin, value.clone()))
    });
    Pins::new(found).ok()
}

/// What a provider has where nobody says otherwise.
#[must_use]
pub fn usual(arch: Option<Arch>, region: Option<&str>) -> Fields {
    let mut usual = Fields::default();
    let named = [
        (field::ARCH, arch.map(Arch::as_str)),
        (field::REGION, region),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            // Both are texts, and a provider's own words.
            let _ = usual.set(name, Value::String(value.to_owned()));
        }
    }
    usual
}

/// Fields as somebody wrote them on a command line: numbers where the field is one, and for fields that only providers know
/// whatever JSON there is.
///
/// # Errors
/// A field or value that makes no sense.
pub fn fields(given: &BTreeMap<String, String>) -> Result<Fields, BadField> {
    let mut fields = Fields::default();
    for (name, text) in given {
        let set = fields.set(name, value(name, text));
        set.map_err(|problem| BadField {
            field: name.clone(),
            problem,
        })?;
    }
    Ok(fields)
}

fn value(name: &str, text: &str) -> Value {
    let string = || Value::String(text.to_owned());
    if name.starts_with(field::LABEL_PREFIX) {
        return string();
    }
    match field::common(name) {
        Some(field::CPUS | field::MEMORY_MB | field::DISK_MB) => {
            text.parse().map_or_else(|_| string(), Value::Integer)
        }
        Some(_) => string(),
        None => serde_json::from_str(text).unwrap_or_else(|_| string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptions(folder: &Path) -> Descriptions {
        Descriptions {
            templates: vec![folder.join("templates.yaml")],
            mappings: vec![folder.join("mappings.yaml")],
            optional: Vec::new(),
            added: folder.join("added.json"),
            lock_file: folder.join("machines.lock"),
            lock: Some(LockUse::Keep),
        }
    }

    #[test]
    fn a_folder_that_nobody_named_may_come_later() {
        let folder = tempfile::tempdir().unwrap();
        let usual = folder.path().join("templates");
        let mut descriptions = descriptions(folder.path());
        descriptions.templates = vec![usual.clone()];
        descriptions.mappings.clear();
        assert!(descriptions.load().is_err(), "one that was named is missed");
        descriptions.optional = vec![usual.clone()];
        assert_eq!(descriptions.load().unwrap().templates().len(), 1);
        std::fs::create_dir(&usual).unwrap();
        std::fs::write(usual.join("small.yaml"), TEMPLATES).unwrap();
        assert_eq!(descriptions.load().unwrap().templates().len(), 2);
    }

    const TEMPLATES: &str = "name: small\nimage: debian\ncpus: 2\n";
    const MAPPINGS: &str =
        "mapping:\n- match: { image: debian }\n  overrides: { docker: { image: 'debian:12' } }\n";

    fn written() -> (tempfile::TempDir, Descriptions) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("templates.yaml"), TEMPLATES).unwrap();
        std::fs::write(folder.path().join("mappings.yaml"), MAPPINGS).unwrap();
        let descriptions = descriptions(folder.path());
        (folder, descriptions)
    }

    #[test]
    fn a_template_with_its_mapping_and_its_pin_makes_a_machine() {
        let (_folder, descriptions) = written();
        let catalog = descriptions.load().unwrap();
        let none = Fields::default();
        let spec = catalog.spec("small", ProviderId::Docker, &none).unwrap();
        assert_eq!(spec.image.as_deref(), Some("debian:12"));
        let open = spec.clone();

        let digest = format!("debian@sha256:{}", "a".repeat(64));
        let details = BTreeMap::from([("exact".to_owned(), digest.clone())]);
        let pins = pins_in(&details).unwrap();
        let found_for = spec.pin_for.unwrap();
        descriptions
            .change_lock(|lock| lock.pin(found_for, pins))
            .unwrap();
        let again = descriptions.load().unwrap();
        let spec = again.spec("small", ProviderId::Docker, &none).unwrap();
        assert_eq!(spec.image, Some(digest));
        assert_eq!(spec.pin_for, None, "it is pinned already");
        assert_eq!(spec.found_from, open.found_from);
        assert!(spec.is_like(&open), "it is what it was pinned from");
        let plain = again.spec(PLAIN, ProviderId::Local, &none).unwrap();
        assert_eq!(plain.pin_for, None, "there is no image");
    }

    #[test]
    fn frozen_means_only_what_is_pinned() {
        let (_folder, mut descriptions) = written();
        descriptions.lock = Some(LockUse::Frozen);
        let catalog = descriptions.load().unwrap();
        let none = Fields::default();
        let refused = catalog.spec("small", ProviderId::Docker, &none);
        assert!(matches!(refused, Err(ResolveError::Frozen(_))));
        assert!(
            catalog.spec(PLAIN, ProviderId::Local, &none).is_ok(),
            "there is no image to pin"
        );
    }

    fn in_region(descriptions: &Descriptions, region: &str) -> Catalog {
        let usual = usual(Some(Arch::Amd64), Some(region));
        let catalog = descriptions.load().unwrap();
        catalog.with_usual(ProviderId::Aws, usual)
    }

    #[test]
    fn mappings_see_the_architecture_and_the_region_of_the_provider() {
        let (folder, descriptions) = written();
        let mapping = |region: &str, ami: &str| {
            format!(
                "- match: {{ image: debian, arch: amd64, region: {region} }}\n  overrides: {{ aws: {{ ami: {ami} }} }}\n"
            )
        };
        let [here, there] = ["ami-00000001", "ami-00000002"];
        let mappings = mapping("eu-central-1", here) + &mapping("us-east-1", there);
        let path = folder.path().join("mappings.yaml");
        std::fs::write(path, format!("mapping:\n{mappings}")).unwrap();
        let none = Fields::default();
        let in_region = |region: &str| in_region(&descriptions, region);
        for (region, ami) in [("eu-central-1", here), ("us-east-1", there)] {
            let spec = in_region(region).spec("small", ProviderId::Aws, &none);
            let spec = spec.unwrap();
            assert_eq!(spec.ami.as_deref(), Some(ami));
            // Where it is made stays so, whatever the configuration says later.
            assert_eq!(spec.region.as_deref(), Some(region));
            assert_eq!(spec.arch, None, "nobody asked for one");
        }
        let catalog = in_region("us-east-1");
        let given = fields(&[("region".to_owned(), "eu-central-1".to_owned())].into()).unwrap();
        let spec = catalog.spec("small", ProviderId::Aws, &given).unwrap();
        assert_eq!(spec.ami.as_deref(), Some(here), "who asks is asked");
        let other = catalog.spec("small", ProviderId::Docker, &none).unwrap();
        assert_eq!(other.region, None, "it is not the region of others");
    }

    #[test]
    fn a_pin_of_one_region_is_not_used_in_another() {
        let (_folder, descriptions) = written();
        let none = Fields::default();
        let catalog = in_region(&descriptions, "eu-central-1");
        let resolved = catalog.resolve("small", ProviderId::Aws, &none).unwrap();
        let pins = Pins::new([(Pin::Ami, "ami-12345678".to_owned())]).unwrap();
        let pinned = descriptions.change_lock(|lock| lock.pin(pin_for(&resolved), pins));
        pinned.unwrap();
        let ami = |region: &str| {
            let catalog = in_region(&descriptions, region);
            catalog.spec("small", ProviderId::Aws, &none).unwrap().ami
        };
        assert_eq!(ami("eu-central-1").as_deref(), Some("ami-12345678"));
        assert_eq!(ami("us-east-1"), None);
    }

    #[test]
    fn what_providers_do_not_say_rightly_is_not_pinned() {
        let details = [("image", "latest"), ("digest", "md5:1"), ("arch", "amd64")];
        let details = details.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pins_in(&details.into()), None);
    }

    #[test]
    fn fields_are_typed_as_they_are_meant() {
        let given = [
            ("image", "12"),
            ("cpu", "4"),
            ("labels.tier", "1"),
            ("privileged", "true"),
            ("mounts", "[\"/a:/b\"]"),
            ("shm_size", "1g"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let fields = fields(&given.into()).unwrap();
        let value = |name: &str| fields.get(name).unwrap().value.clone();
        assert_eq!(value("image"), Value::String("12".to_owned()));
        assert_eq!(value("cpus"), Value::Integer(4));
        assert_eq!(value("labels.tier"), Value::String("1".to_owned()));
        assert_eq!(value("privileged"), Value::Bool(true));
        assert!(matches!(value("mounts"), Value::List(_)));
        assert_eq!(value("shm_size"), Value::String("1g".to_owned()));
        let wrong = BTreeMap::from([("cpus".to_owned(), "many".to_owned())]);
        let refused = super::fields(&wrong).unwrap_err();
        assert!(refused.to_string().contains("cpus"), "{refused}");
    }

    #[test]
    fn a_template_that_says_nothing_is_always_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut descriptions = descriptions(folder.path());
        descriptions.templates.clear();
        descriptions.mappings.clear();
        let catalog = descriptions.load().unwrap();
        let given = BTreeMap::from([("image".to_owned(), "debian:12".to_owned())]);
        let given = fields(&given).unwrap();
        let spec = catalog.spec(PLAIN, ProviderId::Docker, &given).unwrap();
        assert_eq!(spec.image.as_deref(), Some("debian:12"));
    }
}
