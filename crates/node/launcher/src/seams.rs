//! What the launcher needs from the rest of the Service Manager.
//!
//! Everything here is idempotent: after a death in the middle, the launcher asks again. Each trait has an implementation that
//! does nothing ([`Absent`]), for nodes and tests without that part.

use std::collections::BTreeSet;
use std::fmt;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, AosError, Cause, Digest, InstanceIdent, InstanceInfo};
use muster_item::{ImageConfig, ItemConfig};
use muster_runtime::{ImagePaths, NetworkAttachment, ResourceGrant, RuntimeError, Secret};
use muster_telemetry::ErrorChain;

use crate::decide::StartFault;

/// Why something around an instance failed.
#[derive(Debug)]
pub struct SeamError {
    /// What the controller is told.
    pub code: AosCode,
    /// Whether it will pass by itself, when something else of the node is there.
    pub will_pass: bool,
    /// What happened.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl SeamError {
    /// An error with a code of the controller's list.
    pub fn new(code: AosCode, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            code,
            will_pass: false,
            source: source.into(),
        }
    }

    /// Something that is needed is not there yet.
    pub fn not_yet(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            will_pass: true,
            ..Self::new(AosCode::Failed, source)
        }
    }

    pub(crate) fn fault_while(&self, what: &str) -> StartFault {
        let fault = self.while_doing(what);
        match self.will_pass {
            true => StartFault::NotYet(fault),
            false => StartFault::Failed(fault),
        }
    }

    pub(crate) fn while_doing(&self, what: &str) -> AosError {
        AosError {
            cause: Cause::Code {
                code: self.code,
                exit_code: 0,
            },
            message: format!("{what}: {}", ErrorChain(&*self.source)),
        }
    }
}

pub(crate) fn runtime_fault(error: &RuntimeError) -> AosError {
    AosError::new(AosCode::Runtime, ErrorChain(error).to_string())
}

/// An image that is on this node, whole and unpacked.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledImage {
    /// Where it is.
    pub paths: ImagePaths,
    /// What it says about running it.
    pub image_config: ImageConfig,
    /// What its item says about running it.
    pub item_config: ItemConfig,
}

/// Gets images and keeps them.
pub trait Images: Send + Sync + fmt::Debug + 'static {
    /// Gets what is missing of an image and answers where it is; at once if nothing is missing. Dropping the future stops it.
    fn install(&self, manifest: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>>;

    /// The image if all of it is here; never gets anything.
    fn installed(&self, manifest: Digest) -> BoxFuture<'_, Option<InstalledImage>>;

    /// From now on these are needed: they run, are wanted, or would be gone back to. Everything else may be collected.
    fn keep(&self, manifests: BTreeSet<Digest>);
}

/// Registers what an instance may do.
pub trait Permissions: Send + Sync + fmt::Debug + 'static {
    /// Answers the secret, if the item asks for permissions at all.
    fn register<'a>(
        &'a self,
        instance: &'a InstanceIdent,
        item: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Option<Secret>, SeamError>>;

    /// Takes all permissions away. `item` is what it was started from; `None` where that cannot be read any more.
    fn unregister<'a>(
        &'a self,
        instance: &'a InstanceIdent,
        item: Option<&'a ItemConfig>,
    ) -> BoxFuture<'a, Result<(), SeamError>>;
}

/// Gives an instance its network.
pub trait Network: Send + Sync + fmt::Debug + 'static {
    /// What is here already and belongs to none of these is removed; called once, before anything else.
    fn keep_only(&self, instances: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()>;

    /// Makes it; `None` if the instance has none.
    fn attach<'a>(
        &'a self,
        info: &'a InstanceInfo,
        image: &'a InstalledImage,
    ) -> BoxFuture<'a, Result<Option<NetworkAttachment>, SeamError>>;

    /// Removes it.
    fn detach<'a>(&'a self, instance: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>>;
}

/// Gives out what the node has of something.
pub trait Resources: Send + Sync + fmt::Debug + 'static {
    /// What is taken already and belongs to none of these is given back; called once, before anything else.
    fn keep_only(&self, instances: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()>;

    /// Of what the item asks for, what only so many may have: who waits for such a thing waits for those who have it to go.
    fn scarce(&self, item: &ItemConfig) -> Vec<String>;

    /// Takes what the item asks for, all or nothing.
    fn take<'a>(
        &'a self,
        instance: &'a InstanceIdent,
        item: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Vec<ResourceGrant>, SeamError>>;

    /// Gives it back.
    fn release<'a>(&'a self, instance: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>>;
}

/// Does nothing, for parts that a node does not have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Absent;

impl Permissions for Absent {
    fn register<'a>(
        &'a self,
        _: &'a InstanceIdent,
        _: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Option<Secret>, SeamError>> {
        Box::pin(async { Ok(None) })
    }

    fn unregister<'a>(
        &'a self,
        _: &'a InstanceIdent,
        _: Option<&'a ItemConfig>,
    ) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Network for Absent {
    fn keep_only(&self, _: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn attach<'a>(
        &'a self,
        _: &'a InstanceInfo,
        _: &'a InstalledImage,
    ) -> BoxFuture<'a, Result<Option<NetworkAttachment>, SeamError>> {
        Box::pin(async { Ok(None) })
    }

    fn detach<'a>(&'a self, _: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Resources for Absent {
    fn keep_only(&self, _: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn scarce(&self, _: &ItemConfig) -> Vec<String> {
        Vec::new()
    }

    fn take<'a>(
        &'a self,
        _: &'a InstanceIdent,
        _: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Vec<ResourceGrant>, SeamError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn release<'a>(&'a self, _: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async { Ok(()) })
    }
}
