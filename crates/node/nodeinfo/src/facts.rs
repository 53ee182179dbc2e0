//! Gathering: files in, facts out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use muster_api::domain::{
    AosError, ArchInfo, CpuInfo, NodeId, NodeInfo, NodeState, NodeType, OsInfo, PartitionInfo,
    PartitionName,
};
use muster_telemetry::ErrorChain;

use crate::cpu::{self, Place, Processor};
use crate::dmips::{self, CacheError};
use crate::memory;
use crate::node_id::{self, NodeIdProblem};
use crate::options::{Options, PartitionSpec};
use crate::os;
use crate::tree::{SMALL, Tree, tidy};

/// A machine with thousands of processors writes a few megabytes.
const CPUINFO_LIMIT: u64 = 16 * 1024 * 1024;

/// Why a node cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// A file that every node has cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no node id. It is not made up: a node with another id is another node.
    #[error("{} holds no node id", path.display())]
    NodeId {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        source: NodeIdProblem,
    },
    /// The amount of memory is not told.
    #[error("{} does not tell the amount of memory", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
    },
    /// Two partitions of the configuration have one name.
    #[error("the partition {name} is configured twice")]
    DuplicatePartition {
        /// The name.
        name: PartitionName,
    },
    /// An attribute without a name.
    #[error("an attribute with the value {value:?} has an empty name")]
    NamelessAttribute {
        /// Its value.
        value: String,
    },
}

/// Something that a node can be without, and an operator should know.
#[derive(Debug)]
pub enum GatherWarning {
    /// A partition of the configuration is left out.
    Partition {
        /// Which one.
        name: PartitionName,
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Measured processing power is not kept.
    Dmips(CacheError),
}

impl fmt::Display for GatherWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition { name, path, error } => write!(
                f,
                "partition {name} is left out of the node's description: {}: {error}",
                path.display()
            ),
            Self::Dmips(error) => ErrorChain(error).fmt(f),
        }
    }
}

/// Everything about a node but its state.
#[derive(Debug)]
pub struct NodeFacts {
    /// Which node it is.
    pub node_id: NodeId,
    /// What it is meant for.
    pub node_type: NodeType,
    /// Name for people.
    pub title: String,
    /// Processing power of all processors.
    pub max_dmips: u64,
    /// Bytes that the system may use.
    pub total_ram: u64,
    /// Bytes built in, if known.
    pub physical_ram: Option<NonZeroU64>,
    /// Its operating system.
    pub os_info: OsInfo,
    /// Its processors, one entry per package and kind of core.
    pub cpus: Vec<CpuInfo>,
    /// Its partitions, without those that cannot be read.
    pub partitions: Vec<PartitionInfo>,
    /// Its properties.
    pub attrs: BTreeMap<String, String>,
    /// What could not be found out.
    pub warnings: Vec<GatherWarning>,
}

impl NodeFacts {
    /// Reads everything. Blocks, and may measure; see the crate's documentation.
    ///
    /// # Errors
    /// When something is missing that no node can be without.
    pub fn gather(options: &Options) -> Result<Self, GatherError> {
        check(options)?;
        let tree = Tree::new(&options.root);
        let mut warnings = Vec::new();
        let node_id = read_node_id(tree, &options.node_id_path)?;
        let uname = rustix::system::uname();
        let cpuinfo = required(tree, Path::new("/proc/cpuinfo"), CPUINFO_LIMIT)?;
        let arch = cpu::arch(&uname.machine().to_string_lossy(), &cpuinfo);
        let processors = processors(tree, &cpuinfo);
        let (cpus, measured) = with_power(options, &processors, &arch, &mut warnings);
        let meminfo_path = Path::new("/proc/meminfo");
        let total_ram = memory::total(&required(tree, meminfo_path, SMALL)?).ok_or_else(|| {
            GatherError::Memory {
                path: meminfo_path.to_owned(),
            }
        })?;
        let os_release = tree
            .text_if_any("/etc/os-release")
            .or_else(|| tree.text_if_any("/usr/lib/os-release"))
            .unwrap_or_default();
        let title = match tidy(&options.node_name) {
            name if name.is_empty() => tidy(&uname.nodename().to_string_lossy()),
            name => name,
        };
        Ok(Self {
            node_id,
            node_type: options.node_type.clone(),
            title,
            max_dmips: options.max_dmips.map_or(measured, NonZeroU64::get),
            total_ram,
            physical_ram: memory::physical(tree, total_ram).and_then(NonZeroU64::new),
            os_info: os::describe(
                &os_release,
                &uname.sysname().to_string_lossy(),
                &uname.release().to_string_lossy(),
            ),
            cpus,
            partitions: partitions(tree, &options.partitions, &mut warnings),
            attrs: options.attrs.clone(),
            warnings,
        })
    }

