//! The runtimes of this node.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::domain::{ArchInfo, NodeInfo, RuntimeId, RuntimeInfo, RuntimeType};
use muster_bundle::cgroup::CgroupLayout;
use muster_runtime::Runtime;
use muster_runtime_container::{ContainerConfig, Containers, FindRuntimeError};
use muster_runtime_native::{NativeConfig, Natives};
use muster_unit_runner::UnitRunner;

use crate::config::RuntimeConfig;

const NATIVE: &str = "native";

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

/// The runtimes that are asked for, or those that are found.
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
    if !workplace.runtimes.is_empty() {
        return workplace.runtimes.iter().map(|it| maker.one(it)).collect();
    }
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
        match maker.one(&RuntimeConfig::of_type(runtime_type)) {
            Ok(runtime) => found.push(runtime),
            Err(MakeRuntimeError::Oci { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

struct Maker<'a> {
    workplace: Workplace<'a>,
    node: &'a NodeInfo,
    arch: ArchInfo,
    runner: &'a Arc<dyn UnitRunner>,
}

impl Maker<'_> {
    fn info(&self, runtime: &RuntimeConfig) -> RuntimeInfo {
        let dmips = NonZeroU64::new(self.node.max_dmips);
        let ram = NonZeroU64::new(self.node.total_ram);
        RuntimeInfo {
            runtime_id: RuntimeId::derive(&runtime.runtime_type, &self.node.node_id),
            runtime_type: runtime.runtime_type.clone(),
            max_dmips: dmips,
            allowed_dmips: runtime.allowed_dmips.or(dmips),
            total_ram: ram,
            allowed_ram: runtime.allowed_ram.or(ram),
            max_instances: runtime.max_instances,
            os_info: self.node.os_info.clone(),
            arch_info: self.arch.clone(),
        }
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

    fn one(&self, runtime: &RuntimeConfig) -> Result<Arc<dyn Runtime>, MakeRuntimeError> {
        let name = runtime.runtime_type.as_str();
        let folder = self.workplace.folder.join(name);
        if name == NATIVE {
            let config = NativeConfig {
                info: self.info(runtime),
                folder,
                unit_program: self.program("muster-native-exec")?,
                beside: None,
                host_network: runtime.host_network,
                strict: runtime.strict,
            };
            return Ok(Arc::new(Natives::runtime(config, Arc::clone(self.runner))));
        }
        let program = runtime.program.clone();
        let config = ContainerConfig {
            info: self.info(runtime),
            folder,
            oci_runtime: Some(program.unwrap_or_else(|| Path::new(name).to_owned())),
            unit_program: self.program("muster-container")?,
            granted_capabilities: runtime.granted_capabilities.clone(),
            first_mapped_id: runtime.first_mapped_id,
            host_binds: runtime.host_binds.clone(),
        };
        let containers = Containers::runtime(config, Arc::clone(self.runner));
        let containers = containers.map_err(|source| MakeRuntimeError::Oci {
            runtime: runtime.runtime_type.clone(),
            source,
        })?;
        Ok(Arc::new(containers))
    }
}
