//! Files of a small fleet, from the disk to the machine that each provider is asked for.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where it stopped"
)]

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use muster_mapping::{
    AmiLookup, ImageType, LockFile, LockUse, MachineSpec, Mappings, Pin, Pins, Plan, Request,
    Resolved, Stale, pin_for, resolve,
};
use muster_template::{Arch, Limits, ProviderId, TemplateSet, Value};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fleet")
        .join(name)
}

struct Fleet {
    templates: TemplateSet,
    mappings: Mappings,
}

impl Fleet {
    fn load() -> Self {
        let limits = Limits::default();
        Self {
            templates: TemplateSet::load(&[file("templates.yaml")], &limits).unwrap(),
            mappings: Mappings::load(&[file("mapping.yaml")], &limits).unwrap(),
        }
    }

    /// As a provider would ask whose own machine is of the 64-bit x86 kind.
    fn resolve(&self, template: &str, provider: ProviderId, region: Option<&str>) -> Resolved {
        let text = |text: &str| Value::String(text.to_owned());
        let mut request = Request::new(provider);
        request.defaults.set("arch", text("x86_64")).unwrap();
        if let Some(region) = region {
            request.given.set("region", text(region)).unwrap();
        }
        resolve(&self.templates, template, &self.mappings, &request).unwrap()
    }

    fn spec(&self, template: &str, provider: ProviderId, region: Option<&str>) -> MachineSpec {
        MachineSpec::from_resolved(&self.resolve(template, provider, region)).unwrap()
    }
}

#[test]
fn every_template_makes_a_machine_for_every_provider() {
    let fleet = Fleet::load();
    assert_eq!((fleet.templates.len(), fleet.mappings.len()), (3, 6));
    for template in fleet.templates.iter() {
        for provider in ProviderId::ALL {
            let spec = fleet.spec(template.name().as_str(), provider, None);
            assert_eq!(spec.user.as_deref(), Some("ubuntu"));
            assert_eq!(spec.labels["role"], "worker");
        }
    }
}

#[test]
fn an_image_is_found_by_architecture_and_region() {
    let fleet = Fleet::load();
    let name = |spec: &MachineSpec| match &spec.ami_lookup {
        Some(AmiLookup::Newest { name, .. }) => name.clone(),
        other => panic!("{other:?}"),
    };
    let amd64 = fleet.spec("worker", ProviderId::Aws, Some("eu-central-1"));
    // Mappings see the provider's own architecture, and nobody demands it.
    assert_eq!((amd64.arch, amd64.ami.as_deref()), (None, None));
    assert!(name(&amd64).contains("-amd64-"));
    let arm64 = fleet.spec("worker-arm", ProviderId::Aws, Some("us-east-1"));
    assert_eq!(
        (arm64.arch, arm64.ami.as_deref()),
        (Some(Arch::Arm64), None)
    );
    assert!(name(&arm64).contains("-arm64-"));
    let european = fleet.spec("worker-arm", ProviderId::Aws, Some("eu-central-1"));
    assert_eq!(european.ami.as_deref(), Some("ami-0a116fa7c861dd5f9"));
    assert_eq!(european.ami_lookup, None);
    assert_eq!(european.image_type, Some(ImageType::Ami));

    let disk = |template| fleet.spec(template, ProviderId::Libvirt, None).image;
    assert_eq!(
        disk("worker").as_deref(),
        Some("noble-server-cloudimg-amd64.img")
    );
    assert_eq!(
        disk("worker-arm").as_deref(),
        Some("noble-server-cloudimg-arm64.img")
    );
}

#[test]
fn a_child_has_what_it_does_not_speak_of_from_its_parent_and_nothing_that_it_takes_back() {
    let fleet = Fleet::load();
    let large = fleet.spec("worker-large", ProviderId::Libvirt, None);
    assert_eq!(large.cpus, NonZeroU32::new(16));
    assert_eq!(large.disk_mb, NonZeroU64::new(10 * 1024));
    assert_eq!(large.network.as_deref(), Some("default"));
    assert_eq!(large.labels["size"], "large");
    let arm = fleet.spec("worker-arm", ProviderId::Docker, None);
    assert_eq!(arm.disk_mb, None);
    assert_eq!(arm.env["CARGO_BUILD_JOBS"], "2");
}

#[test]
fn the_story_names_file_line_and_column() {
    let fleet = Fleet::load();
    let resolved = fleet.resolve("worker-arm", ProviderId::Aws, Some("eu-central-1"));
    let story = resolved.explain();
    let ami = story.fields.iter().find(|it| it.field == "ami").unwrap();
    let step = ami.steps.last().unwrap();
    assert!(step.by.starts_with("mapping #4 (aws) at "), "{}", step.by);
    assert!(step.by.ends_with("mapping.yaml:24:5"), "{}", step.by);
    let at = step.at.as_deref().unwrap();
    assert!(at.ends_with("mapping.yaml:28:14"), "{at}");
}

#[test]
fn what_was_found_once_is_used_until_the_template_changes() {
    let fleet = Fleet::load();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machines.lock");
    let limits = Limits::default();
    let worker = fleet.resolve("worker", ProviderId::Aws, Some("eu-central-1"));

    let mut lock = LockFile::load(&path, &limits).unwrap();
    assert_eq!(lock.plan(LockUse::Keep, &worker), Ok(Plan::Find));
    let found = Pins::new([(Pin::Ami, "ami-0123456789abcdef0".to_owned())]).unwrap();
    assert!(lock.pin(pin_for(&worker), found.clone()));
    lock.save(&path).unwrap();

    let lock = LockFile::load(&path, &limits).unwrap();
    assert_eq!(
        lock.plan(LockUse::Frozen, &worker),
        Ok(Plan::Use(found.clone()))
    );
    let spec = MachineSpec::from_resolved(&worker.clone().pinned(&found)).unwrap();
    assert_eq!(spec.ami.as_deref(), Some("ami-0123456789abcdef0"));

    let elsewhere = fleet.resolve("worker", ProviderId::Aws, Some("eu-west-1"));
    assert_eq!(lock.plan(LockUse::Keep, &elsewhere), Ok(Plan::Find));
    assert!(matches!(lock.stale([&elsewhere])[..], [Stale::Unused(_)]));
    assert_eq!(lock.stale([&elsewhere, &worker]), []);
}