    /// The node's description in a state.
    #[must_use]
    pub fn node_info(&self, state: NodeState, error: Option<AosError>) -> NodeInfo {
        NodeInfo {
            node_id: self.node_id.clone(),
            node_type: self.node_type.clone(),
            title: self.title.clone(),
            max_dmips: self.max_dmips,
            total_ram: self.total_ram,
            physical_ram: self.physical_ram,
            os_info: self.os_info.clone(),
            cpus: self.cpus.clone(),
            partitions: self.partitions.clone(),
            attrs: self.attrs.clone(),
            state,
            error,
        }
    }
}

/// What the configuration must not say.
fn check(options: &Options) -> Result<(), GatherError> {
    let mut names = BTreeSet::new();
    for partition in &options.partitions {
        if !names.insert(&partition.name) {
            return Err(GatherError::DuplicatePartition {
                name: partition.name.clone(),
            });
        }
    }
    match options.attrs.get("") {
        Some(value) => Err(GatherError::NamelessAttribute {
            value: value.clone(),
        }),
        None => Ok(()),
    }
}

fn required(tree: Tree<'_>, path: &Path, limit: u64) -> Result<String, GatherError> {
    tree.text(path, limit).map_err(|source| GatherError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_node_id(tree: Tree<'_>, path: &Path) -> Result<NodeId, GatherError> {
    let no_id = |source| GatherError::NodeId {
        path: path.to_owned(),
        source,
    };
    match tree.text(path, SMALL) {
        Ok(text) => node_id::parse(&text).map_err(no_id),
        // Nothing there is nothing in it: the same words say what to do.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_id(NodeIdProblem::Empty)),
        Err(source) => Err(GatherError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The processors of `/proc/cpuinfo`, or, where that is of a form of its own, as many of no name as
/// the kernel has.
fn processors(tree: Tree<'_>, cpuinfo: &str) -> Vec<Processor> {
    let processors = cpu::parse(cpuinfo, |number| Place::read(tree, number));
    if !processors.is_empty() {
        return processors;
    }
    let online = tree.text_if_any("/sys/devices/system/cpu/online");
    let threads = online
        .and_then(|list| cpu::length_of_list(&list))
        .unwrap_or(1);
    vec![Processor {
        model_name: "unknown".to_owned(),
        cores: threads,
        threads,
        first_cpu: 0,
    }]
}

/// The processors with their power, and the power of all of them. A configured figure is the whole
/// node's, so the processors then have none of their own.
fn with_power(
    options: &Options,
    processors: &[Processor],
    arch: &ArchInfo,
    warnings: &mut Vec<GatherWarning>,
) -> (Vec<CpuInfo>, u64) {
    let mut measured: BTreeMap<&str, NonZeroU64> = BTreeMap::new();
    let mut all: u64 = 0;
    let mut cpus = Vec::with_capacity(processors.len());
    for processor in processors {
        let model = processor.model_name.as_str();
        let max_dmips = options.max_dmips.is_none().then(|| {
            let per_core = *measured.entry(model).or_insert_with(|| {
                let cache = options.dmips_cache.as_deref();
                let (dmips, problem) =
                    dmips::of_model(cache, model, || dmips::measure(processor.first_cpu));
                warnings.extend(problem.map(GatherWarning::Dmips));
                dmips
            });
            per_core.saturating_mul(NonZeroU64::new(processor.cores).unwrap_or(NonZeroU64::MIN))
        });
        all = all.saturating_add(max_dmips.map_or(0, NonZeroU64::get));
        cpus.push(CpuInfo {
            model_name: processor.model_name.clone(),
            num_cores: processor.cores,
            num_threads: processor.threads,
            arch_info: arch.clone(),
            max_dmips,
        });
    }
    (cpus, all)
}

fn partitions(
    tree: Tree<'_>,
    specs: &[PartitionSpec],
    warnings: &mut Vec<GatherWarning>,
) -> Vec<PartitionInfo> {
    let mut partitions = Vec::with_capacity(specs.len());
    for spec in specs {
        match rustix::fs::statvfs(tree.locate(&spec.path)) {
            Ok(stat) => partitions.push(PartitionInfo {
                name: spec.name.clone(),
                types: spec.types.clone(),
                total_size: stat.f_frsize.saturating_mul(stat.f_blocks),
                path: spec.path.to_string_lossy().into_owned(),
            }),
            Err(errno) => warnings.push(GatherWarning::Partition {
                name: spec.name.clone(),
                path: spec.path.clone(),
                error: errno.into(),
            }),
        }
    }
    partitions
}
