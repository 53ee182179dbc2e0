//! The runtimes of this node.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::domain::{ArchInfo, NodeInfo, RuntimeId, RuntimeInfo, RuntimeType};
use muster_bundle::cgroup::CgroupLayout;
use muster_bundle::instances_in;
use muster_runtime::Runtime;
use muster_runtime_container::{ContainerConfig, Containers, FindRuntimeError};
use muster_runtime_native::{NativeConfig, Natives};
use muster_unit_runner::UnitRunner;

use crate::config::RuntimeConfig;

/// The type of the runtime that needs no OCI runtime.
pub(crate) const NATIVE: &str = "native";

/// Why a runtime cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MakeRuntimeError {
    /// Its program is not there.
    #[error("runtime {runtime} cannot be used")]
    Oci {
        /// Which one.
        runtime: RuntimeType,
        /// Why.
        source: FindRuntimeError,
    },
    /// A program of our own is not there.
    #[error("{} is not there: it runs instances and is installed beside the service manager", path.display())]
    OwnProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The node does not say what its processors are.
    #[error("node {node} does not say what its processors are")]
    NoProcessor {
        /// Which node.
        node: String,
    },
}

/// Where runtimes work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workplace<'a> {
    /// Those that are asked for; every one that is found if there are none.
    pub(crate) runtimes: &'a [RuntimeConfig],
    /// Each has a folder below.
    pub(crate) folder: &'a Path,
    /// Where the programs are that run in units; beside this one where absent.
    pub(crate) programs: Option<&'a Path>,
}

/// The runtimes that are asked for, or those that are found; and, retired, those that have left something here.
pub(crate) fn make(
    workplace: Workplace<'_>,
    node: &NodeInfo,
    runner: &Arc<dyn UnitRunner>,
) -> Result<Vec<Arc<dyn Runtime>>, MakeRuntimeError> {
    let maker = Maker {
        workplace,
        node,
        arch: node
            .cpus
            .first()
            .map(|cpu| cpu.arch_info.clone())
            .ok_or_else(|| MakeRuntimeError::NoProcessor {
                node: node.node_id.to_string(),
            })?,
        runner,
    };
    let mut made = maker.working()?;
    let retired = maker.retired(&made);
    made.extend(retired);
    Ok(made)
}

/// What others are told of: who only clears up takes nothing new.
pub(crate) fn announced(runtimes: &[Arc<dyn Runtime>]) -> Vec<RuntimeInfo> {
    let working = runtimes.iter().filter(|runtime| !runtime.is_retired());
    working.map(|runtime| runtime.info()).collect()
}

/// The type of every runtime that has a folder with instances.
fn with_instances(folder: &Path) -> Vec<RuntimeType> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_runtime = |entry: fs::DirEntry| {
        let runtime_type = RuntimeType::new(entry.file_name().to_str()?).ok()?;
        let has_instances = !instances_in(&entry.path()).is_empty();
        has_instances.then_some(runtime_type)
    };
    entries.filter_map(of_runtime).collect()
}

/// Whether anything was started here that may still run.
pub(crate) fn has_instances(folder: &Path) -> bool {
    !with_instances(folder).is_empty()
}

/// What is set aside for a runtime is said only where somebody set it aside: a controller makes a pool of it that is the runtime's own,
/// and several that are the whole node each would be more than the node.
fn describe(runtime: &RuntimeConfig, node: &NodeInfo, arch_info: ArchInfo) -> RuntimeInfo {
    RuntimeInfo {
        runtime_id: RuntimeId::derive(&runtime.runtime_type, &node.node_id),
        runtime_type: runtime.runtime_type.clone(),
        max_dmips: NonZeroU64::new(node.max_dmips),
        allowed_dmips: runtime.allowed_dmips,
        total_ram: NonZeroU64::new(node.total_ram),
        allowed_ram: runtime.allowed_ram,
        max_instances: runtime.max_instances,
        os_info: node.os_info.clone(),
        arch_info,
    }
}

struct Maker<'a> {
    workplace: Workplace<'a>,
    node: &'a NodeInfo,
    arch: ArchInfo,
    runner: &'a Arc<dyn UnitRunner>,
}

