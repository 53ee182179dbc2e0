//! Which secrets a process is given, and where.

use muster_engine::protocol::ExecKind;
use muster_exec::{Credential, CredentialSource, Sandbox};
use muster_unit_file::config::UnitConfig;

use crate::context::Facts;
use crate::context::machine::Machine;

/// Below the folder of what lives as long as the machine is up: all units' secrets.
pub(super) const FOLDER: &str = "credentials";
/// The variable that says where the manager's own secrets are, and those of units.
const VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// The folder with a unit's secrets, if it has any.
pub(in crate::context) fn folder(config: &UnitConfig, runtime: &str) -> Option<String> {
    let stated = &config.exec.credentials;
    let has = !stated.set.0.is_empty()
        || !stated.load.0.is_empty()
        || !stated.import.0.is_empty()
        || !stated.set_encrypted.0.is_empty()
        || !stated.load_encrypted.0.is_empty();
    let runtime = runtime.trim_end_matches('/');
    has.then(|| format!("{runtime}/{FOLDER}/{}", config.name))
}

/// A sandbox that has nothing but the unit's secrets. What was loaded comes before what is imported, and what the file
/// itself holds is there for names that nothing else gave.
pub(super) fn of(
    config: &UnitConfig,
    kind: ExecKind,
    facts: &Facts<'_>,
    machine: &dyn Machine,
) -> Sandbox {
    let runtime = &facts.host.specifiers.runtime_directory;
    let Some(folder) = folder(config, runtime) else {
        return Sandbox::default();
    };
    let stated = &config.exec.credentials;
    let loaded = stated.load.0.iter().filter_map(|entry| {
        let (name, place) = entry.split_once(':')?;
        let source = if place.starts_with('/') {
            CredentialSource::Path(place.into())
        } else {
            CredentialSource::System(place.into())
        };
        Some((name, source))
    });
    let imported = stated.import.0.iter();
    let imported = imported.map(|entry| match entry.split_once(':') {
        Some((pattern, start)) => (pattern, CredentialSource::Renamed(start.into())),
        None => (entry, CredentialSource::Matching),
    });
    let set = stated.set.0.iter().filter_map(|entry| {
        let (name, data) = entry.split_once(':')?;
        Some((name, CredentialSource::Data(data.as_bytes().to_vec())))
    });
    // They are read when a run begins, and stay as they were until it has ended.
    let begins = matches!(
        kind,
        ExecKind::Condition | ExecKind::StartPre | ExecKind::Start
    );
    let all = loaded.chain(imported).chain(set).filter(|_| begins);
    let stores = machine.variable(VARIABLE).filter(|_| begins);
    Sandbox {
        credentials: all
            .map(|(name, source)| Credential {
                name: name.into(),
                source,
            })
            .collect(),
        credentials_folder: Some(folder.into()),
        credential_stores: stores.into_iter().map(Into::into).collect(),
        ..Sandbox::default()
    }
}
