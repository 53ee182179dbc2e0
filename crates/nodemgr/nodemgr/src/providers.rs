//! The providers that the configuration wants, and how each is made.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_aws::{AwsProvider, OpenAwsError};
use muster_docker::{DockerProvider, Endpoint, Engine};
use muster_libvirt::{LibvirtProvider, OpenLibvirtError};
use muster_provider::local::LocalProvider;
use muster_provider::sim::{OpenSimError, SimCloud};
use muster_provider::{ManagerId, Provider, ProviderId};
use muster_template::{Arch, Fields};

use crate::catalog::usual;
use crate::choice::{Offer, Prices};
use crate::config::{Common, DockerConfig, LibvirtConfig, Providers};

/// Where root keeps disks of virtual machines: QEMU, which is another user, can pass through.
const DISKS: &str = "/var/lib/muster-machines";
/// The program that libvirt is linked to.
const LIBVIRT_HELPER: &str = "muster-libvirt-helper";

/// A provider that is used.
#[derive(Debug, Clone)]
pub(crate) struct Enabled {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) offer: Offer,
    /// Where it is, for people; for Docker also for executors.
    pub(crate) endpoint: String,
    /// The architecture and the region that its machines have where nobody says otherwise, as far as they are known.
    pub(crate) usual: Fields,
    /// Where disks of its machines are, if a process of another user opens them.
    pub(crate) disks: Option<PathBuf>,
}

/// A provider that cannot be used as things are, though it was asked for. The others can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) id: ProviderId,
    /// Why, and what to do.
    pub(crate) why: String,
}

/// What came of the providers that the configuration wants.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) usable: Vec<Enabled>,
    pub(crate) unusable: Vec<Unusable>,
}

