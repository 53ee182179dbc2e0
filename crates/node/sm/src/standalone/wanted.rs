//! What a file wants, in the controller's words. Pure.

use std::time::SystemTime;

use muster_api::domain::{
    AlertRules, DataPath, Gid, InstanceFilter, InstanceIdent, InstanceInfo, ItemType, RuntimeInfo,
    Uid,
};
use muster_image::InstalledImage;
use muster_launcher::EnvOverride;

use super::ids::Ids;
use super::{Desired, DesiredItem, StandaloneError};

fn idents_of(item: &DesiredItem) -> impl Iterator<Item = InstanceIdent> {
    (0..item.instances).map(|index| InstanceIdent {
        item_id: item.id.clone(),
        subject_id: item.subject.clone(),
        instance: index,
        item_type: ItemType::Service,
        preinstalled: false,
    })
}

pub(super) fn idents(desired: &Desired) -> Vec<InstanceIdent> {
    desired.items.iter().flat_map(idents_of).collect()
}

/// The instances of the file; everybody has an id.
pub(super) fn instances(
    desired: &Desired,
    installed: &[InstalledImage],
    runtimes: &[RuntimeInfo],
    ids: &Ids,
) -> Result<Vec<InstanceInfo>, StandaloneError> {
    let mut instances = Vec::new();
    for (item, image) in desired.items.iter().zip(installed) {
        let runtime = choose_runtime(item, image, runtimes)?;
        refuse_resources(item, image)?;
        let quotas = &image.item_config.quotas;
        for instance in idents_of(item) {
            let id = ids.get(&instance.to_string()).copied().unwrap_or_default();
            let own = format!("{}/{}/{}", item.id, item.subject, instance.instance);
            let state = format!("{own}/state.dat");
            instances.push(InstanceInfo {
                instance,
                version: item.version.clone(),
                manifest_digest: image.digest,
                owner_id: None,
                runtime_id: runtime.runtime_id.clone(),
                uid: Uid::new(id).map_err(StandaloneError::Invalid)?,
                gid: Gid::new(id).map_err(StandaloneError::Invalid)?,
                priority: item.priority,
                storage_path: kept(quotas.storage_limit, &own)?,
                state_path: kept(quotas.state_limit, &state)?,
                env_vars: item.env.clone(),
                network: None,
                alert_rules: AlertRules::default(),
            });
        }
    }
    Ok(instances)
}

/// What the file sets for a while, from `now` on.
pub(super) fn overrides(
    desired: &Desired,
    now: SystemTime,
) -> Result<Vec<EnvOverride>, StandaloneError> {
    let mut overrides = Vec::new();
    for item in &desired.items {
        let (id, subject) = (item.id.clone(), item.subject.clone());
        let filter = InstanceFilter::new(Some(id), Some(subject), None);
        let filter = filter.map_err(StandaloneError::Invalid)?;
        overrides.extend(item.env_override.iter().map(|it| EnvOverride {
            filter: filter.clone(),
            variable: it.variable.clone(),
            expires: it.lasts.and_then(|lasts| now.checked_add(lasts)),
        }));
    }
    Ok(overrides)
}

/// Where it is that an instance keeps, if it has a quota for it: the same as under a controller.
fn kept(quota: Option<u64>, path: &str) -> Result<Option<DataPath>, StandaloneError> {
    let path = quota.map(|_| path.parse::<DataPath>()).transpose();
    path.map_err(StandaloneError::Invalid)
}

/// It would start without its devices, and nobody would know why it does not work.
fn refuse_resources(item: &DesiredItem, image: &InstalledImage) -> Result<(), StandaloneError> {
    let wanted = image.item_config.resources.iter();
    let wanted: Vec<String> = wanted.map(|it| it.name.clone()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let item = item.id.clone();
    Err(StandaloneError::NoResources { item, wanted })
}

/// What items ask for and run without, one sentence each.
pub(super) fn lacking<'a>(
    desired: &'a Desired,
    installed: &'a [InstalledImage],
) -> impl Iterator<Item = String> + 'a {
    let all = desired.items.iter().zip(installed);
    all.filter_map(|(item, image)| {
        let servers = image.item_config.permissions.keys();
        let servers: Vec<&str> = servers.map(String::as_str).collect();
        let sentence = || {
            let (id, servers) = (&item.id, servers.join(", "));
            format!("item {id} asks for permissions at {servers} and gets none: there is no identity manager here")
        };
        (!servers.is_empty()).then(sentence)
    })
}

