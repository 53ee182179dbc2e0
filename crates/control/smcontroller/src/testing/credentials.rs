//! Certificates of simulated nodes, without files.

use std::fmt;
use std::path::PathBuf;

use muster_tls::rustls::RootCertStore;
use muster_tls::rustls::crypto::ring::sign::any_supported_type;
use muster_tls::rustls::sign::CertifiedKey;
use muster_tls::rustls_pki_types::pem::PemObject as _;
use muster_tls::rustls_pki_types::{CertificateDer, PrivateKeyDer};
use muster_tls::{
    CertMaterial, CertSource, CertStore, ClientOptions, ClientTls, ExpectedServer, LoadCertError,
    OwnCert, Role, ServerName, Trust,
};

/// What a node is known by.
pub struct Credentials {
    /// Its id, which the certificate names.
    pub node: String,
    /// Its chain, leaf first.
    pub cert_pem: String,
    /// Its key, PKCS#8.
    pub key_pem: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Credentials");
        fields.field("node", &self.node).finish_non_exhaustive()
    }
}

/// A certificate that is in no file and never changes.
#[derive(Debug)]
struct InMemory(CertMaterial);

impl CertSource for InMemory {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        Ok(self.0.clone())
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn rescans(&self) -> bool {
        false
    }
}

/// Trust in one authority.
pub(super) fn trust(authority: &str) -> Trust {
    let root = CertificateDer::from_pem_slice(authority.as_bytes());
    let mut roots = RootCertStore::empty();
    roots
        .add(root.expect("the authority is in PEM"))
        .expect("the authority is one");
    Trust::new(roots, Vec::new(), "the authority").expect("there is an authority")
}

impl Credentials {
    fn material(&self, trust: &Trust) -> CertMaterial {
        let chain = CertificateDer::pem_slice_iter(self.cert_pem.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>();
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes());
        let key = any_supported_type(&key.expect("the key is in PEM"));
        let own = CertifiedKey::new(
            chain.expect("the chain is in PEM"),
            key.expect("the key is of a known kind"),
        );
        CertMaterial {
            own: Some(OwnCert::new(own).expect("the certificate is a node's")),
            trust: Some(trust.clone()),
            warnings: Vec::new(),
        }
    }

    /// How the node reaches its controller.
    pub(super) async fn client_tls(&self, trust: &Trust) -> ClientTls {
        let store = CertStore::open(InMemory(self.material(trust))).await;
        let store = store.expect("it is in memory");
        let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        let tls = ClientTls::mutual(&store, server, ClientOptions::default());
        tls.expect("the certificate is of use")
    }
}
