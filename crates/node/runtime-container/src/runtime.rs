//! Containers as a backend: specifications made and mounted, and what the OCI runtime leaves cleared away.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::domain::RuntimeInfo;
use muster_bundle::rootfs::{self, RootfsError, Top};
use muster_bundle::{Backend, Place, PlaceError, RunRecord, Supervised, UnitCommands, etc};
use muster_runtime::InstanceSpec;
use muster_unit_runner::{MainProcess, UnitRunner};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fchmod, openat2};

use crate::oci::{self, FindRuntimeError};
use crate::specification::{self, HostFacts, SpecificationError, Surroundings};
use crate::{facts, unit};
use muster_bundle::cgroup::CgroupLayout;

/// What units of containers are called, before the instance's id and the start's number.
pub const UNIT_PREFIX: &str = "muster-container";

/// Runs instances as containers.
pub type ContainerRuntime = Supervised<Containers>;

/// How containers are run on this node.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// What the controller is told about this runtime; its DMIPS are what CPU limits are shares of.
    pub info: RuntimeInfo,
    /// Where instances have their folders: on a file system that a reboot empties.
    pub folder: PathBuf,
    /// The OCI runtime, by path or name; found if absent.
    pub oci_runtime: Option<PathBuf>,
    /// The program `muster-container`.
    pub unit_program: PathBuf,
    /// Capabilities that items may have when they ask (`CAP_...`).
    pub granted_capabilities: BTreeSet<String>,
    /// The first of 65,536 user and group ids for user namespaces; at least 65,536.
    pub first_mapped_id: Option<u32>,
    /// Folders of the host that every instance sees, read-only.
    pub host_binds: Vec<PathBuf>,
    /// Bytes that an instance with a writable root may write to it, where its item says nothing about `/tmp`, which has the same
    /// size.
    pub writable_root: u64,
}

/// What [`ContainerConfig::writable_root`] is where nobody says anything.
pub const WRITABLE_ROOT: u64 = 64 << 20;

