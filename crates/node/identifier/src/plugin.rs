//! The trait, and how a configuration becomes one of its kinds.

use std::fmt;
use std::path::PathBuf;

use muster_tls::{LoadCertError, TlsSetupError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::IdentifierConfig;
use crate::file;
use crate::identity::Identity;
use crate::vis;

/// Tells which device this is and for whom it works. Dropping it ends its task.
pub trait Identifier: fmt::Debug + Send + Sync + 'static {
    /// The plugin's name.
    fn plugin(&self) -> &'static str;

    /// What is known now, and every change from now on.
    fn subscribe(&self) -> watch::Receiver<Identity>;
}

/// Why an identifier cannot be started. A source that is only missing is no reason: it may come.
#[derive(Debug, thiserror::Error)]
pub enum StartIdentifierError {
    /// The CA certificate of the VIS server cannot be loaded.
    #[error("cannot load the CA certificate of the VIS server from {}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<LoadCertError>,
    },
    /// TLS towards the VIS server cannot be set up.
    #[error("cannot set TLS towards the VIS server up")]
    Tls(#[source] TlsSetupError),
}

/// Starts the plugin of a configuration. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// When what the configuration names for good (a CA certificate) cannot be used.
pub async fn start(config: &IdentifierConfig) -> Result<Box<dyn Identifier>, StartIdentifierError> {
    Ok(match config {
        IdentifierConfig::File(config) => Box::new(Running::start("file", |identity| {
            tokio::spawn(file::run(config.clone(), identity))
        })),
        IdentifierConfig::Vis(config) => {
            let client = vis::Client::new(config).await?;
            Box::new(Running::start("vis", |identity| {
                tokio::spawn(client.run(identity))
            }))
        }
    })
}

/// A plugin whose task publishes what it finds.
#[derive(Debug)]
struct Running {
    plugin: &'static str,
    identity: watch::Receiver<Identity>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(
        plugin: &'static str,
        spawn: impl FnOnce(watch::Sender<Identity>) -> JoinHandle<()>,
    ) -> Self {
        let (sender, identity) = watch::channel(Identity::default());
        Self {
            plugin,
            identity,
            task: spawn(sender),
        }
    }
}

impl Identifier for Running {
    fn plugin(&self) -> &'static str {
        self.plugin
    }

    fn subscribe(&self) -> watch::Receiver<Identity> {
        self.identity.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
