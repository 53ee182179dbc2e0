//! How a Secondary Node reaches the Main Node's ports.

use std::io;
use std::sync::Arc;

use muster_rpc::{BoxFuture, Dial, DialError, Target, TargetError, Transport};
use muster_tls::{CertStore, ClientOptions, ClientTls, FileCertSource, Insecure, ServerName};
use tokio::sync::{OnceCell, watch};

use crate::own_cert::{InUse, TrustFiles};

/// The Main Node's public port, before this node has a certificate: the server's is checked.
pub(crate) struct PublicPort {
    address: String,
    name: ServerName,
    trust: FileCertSource,
    origin: http::Uri,
    /// Made at the first attempt at which the authorities' file is there.
    target: Arc<OnceCell<Target>>,
}

/// The Main Node's protected port: both sides show certificates.
pub(crate) struct ProtectedPort {
    address: String,
    name: ServerName,
    origin: http::Uri,
    certificate: watch::Receiver<Option<InUse>>,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> DialError {
    DialError::Transport(io::Error::other(error))
}

/// The address as requests name it.
fn origin(address: &str) -> Result<http::Uri, TargetError> {
    let uri = format!("https://{address}").parse();
    uri.map_err(|_| TargetError {
        address: address.to_owned(),
    })
}

impl PublicPort {
    /// The port at `address`, with TLS.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn new(
        address: &str,
        name: ServerName,
        trust: &TrustFiles,
    ) -> Result<Self, TargetError> {
        let files = FileCertSource::default().with_ca(&trust.ca);
        Ok(Self {
            address: address.to_owned(),
            name,
            trust: trust.crls.iter().fold(files, FileCertSource::with_crl),
            origin: origin(address)?,
            target: Arc::default(),
        })
    }

    /// The port at `address` in the clear, which `permission` is for.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn in_the_clear(
        address: &str,
        permission: &Insecure,
    ) -> Result<Target, TargetError> {
        let tls = ClientTls::insecure(permission, ClientOptions::default());
        Target::new(tls, address)
    }
}

impl Dial for PublicPort {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let (address, name) = (self.address.clone(), self.name.clone());
        let (trust, target) = (self.trust.clone(), Arc::clone(&self.target));
        Box::pin(async move {
            let make = async || {
                let store = CertStore::open(trust).await.map_err(failed)?;
                let options = ClientOptions::default();
                let tls = ClientTls::without_certificate(&store, name, options).map_err(failed)?;
                Target::new(tls, &address).map_err(failed)
            };
            target.get_or_try_init(make).await?.dial().await
        })
    }

    fn origin(&self) -> http::Uri {
        self.origin.clone()
    }
}

impl ProtectedPort {
    /// The port at `address`.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn new(
        address: &str,
        name: ServerName,
        certificate: watch::Receiver<Option<InUse>>,
    ) -> Result<Self, TargetError> {
        Ok(Self {
            address: address.to_owned(),
            name,
            origin: origin(address)?,
            certificate,
        })
    }
}

impl Dial for ProtectedPort {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let (address, name) = (self.address.clone(), self.name.clone());
        let in_use = self.certificate.borrow().clone();
        Box::pin(async move {
            let in_use = in_use.ok_or_else(|| {
                let missing = "this node has no usable certificate of its own";
                DialError::Transport(io::Error::new(io::ErrorKind::NotFound, missing))
            })?;
            let tls = ClientTls::mutual(&in_use.store, name, ClientOptions::default());
            let target = Target::new(tls.map_err(failed)?, &address).map_err(failed)?;
            target.dial().await
        })
    }

    fn origin(&self) -> http::Uri {
        self.origin.clone()
    }
}
