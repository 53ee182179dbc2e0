//! The examples that are installed with Muster can be used as they are.

use std::path::{Path, PathBuf};

use muster_config::Load;
use muster_mapping::LockUse;
use muster_nodemgr::catalog::Descriptions;
use muster_nodemgr::config::RawConfig;
use muster_orchestrate::{Format, Limits, Workflow};
use muster_template::{Fields, ProviderId};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/machines")
}

#[test]
fn the_configuration_is_valid() {
    let load = Load::<RawConfig>::new("muster-nodemgr").file(examples().join("nodemgr.yaml"));
    let config = load.load().and_then(muster_config::Loaded::validate);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert!(config.providers.docker.is_some_and(|it| it.asked));
}

/// What the reader is told to write.
fn blocks() -> Vec<String> {
    let readme = std::fs::read_to_string(examples().join("README.md")).expect("it is there");
    let blocks = readme.split("```yaml\n").skip(1);
    let blocks = blocks.map(|it| {
        it.split_once("```")
            .map_or(it, |(block, _)| block)
            .to_owned()
    });
    blocks.collect()
}

#[test]
fn the_units_that_are_shown_can_be_read() {
    let blocks = blocks();
    let near = blocks.iter().find(|it| it.contains("iamSocket:")).unwrap();
    let certified = blocks.iter().find(|it| it.contains("controlUrl:"));
    let sockets = |line: &&str| !line.contains("Socket:");
    let far: Vec<&str> = near.lines().filter(sockets).collect();
    let far = format!("{}\n{}", far.join("\n"), certified.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unit.yaml");
    for unit in [near, &far] {
        std::fs::write(&path, unit).unwrap();
        let read = muster_join::UnitFile::read(&path);
        read.unwrap_or_else(|error| panic!("{}", muster_telemetry::ErrorChain(&error)));
    }
}

/// What a reader is told to write, without the signs that keep it from being read.
#[test]
fn what_is_shown_but_switched_off_is_valid() {
    let text = std::fs::read_to_string(examples().join("nodemgr.yaml")).unwrap();
    let all = text.replace("\n  # ", "\n  ").replace("\n# ", "\n");
    assert_ne!(all, text);
    let blocks = blocks();
    let block = blocks.iter().find(|it| it.contains("distributions:"));
    for shown in [&all, block.unwrap()] {
        let load = Load::<RawConfig>::new("muster-nodemgr");
        let load = load.document("shown.yaml", muster_config::Format::Yaml, shown.as_str());
        let config = load.load().and_then(muster_config::Loaded::validate);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let catalog = config.providers.libvirt.unwrap().catalog;
        // The name that the mapping for Debian uses.
        assert!(catalog.get("debian-12").is_some());
    }
}

#[test]
fn every_template_makes_a_machine_for_every_provider() {
    let descriptions = Descriptions {
        templates: vec![examples().join("templates")],
        mappings: vec![examples().join("mappings")],
        optional: Vec::new(),
        added: PathBuf::from("/nowhere/templates.json"),
        lock_file: PathBuf::from("/nowhere/machines.lock"),
        lock: Some(LockUse::Keep),
    };
    let catalog = descriptions
        .load()
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(catalog.templates().len() >= 3);
    for template in catalog.templates().iter() {
        for provider in ProviderId::ALL {
            let made = catalog.spec(template.name().as_str(), provider, &Fields::default());
            made.unwrap_or_else(|error| panic!("{} for {provider}: {error}", template.name()));
        }
    }
    let aws = catalog.spec("debian-small", ProviderId::Aws, &Fields::default());
    assert!(aws.unwrap().ami_lookup.is_some());
}

#[test]
fn the_workflow_can_be_read() {
    let text = std::fs::read(examples().join("workflow.yaml")).unwrap();
    let read = Workflow::read("workflow.yaml", Format::Yaml, &text, &Limits::default());
    let workflow = read.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(workflow.steps().len(), 2);
}