/// Why a container could not be made or cleared away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// It cannot be run as it is.
    #[error("it cannot be run as a container here")]
    Specification(#[source] SpecificationError),
    /// A file of it.
    #[error(transparent)]
    Place(PlaceError),
    /// Its root file system.
    #[error(transparent)]
    Rootfs(RootfsError),
    /// A folder of its root that something is mounted on.
    #[error("cannot give {} in its root the mode of what is mounted there", path.display())]
    MountPoint {
        /// The folder, as the instance sees it.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// Its specification has no JSON form.
    #[error("its specification cannot be written")]
    Json(#[source] serde_json::Error),
}

/// Containers, as [`Supervised`] runs them.
#[derive(Debug)]
pub struct Containers {
    config: ContainerConfig,
    program: PathBuf,
    is_retired: bool,
}

impl Containers {
    /// A runtime for containers on this init system.
    ///
    /// # Errors
    /// If there is no OCI runtime.
    pub fn runtime(
        config: ContainerConfig,
        runner: Arc<dyn UnitRunner>,
    ) -> Result<ContainerRuntime, FindRuntimeError> {
        let program = oci::find(config.oci_runtime.as_deref(), CgroupLayout::detect())?;
        let folder = config.folder.clone();
        let containers = Self {
            config,
            program,
            is_retired: false,
        };
        Ok(Supervised::new(containers, folder, runner))
    }

    /// A runtime that only ends what it once started, with or without the OCI runtime.
    #[must_use]
    pub fn retired(config: ContainerConfig, runner: Arc<dyn UnitRunner>) -> ContainerRuntime {
        let folder = config.folder.clone();
        let containers = Self {
            program: config.oci_runtime.clone().unwrap_or_default(),
            config,
            is_retired: true,
        };
        Supervised::new(containers, folder, runner)
    }

    /// The OCI runtime that was found.
    #[must_use]
    pub fn oci_runtime(&self) -> &std::path::Path {
        &self.program
    }

    /// What is above the image of an instance.
    fn top(&self, instance: &InstanceSpec) -> Top {
        let item = &instance.item_config;
        // Inside a user namespace, its root makes what is missing on top of the image.
        let owner = match item.sandbox.user_namespace {
            true => self.config.first_mapped_id.unwrap_or(0),
            false => 0,
        };
        let asked = specification::tmp_limit(instance).unwrap_or(self.config.writable_root);
        Top {
            owner,
            size: item.sandbox.writable_rootfs.then_some(asked),
        }
    }

    fn host_facts(&self, instance: &InstanceSpec) -> Result<HostFacts, PlaceError> {
        Ok(HostFacts {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            max_dmips: self.config.info.max_dmips.map(NonZeroU64::get),
            limits_swap: facts::limits_swap(),
            has_mount_setattr: facts::has_mount_setattr(),
            granted_capabilities: self.config.granted_capabilities.clone(),
            first_mapped_id: self.config.first_mapped_id,
            groups: facts::groups(&instance.resources),
            devices: facts::devices(&instance.resources)?,
            binds: self.config.host_binds.clone(),
        })
    }
}

impl Backend for Containers {
    type Error = ContainerError;

    const PREFIX: &'static str = UNIT_PREFIX;

    fn info(&self) -> RuntimeInfo {
        self.config.info.clone()
    }

    fn is_retired(&self) -> bool {
        self.is_retired
    }

    fn is_passed_through(&self) -> bool {
        // By the root of a user namespace, which is nobody outside.
        self.config.first_mapped_id.is_some()
    }

    fn make(&self, place: &Place, instance: &InstanceSpec) -> Result<(), ContainerError> {
        let host = self.host_facts(instance).map_err(ContainerError::Place)?;
        let (rootfs, id) = (place.rootfs(), instance.info.instance.instance_id());
        let surroundings = Surroundings {
            folder: place.folder(),
            rootfs: &rootfs,
            cgroup: &format!("{UNIT_PREFIX}-{id}"),
        };
        let specification = specification::specification(instance, &host, surroundings)
            .map_err(ContainerError::Specification)?;
        let text = serde_json::to_vec(&specification).map_err(ContainerError::Json)?;
        for (name, content) in etc::files(instance) {
            place
                .write(name, content.as_bytes())
                .map_err(ContainerError::Place)?;
        }
        rootfs::mount_layers(place, &instance.image.layers, self.top(instance))
            .map_err(ContainerError::Rootfs)?;
        for point in specification::mount_points(&specification) {
            rootfs::make_mount_point(&rootfs, point.target, point.is_folder)
                .map_err(ContainerError::Rootfs)?;
            if let Some(mode) = point.mode {
                set_mode(&rootfs, point.target, mode).map_err(|source| {
                    ContainerError::MountPoint {
                        path: point.target.to_owned(),
                        source,
                    }
                })?;
            }
        }
        place.write_config(&text).map_err(ContainerError::Place)
    }

    fn program(&self) -> PathBuf {
        self.program.clone()
    }

    fn commands(&self, place: &Place) -> UnitCommands {
        let command = |verb: &str| {
            let program = self.config.unit_program.to_string_lossy().into_owned();
            let folder = place.folder().to_string_lossy().into_owned();
            vec![program, verb.to_owned(), folder]
        };
        UnitCommands {
            start: command("start"),
            main: MainProcess::Named {
                pid_file: place.pid_file(),
            },
            end: command("end"),
        }
    }

    fn explain(&self, place: &Place) -> Option<String> {
        oci::last_error(&place.log()).map(|said| format!("the OCI runtime failed: {said}"))
    }

    fn clear(&self, place: &Place, run: Option<&RunRecord>) -> Result<(), ContainerError> {
        if let Some(run) = run {
            // The unit's own command does this after each end; here it is for a unit that could not.
            unit::clear(place, run);
        }
        rootfs::unmount_layers(place).map_err(ContainerError::Rootfs)
    }
}

/// Gives a folder of a root, which links cannot lead out of, a mode: in the layer above the image's own.
fn set_mode(root: &Path, target: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat2(CWD, root, flags, Mode::empty(), ResolveFlags::empty())?;
    let target = target.strip_prefix("/").unwrap_or(target);
    let folder = openat2(&root, target, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    Ok(fchmod(&folder, Mode::from_raw_mode(mode))?)
}