/// Why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenProviderError {
    #[error("cannot open the simulated cloud")]
    Sim(#[source] OpenSimError),
    #[error("cannot use libvirt; mend that, or set providers.libvirt.enabled to false")]
    Libvirt(#[source] OpenLibvirtError),
    #[error("cannot make the folder {} for disks of virtual machines; providers.libvirt.folder names another", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot use EC2; mend that, or set providers.aws.enabled to false")]
    Aws(#[source] OpenAwsError),
}

fn enabled(
    provider: Arc<dyn Provider>,
    common: Common,
    endpoint: String,
    usual: Fields,
) -> Enabled {
    let offer = Offer {
        profile: provider.profile().clone(),
        quota: common.quota,
        prices: Prices {
            usual: common.price,
            ..Prices::default()
        },
        ready_in: common.ready_in,
        places: Vec::new(),
        taints: common.taints,
    };
    Enabled {
        provider,
        offer,
        endpoint,
        usual,
        disks: None,
    }
}

/// Makes them. One that is away now may come later.
pub(crate) async fn open(
    config: &Providers,
    stop_grace: Option<Duration>,
    state: &Path,
    manager: &ManagerId,
) -> Result<Opened, OpenProviderError> {
    let mut opened = Opened::default();
    let all = &mut opened.usable;
    if let Some(docker) = &config.docker {
        let host = std::env::var("DOCKER_HOST").ok();
        match open_docker(docker, host.as_deref(), stop_grace) {
            Ok(docker) => all.extend(docker),
            Err(why) => {
                tracing::error!(why, "Docker cannot be used");
                let id = ProviderId::Docker;
                opened.unusable.push(Unusable { id, why });
            }
        }
    }
    if let Some(libvirt) = &config.libvirt {
        all.push(open_libvirt(libvirt, stop_grace, state, manager)?);
    }
    if let Some(aws) = &config.aws {
        let provider = AwsProvider::open(aws.settings.clone()).await;
        let provider = provider.map_err(OpenProviderError::Aws)?;
        let endpoint = aws.settings.endpoint_url.clone();
        let endpoint = endpoint.unwrap_or_else(|| "EC2".to_owned());
        // What EC2 makes where nobody says.
        let usual = usual(Some(Arch::Amd64), Some(provider.usual_region().as_str()));
        let mut offered = enabled(Arc::new(provider), aws.common.clone(), endpoint, usual);
        offered.offer.prices.of_types.clone_from(&aws.prices);
        offered.offer.places.clone_from(&aws.places);
        all.push(offered);
    }
    if let Some(sim) = &config.sim {
        let path = state.join("sim.cloud");
        let cloud = SimCloud::open(&path, sim.settings.clone());
        let cloud = cloud.map_err(OpenProviderError::Sim)?;
        let endpoint = path.display().to_string();
        let provider = Arc::new(cloud.provider());
        all.push(enabled(
            provider,
            sim.common.clone(),
            endpoint,
            usual(None, None),
        ));
    }
    if let Some(common) = config.local.clone() {
        let local = Arc::new(LocalProvider::new());
        let endpoint = "this machine".to_owned();
        all.push(enabled(local, common, endpoint, usual(own_arch(), None)));
    }
    Ok(opened)
}

/// An engine that nobody named is used if it is there. Otherwise: why it cannot be used.
fn open_docker(
    config: &DockerConfig,
    host: Option<&str>,
    stop_grace: Option<Duration>,
) -> Result<Option<Enabled>, String> {
    let named = config.asked || host.is_some_and(|it| !it.is_empty());
    let endpoint = config.endpoint(host).map_err(|error| {
        format!("DOCKER_HOST names no engine: {error}; name one under providers.docker.endpoint, or unset it")
    })?;
    if !endpoint.is_private() && !config.plain_tcp {
        return Err(format!(
            "{endpoint} is another machine, and nothing is encrypted on the way: whoever is on it is root over there, and \
             sees everything; forward its socket by ssh and name that under providers.docker.endpoint, or say \
             providers.docker.plainTcp: true"
        ));
    }
    let there = match &endpoint {
        Endpoint::Unix(path) => path.exists(),
        Endpoint::Tcp { .. } => true,
    };
    if !named && !there {
        tracing::info!(%endpoint, "there is no engine of Docker, so no containers are made");
        return Ok(None);
    }
    let text = endpoint.to_string();
    let arch = match endpoint {
        Endpoint::Unix(_) => own_arch(),
        // That machine may be of any kind.
        Endpoint::Tcp { .. } => None,
    };
    let mut provider = DockerProvider::new(Engine::new(endpoint));
    if let Some(grace) = stop_grace {
        provider = provider.with_grace(grace);
    }
    let provider = Arc::new(provider);
    Ok(Some(enabled(
        provider,
        config.common.clone(),
        text,
        usual(arch, None),
    )))
}

fn open_libvirt(
    config: &LibvirtConfig,
    stop_grace: Option<Duration>,
    state: &Path,
    manager: &ManagerId,
) -> Result<Enabled, OpenProviderError> {
    let is_root = rustix::process::geteuid().is_root();
    let folder = disks_folder(config, is_root, state, manager);
    if folder.starts_with(DISKS) && config.folder.is_none() {
        passable(&folder, &[Path::new(DISKS), &folder])
            .map_err(|(path, source)| OpenProviderError::Folder { path, source })?;
    }
    let mut settings =
        muster_libvirt::Settings::new(&folder.join("machines"), &folder.join("images"));
    settings.uri.clone_from(&config.uri);
    settings.catalog.clone_from(&config.catalog);
    settings.acceleration = config.acceleration;
    settings.stop_grace = stop_grace.unwrap_or(settings.stop_grace);
    settings.helper = match &config.helper {
        Some(helper) => helper.clone(),
        None => beside_this_program(LIBVIRT_HELPER),
    };
    let provider = LibvirtProvider::open(settings).map_err(OpenProviderError::Libvirt)?;
    // A driver and a path, without the name of another host between them.
    let is_here = config.uri.contains(":///");
    let arch = own_arch().filter(|_| is_here);
    let provider = Arc::new(provider);
    let mut enabled = enabled(
        provider,
        config.common.clone(),
        config.uri.clone(),
        usual(arch, None),
    );
    enabled.disks = is_system(&config.uri).then_some(folder);
    Ok(enabled)
}

/// Whether QEMU runs as a user of its own, and not as whoever calls.
fn is_system(uri: &str) -> bool {
    let path = uri.split('?').next().unwrap_or_default();
    path.ends_with("/system")
}

/// Where disks are if nobody says. The state folder is nobody else's business, so where QEMU is another user root has a place that
/// it can pass through; managers do not share theirs. Another user's manager has no such place: the doctor says so.
fn disks_folder(
    config: &LibvirtConfig,
    is_root: bool,
    state: &Path,
    manager: &ManagerId,
) -> PathBuf {
    match &config.folder {
        Some(folder) => folder.clone(),
        None if is_root && is_system(&config.uri) => Path::new(DISKS).join(manager.as_str()),
        None => state.join("libvirt"),
    }
}

/// Makes a folder, and lets others pass through what is named of it.
fn passable(folder: &Path, ours: &[&Path]) -> Result<(), (PathBuf, io::Error)> {
    std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
    for path in ours {
        let mode = std::fs::metadata(path).map(|it| it.permissions().mode());
        let allowed = mode.and_then(|mode| {
            let mode = std::fs::Permissions::from_mode(mode | 0o111);
            std::fs::set_permissions(path, mode)
        });
        allowed.map_err(|error| (path.to_path_buf(), error))?;
    }
    Ok(())
}

/// This machine's, if it is one that templates know.
fn own_arch() -> Option<Arch> {
    std::env::consts::ARCH.parse().ok()
}

/// Where Muster's programs are, one is beside the other.
fn beside_this_program(name: &str) -> std::path::PathBuf {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    folder.unwrap_or(Path::new("/usr/lib/muster")).join(name)
}

#[cfg(test)]
mod tests {
    use muster_config::{Format, Load, Loaded};

    use super::*;
    use crate::config::{Config, RawConfig};

    async fn opened(text: &str, state: &Path) -> Vec<Enabled> {
        let load = Load::<RawConfig>::new("muster-nodemgr");
        let load = load.document("nodemgr.yaml", Format::Yaml, text).load();
        let config: Config = load.and_then(Loaded::validate).unwrap();
        let manager = ManagerId::new("tests").unwrap();
        let opened = open(&config.providers, config.stop_grace, state, &manager).await;
        opened.unwrap().usable
    }

    #[tokio::test]
    async fn it_is_known_what_a_provider_has_where_nobody_says() {
        let state = tempfile::tempdir().unwrap();
        let providers = "docker: { endpoint: 'unix:///none.sock' }, aws: { regions: [us-west-2, eu-central-1] }, sim: {}";
        let folder = state.path().display();
        let text = format!("providers: {{ {providers}, libvirt: {{ folder: '{folder}' }} }}");
        let opened = opened(&text, state.path()).await;
        let usual = |name: &str| {
            let found = opened.iter().map(|it| {
                let value = it.usual.get(name).and_then(|it| it.value.as_str());
                value.map(str::to_owned)
            });
            found.collect::<Vec<_>>()
        };
        let own = own_arch().map(|arch| arch.to_string());
        assert!(own.is_some());
        let [docker, libvirt, sim, local] = [own.clone(), own.clone(), None, own];
        let aws = Some("amd64".to_owned());
        assert_eq!(usual("arch"), [docker, libvirt, aws, sim, local]);
        let first = Some("us-west-2".to_owned());
        assert_eq!(usual("region"), [None, None, first, None, None]);
    }

    fn docker(text: &str) -> DockerConfig {
        let load = Load::<RawConfig>::new("muster-nodemgr");
        let text = format!("providers: {{ docker: {text} }}");
        let load = load.document("nodemgr.yaml", Format::Yaml, text).load();
        let config: Config = load.and_then(Loaded::validate).unwrap();
        config.providers.docker.unwrap()
    }

    #[test]
    fn an_engine_that_cannot_be_used_says_why_and_keeps_nothing_else_from_working() {
        for (config, host, words) in [
            ("{}", Some("ssh://somebody@build"), "DOCKER_HOST"),
            ("{}", Some("tcp://build:2375"), "plainTcp"),
            ("{ endpoint: 'tcp://10.0.0.1' }", None, "plainTcp"),
        ] {
            let refused = open_docker(&docker(config), host, None).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
        for (config, host) in [
            ("{ endpoint: 'tcp://10.0.0.1', plainTcp: true }", None),
            ("{ endpoint: 'tcp://[::1]:2375' }", None),
            ("{}", Some("tcp://127.0.0.1:2375")),
            ("{}", Some("tcp://localhost")),
            // What the configuration says counts more than the environment.
            ("{ endpoint: 'unix:///none.sock' }", Some("ssh://build")),
        ] {
            let opened = open_docker(&docker(config), host, None);
            assert!(opened.unwrap().is_some(), "{config} {host:?}");
        }
    }

    #[test]
    fn disks_are_where_qemu_can_reach_them_unless_it_is_said_otherwise() {
        let manager = ManagerId::new("tests").unwrap();
        let state = Path::new("/var/lib/muster/nodemgr");
        let folder = |text: &str, is_root: bool| {
            let load = Load::<RawConfig>::new("muster-nodemgr");
            let text = format!("providers: {{ libvirt: {text} }}");
            let load = load.document("nodemgr.yaml", Format::Yaml, text).load();
            let config: Config = load.and_then(Loaded::validate).unwrap();
            let libvirt = config.providers.libvirt.unwrap();
            disks_folder(&libvirt, is_root, state, &manager)
        };
        let shared = Path::new("/var/lib/muster-machines/tests");
        assert_eq!(folder("{}", true), shared);
        let socket = "{ uri: 'qemu:///system?socket=/run/x' }";
        assert_eq!(folder(socket, true), shared);
        let own = state.join("libvirt");
        assert_eq!(folder("{ uri: 'qemu:///session' }", true), own);
        assert_eq!(folder("{}", false), own);
        assert_eq!(
            folder("{ folder: /srv/disks }", true),
            Path::new("/srv/disks")
        );
    }

    #[test]
    fn others_can_pass_through_what_is_made_for_them_and_through_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (closed, base) = (root.path(), root.path().join("base"));
        let folder = base.join("manager");
        std::fs::create_dir(&base).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(closed, 0o700);
        set(&base, 0o700);
        passable(&folder, &[&base, &folder]).unwrap();
        assert_eq!((mode(closed), mode(&base)), (0o700, 0o711));
        assert_eq!(mode(&folder) & 0o111, 0o111);
    }

    #[tokio::test]
    async fn whoever_forces_a_stop_waits_as_long_as_is_said() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().display();
        let providers = format!(
            "providers: {{ docker: {{ endpoint: 'unix:///none.sock' }}, libvirt: {{ folder: '{folder}' }}, local: {{ enabled: false }} }}"
        );
        for (registry, graces) in [
            ("{}", ["grace: 10s", "stop_grace: 60s"]),
            ("{ stopGrace: 1h }", ["grace: 3600s", "stop_grace: 3600s"]),
        ] {
            let text = format!("{providers}\nregistry: {registry}\n");
            let opened = opened(&text, state.path()).await;
            let shown: Vec<String> = opened.iter().map(|it| format!("{it:?}")).collect();
            for (shown, grace) in shown.iter().zip(graces) {
                assert!(shown.contains(grace), "{grace} is not in {shown}");
            }
            assert_eq!(shown.len(), graces.len());
        }
    }
}