impl Maker<'_> {
    fn working(&self) -> Result<Vec<Arc<dyn Runtime>>, MakeRuntimeError> {
        let asked = self.workplace.runtimes;
        if !asked.is_empty() {
            return asked.iter().map(|it| self.one(it)).collect();
        }
        self.found()
    }

    fn found(&self) -> Result<Vec<Arc<dyn Runtime>>, MakeRuntimeError> {
        let mut found: Vec<Arc<dyn Runtime>> = Vec::new();
        let is_legacy = CgroupLayout::detect() == CgroupLayout::Legacy;
        for name in ["runc", "crun", "youki", NATIVE] {
            // It does not work beside controllers of version 1; whoever knows better names it.
            if name == "crun" && is_legacy {
                continue;
            }
            let Ok(runtime_type) = RuntimeType::new(name) else {
                continue;
            };
            match self.one(&RuntimeConfig::of_type(runtime_type)) {
                Ok(runtime) => found.push(runtime),
                Err(MakeRuntimeError::Oci { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// What was started by a runtime that is not there any more would otherwise run for ever, or never be cleared away.
    fn retired(&self, made: &[Arc<dyn Runtime>]) -> Vec<Arc<dyn Runtime>> {
        let mut gone = with_instances(self.workplace.folder);
        gone.retain(|it| !made.iter().any(|made| made.info().runtime_type == *it));
        gone.into_iter().map(|it| self.retire(it)).collect()
    }

    fn retire(&self, runtime_type: RuntimeType) -> Arc<dyn Runtime> {
        let runtime = RuntimeConfig::of_type(runtime_type);
        let runner = Arc::clone(self.runner);
        match runtime.runtime_type.as_str() == NATIVE {
            true => Arc::new(Natives::retired(
                self.native(&runtime, PathBuf::new()),
                runner,
            )),
            false => {
                let config = self.container(&runtime, PathBuf::new());
                Arc::new(Containers::retired(config, runner))
            }
        }
    }

    fn info(&self, runtime: &RuntimeConfig) -> RuntimeInfo {
        describe(runtime, self.node, self.arch.clone())
    }

    fn program(&self, name: &str) -> Result<PathBuf, MakeRuntimeError> {
        let own = || {
            let program = std::env::current_exe().ok()?;
            Some(program.parent()?.to_owned())
        };
        let folder = self.workplace.programs.map(Path::to_owned).or_else(own);
        let path = folder
            .unwrap_or_else(|| PathBuf::from("/usr/lib/muster"))
            .join(name);
        if path.is_file() {
            Ok(path)
        } else {
            Err(MakeRuntimeError::OwnProgram { path })
        }
    }

    fn native(&self, runtime: &RuntimeConfig, unit_program: PathBuf) -> NativeConfig {
        NativeConfig {
            info: self.info(runtime),
            folder: self.workplace.folder.join(NATIVE),
            unit_program,
            beside: None,
            host_network: runtime.host_network,
            strict: runtime.strict,
        }
    }

    fn container(&self, runtime: &RuntimeConfig, unit_program: PathBuf) -> ContainerConfig {
        let name = runtime.runtime_type.as_str();
        let program = runtime.program.clone();
        ContainerConfig {
            info: self.info(runtime),
            folder: self.workplace.folder.join(name),
            oci_runtime: Some(program.unwrap_or_else(|| Path::new(name).to_owned())),
            unit_program,
            granted_capabilities: runtime.granted_capabilities.clone(),
            first_mapped_id: runtime.first_mapped_id,
            host_binds: runtime.host_binds.clone(),
            writable_root: runtime.writable_root,
        }
    }

    fn one(&self, runtime: &RuntimeConfig) -> Result<Arc<dyn Runtime>, MakeRuntimeError> {
        let runner = Arc::clone(self.runner);
        if runtime.runtime_type.as_str() == NATIVE {
            let config = self.native(runtime, self.program("muster-native-exec")?);
            return Ok(Arc::new(Natives::runtime(config, runner)));
        }
        let config = self.container(runtime, self.program("muster-container")?);
        let containers = Containers::runtime(config, runner);
        let containers = containers.map_err(|source| MakeRuntimeError::Oci {
            runtime: runtime.runtime_type.clone(),
            source,
        })?;
        Ok(Arc::new(containers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_set_aside_for_a_runtime_of_which_nobody_said_so() {
        let node = crate::node::tests::this();
        let arch = ArchInfo::new("amd64", "").unwrap();
        let mut config = RuntimeConfig::of_type(RuntimeType::new("runc").unwrap());
        let info = describe(&config, &node, arch.clone());
        assert_eq!((info.allowed_dmips, info.allowed_ram), (None, None));
        assert_eq!(info.max_dmips, NonZeroU64::new(node.max_dmips));
        assert_eq!(info.total_ram, NonZeroU64::new(node.total_ram));
        config.allowed_dmips = NonZeroU64::new(500);
        config.allowed_ram = NonZeroU64::new(1 << 20);
        let info = describe(&config, &node, arch);
        assert_eq!(info.allowed_dmips, NonZeroU64::new(500));
        assert_eq!(info.allowed_ram, NonZeroU64::new(1 << 20));
    }

    #[test]
    fn a_runtime_that_left_instances_is_known_by_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let instance = "00000000-0000-0000-0000-000000000007";
        for path in [
            format!("runc/{instance}"),
            "crun".into(),
            "netns/web".into(),
        ] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let found = with_instances(folder.path());
        assert_eq!(found, [RuntimeType::new("runc").unwrap()]);
        assert_eq!(with_instances(&folder.path().join("nowhere")), []);
    }
}