fn choose_runtime<'a>(
    item: &DesiredItem,
    image: &InstalledImage,
    runtimes: &'a [RuntimeInfo],
) -> Result<&'a RuntimeInfo, StandaloneError> {
    let wanted = match &item.runtime {
        Some(runtime) => std::slice::from_ref(runtime),
        None => image.item_config.runtimes.as_slice(),
    };
    let mut found = wanted
        .iter()
        .filter_map(|kind| runtimes.iter().find(|it| it.runtime_type == *kind));
    found.next().ok_or_else(|| StandaloneError::NoRuntime {
        item: item.id.clone(),
        wanted: wanted.iter().map(ToString::to_string).collect(),
        here: runtimes
            .iter()
            .map(|it| it.runtime_type.to_string())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, UNIX_EPOCH};

    use muster_api::domain::{ArchInfo, Digest, OsInfo};
    use muster_item::{Descriptor, ImageConfig, ItemConfig, Limits, Manifest, MediaType};

    use super::*;

    #[test]
    fn what_the_file_sets_for_a_while_is_for_its_item_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("set.yaml");
        let text = "items:\n- id: web\n  image: {layout: x}\n  envOverride:\n    LEVEL: {value: debug, for: 10m}\n    \
                    MODE: {value: slow}\n- id: other\n  image: {layout: x}\n";
        fs::write(&file, text).unwrap();
        let desired = Desired::load(&file).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let set = overrides(&desired, now).unwrap();
        let all = idents(&desired);
        for it in &set {
            assert!(it.filter.matches(&all[0]) && !it.filter.matches(&all[1]));
        }
        let ends: Vec<_> = set.iter().map(|it| it.expires).collect();
        assert_eq!(ends, [Some(now + Duration::from_secs(600)), None]);
    }

    /// One item that says this around its image.
    fn item(config: &str) -> (Desired, Vec<InstalledImage>, Vec<RuntimeInfo>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("set.yaml");
        fs::write(
            &file,
            "items:\n- {id: web, image: {layout: x}, instances: 2}\n",
        )
        .unwrap();
        let digest = Digest::from_sha256([1; 32]);
        let config_of = Descriptor {
            media_type: MediaType::Empty,
            digest,
            size: 2,
        };
        let manifest = Manifest {
            config: config_of,
            item_config: None,
            layers: Vec::new(),
        };
        let image = InstalledImage {
            digest,
            manifest_digest: digest,
            manifest,
            image_config: ImageConfig::default(),
            item_config: ItemConfig::read(config.as_bytes(), &Limits::default()).unwrap(),
            layers: Vec::new(),
            components: Vec::new(),
        };
        let runtime = RuntimeInfo {
            runtime_id: "runc".parse().unwrap(),
            runtime_type: "runc".parse().unwrap(),
            max_dmips: None,
            allowed_dmips: None,
            total_ram: None,
            allowed_ram: None,
            max_instances: 9,
            os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
            arch_info: ArchInfo::new("amd64", "").unwrap(),
        };
        (Desired::load(&file).unwrap(), vec![image], vec![runtime])
    }

    fn wanted(config: &str) -> Result<Vec<InstanceInfo>, StandaloneError> {
        let (desired, installed, runtimes) = item(config);
        let ids = super::super::ids::assign(&Ids::new(), &idents(&desired)).unwrap();
        instances(&desired, &installed, &runtimes, &ids)
    }

    #[test]
    fn what_an_item_has_a_quota_for_has_a_place_of_each_instances_own() {
        let quotas = r#"{"quotas": {"storageLimit": 1000, "stateLimit": 1000}}"#;
        let all = wanted(quotas).unwrap();
        for (instance, index) in all.iter().zip(["0", "1"]) {
            let path = |path: &Option<DataPath>| path.as_ref().unwrap().to_string();
            let own = format!("web/local/{index}");
            assert_eq!(path(&instance.storage_path), own);
            assert_eq!(path(&instance.state_path), format!("{own}/state.dat"));
        }
        for none in ["{}", r#"{"quotas": {"storageLimit": 0, "stateLimit": 0}}"#] {
            let all = wanted(none).unwrap();
            assert!(
                all.iter()
                    .all(|it| it.storage_path.is_none() && it.state_path.is_none())
            );
        }
    }

    #[test]
    fn what_cannot_be_given_is_refused_or_said() {
        let refused = wanted(r#"{"resources": ["camera"]}"#).unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("item web") && said.contains("camera"),
            "{said}"
        );
        let asking = r#"{"permissions": {"vis": {"speed": "r"}}}"#;
        wanted(asking).unwrap();
        let said = |config: &str| {
            let (desired, installed, _) = item(config);
            lacking(&desired, &installed).collect::<Vec<_>>()
        };
        let [one] = &said(asking)[..] else {
            panic!("{:?}", said(asking));
        };
        assert!(one.contains("web") && one.contains("vis"), "{one}");
        assert!(said("{}").is_empty());
    }
}
