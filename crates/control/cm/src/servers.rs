//! Ports for nodes: the stream of Service Managers, and blobs. They open when there is a certificate to open them with.

use std::sync::Arc;

use muster_durable::key_file::KeyFileError;
use muster_file_server::{
    BlobFolder, FileServer, FileServerConfig, OpenFolderError, StartFileServerError, TokenKey,
};
use muster_rpc::server::{RunningServer, StartServerError};
use muster_smcontroller::SmController;
use muster_tls::{
    Alpn, IdentityPolicy, Insecure, NoReasonError, ServerOptions, ServerTls, TlsSetupError,
};

use crate::blob_places::BlobPlaces;
use crate::config::{Config, Trust};
use crate::identity::{Identity, LateIdentity, arrival};

/// Why nodes cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeNodesError {
    /// Going without TLS has to say why.
    #[error("cannot go without TLS")]
    Reason(#[source] NoReasonError),
    /// The certificate is of no use.
    #[error("cannot set up TLS for nodes")]
    Tls(#[source] TlsSetupError),
    /// The folder of blobs cannot be used.
    #[error("cannot serve blobs")]
    Folder(#[source] OpenFolderError),
    /// The key of URLs cannot be used.
    #[error("cannot sign URLs of blobs")]
    Key(#[source] KeyFileError),
    /// The port for blobs.
    #[error("cannot serve blobs")]
    Files(#[source] StartFileServerError),
    /// The port for Service Managers.
    #[error("cannot serve Service Managers")]
    Managers(#[source] StartServerError),
}

/// Both ports, open.
#[derive(Debug)]
pub(crate) struct Servers {
    managers: RunningServer,
    // Ends with this.
    _files: FileServer,
}

impl Servers {
    /// Waits for a certificate, unless there is to be none, and opens both.
    pub(crate) async fn open(
        config: &Config,
        identity: LateIdentity,
        controller: &SmController,
        blobs: &Arc<BlobPlaces>,
        blob_folder: &std::path::Path,
    ) -> Result<Self, ServeNodesError> {
        let (managers, files) = match &config.trust {
            Trust::Insecure(reason) => {
                let managers = insecure(reason, ServerOptions::default())?;
                (managers, insecure(reason, http())?)
            }
            Trust::Iam(_) => {
                let identity = arrival(identity).await;
                let managers = mutual(&identity)?;
                let files = match &config.files.insecure {
                    Some(reason) => insecure(reason, http())?,
                    None => ServerTls::server_only(&identity.certificates, http())
                        .map_err(ServeNodesError::Tls)?,
                };
                (managers, files)
            }
        };
        let folder = BlobFolder::open(blob_folder).map_err(ServeNodesError::Folder)?;
        let key = TokenKey::open(&config.working_dir.join("blob_urls.key"));
        let key = key.map_err(ServeNodesError::Key)?;
        let settings = FileServerConfig {
            advertised: config.files.advertised.clone(),
            ..FileServerConfig::new(String::new())
        };
        let files = FileServer::start(config.files.listen, &files, folder, key, settings).await;
        let files = files.map_err(ServeNodesError::Files)?;
        blobs.served_at(files.urls());
        let managers = controller.serve(config.listen, &managers).await;
        let managers = managers.map_err(ServeNodesError::Managers)?;
        let (address, blobs) = (managers.address(), files.address());
        tracing::info!(%address, %blobs, "nodes are served");
        Ok(Self {
            managers,
            _files: files,
        })
    }

    /// Ends streams, so that nodes learn why, then the ports.
    pub(crate) async fn close(self, controller: &SmController) {
        controller.stop().await;
        self.managers.shutdown().await;
    }
}

/// Nodes download with what speaks HTTP/1.1.
fn http() -> ServerOptions {
    ServerOptions {
        alpn: Alpn::Http1,
        ..ServerOptions::default()
    }
}

fn insecure(reason: &str, options: ServerOptions) -> Result<ServerTls, ServeNodesError> {
    let permission = Insecure::because(reason).map_err(ServeNodesError::Reason)?;
    Ok(ServerTls::insecure(permission, options))
}

fn mutual(identity: &Identity) -> Result<ServerTls, ServeNodesError> {
    let (store, policy) = (&identity.certificates, IdentityPolicy::spiffe_only());
    ServerTls::mutual(store, policy, ServerOptions::default()).map_err(ServeNodesError::Tls)
}
