//! Two ports as a Main Node has them: server TLS on the public one, mutual TLS on the protected one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http::Uri;
use muster_lab::pki::{CertSpec, Pki};
use muster_node_registry::{JoinLink, JoinPort, JoinTargets};
use muster_rpc::server::RunningServer;
use muster_rpc::{BoxFuture, Dial, DialError, Target, Transport};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, IdentityPolicy, Role,
    ServerName, ServerOptions, ServerTls,
};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::rig::*;

struct Site {
    main: Main,
    pki: Pki,
    folder: TempDir,
    public: RunningServer,
    protected: RunningServer,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new("system-1").unwrap();
        pki.write_ca(folder.path(), "ca").unwrap();
        let own = issue(&pki, folder.path(), "main", "main").await;
        let main = Main::new(quick()).await;
        let tls = ServerTls::server_only(&own, ServerOptions::default()).unwrap();
        let public = main.serve(false, &tls).await;
        let policy = IdentityPolicy::spiffe_only();
        let tls = ServerTls::mutual(&own, policy, ServerOptions::default()).unwrap();
        let protected = main.serve(true, &tls).await;
        Self {
            main,
            pki,
            folder,
            public,
            protected,
        }
    }

    async fn cert(&self, node: &str) -> CertStore {
        issue(&self.pki, self.folder.path(), node, node).await
    }

    /// The public port needs no certificate; the protected one waits until there is one.
    fn targets(&self, roots: &CertStore, cert: watch::Receiver<Option<CertStore>>) -> JoinTargets {
        let name = ServerName::Spiffe(ExpectedServer::role(Role::Iam));
        let tls = ClientTls::without_certificate(roots, name, ClientOptions::default()).unwrap();
        let public = Target::new(tls, &self.public.address().to_string()).unwrap();
        JoinTargets {
            public: Arc::new(public),
            protected: Arc::new(WithCertificate {
                address: self.protected.address(),
                cert,
            }),
        }
    }

    async fn end(self, link: JoinLink) {
        link.stop().await;
        self.public.shutdown().await;
        self.protected.shutdown().await;
    }
}

async fn issue(pki: &Pki, folder: &Path, stem: &str, node: &str) -> CertStore {
    let issued = pki.issue(&CertSpec::node(node, "iam")).unwrap();
    let files = issued.write_to(folder, stem).unwrap();
    let source = FileCertSource::mutual(files.cert, files.key, folder.join("ca.pem"));
    CertStore::open(source).await.unwrap()
}

struct WithCertificate {
    address: SocketAddr,
    cert: watch::Receiver<Option<CertStore>>,
}

impl Dial for WithCertificate {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let Some(store) = self.cert.borrow().clone() else {
            let missing = std::io::Error::other("there is no certificate yet");
            return Box::pin(async { Err(DialError::Transport(missing)) });
        };
        let name = ServerName::Spiffe(ExpectedServer::role(Role::Iam));
        let tls = ClientTls::mutual(&store, name, ClientOptions::default()).unwrap();
        Target::new(tls, &self.address.to_string()).unwrap().dial()
    }

    fn origin(&self) -> Uri {
        format!("https://{}", self.address).parse().unwrap()
    }
}

#[tokio::test]
async fn a_node_moves_to_the_protected_port_when_it_is_provisioned_and_back() {
    let site = Site::new().await;
    let roots = site.cert("any").await;
    let (cert, has_cert) = watch::channel(None);
    let device = Device::new("a", Unprovisioned);
    let link = join(&device, site.targets(&roots, has_cert));
    let registry = &site.main.registry;
    for round in 0..3 {
        joins_on(&link, JoinPort::Public).await;
        site.main
            .sees("a", |record| {
                record.info.state == Unprovisioned && is_here(record)
            })
            .await;
        registry.command("a", start_provisioning()).await.unwrap();
        registry.command("a", cert_types()).await.unwrap();
        cert.send_replace(Some(site.cert("a").await));
        // The answer arrives although the node leaves the port with it.
        registry.command("a", finish_provisioning()).await.unwrap();
        assert_eq!(
            registry.info("a").unwrap().info.state,
            Provisioned,
            "round {round}"
        );
        joins_on(&link, JoinPort::Protected).await;
        site.main.sees_connected("a").await;
        registry.command("a", pause()).await.unwrap();
        assert_eq!(registry.info("a").unwrap().info.state, Paused);
        registry.command("a", resume()).await.unwrap();
        registry.command("a", deprovision()).await.unwrap();
        assert_eq!(registry.info("a").unwrap().info.state, Unprovisioned);
        cert.send_replace(None);
    }
    joins_on(&link, JoinPort::Public).await;
    site.end(link).await;
}

#[tokio::test]
async fn a_certificate_of_another_node_opens_no_stream_for_this_one() {
    let site = Site::new().await;
    let other = site.cert("b").await;
    let (_cert, has_cert) = watch::channel(Some(other.clone()));
    let device = Device::new("a", Provisioned);
    let link = join(&device, site.targets(&other, has_cert));
    let mut status = link.status();
    for _ in 0..3 {
        soon("a stream", status.wait_for(|status| status.connected))
            .await
            .unwrap();
        soon("its end", status.wait_for(|status| !status.connected))
            .await
            .unwrap();
    }
    assert_eq!(site.main.registry.info("a"), None);
    site.end(link).await;
}

#[tokio::test]
async fn a_new_certificate_cuts_no_stream() {
    let site = Site::new().await;
    let own = site.cert("a").await;
    let (cert, has_cert) = watch::channel(Some(own.clone()));
    let device = Device::new("a", Provisioned);
    let link = join(&device, site.targets(&own, has_cert));
    site.main.sees_connected("a").await;
    joins_on(&link, JoinPort::Protected).await;
    let mut status = link.status();
    status.mark_unchanged();
    let mut generations = own.subscribe();
    generations.mark_unchanged();
    cert.send_replace(Some(site.cert("a").await));
    soon("the new certificate", generations.changed())
        .await
        .unwrap();
    for _ in 0..5 {
        site.main.registry.command("a", cert_types()).await.unwrap();
    }
    assert!(!status.has_changed().unwrap(), "the stream was cut");
    site.end(link).await;
}
