//! Keys and certificates of nodes, made and brought by the identity manager at the cloud's word.

use muster_api::domain::{AosCode, AosError, CertType, NodeId};
use muster_cloud::message::incoming::{
    DeprovisioningRequest, FinishProvisioningRequest, IssuedCertificate, IssuedUnitCertificates,
    NodeSecret, RenewCertificates, StartProvisioningRequest,
};
use muster_cloud::message::outgoing::{
    CertificateRequest, InstallUnitCertificatesConfirmation, InstalledCertificate,
    IssueUnitCertificates, NodeCsr, NodeResponse, StartProvisioningResponse,
};
use muster_cloud::message::{
    self, DeprovisioningResponse, FinishProvisioningResponse, Identity, Incoming, Outgoing,
};
use muster_cloud::{CloudLink, Delivery, KeepError};
use muster_iamclient::IamClient;
use muster_telemetry::ErrorChain;

use super::{complaint, convert};
use crate::identity::LateIdentity;

/// Acts on one message. It is acknowledged when the answer is kept.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) link: CloudLink,
    pub(super) identity: LateIdentity,
}

type Done<T> = Result<T, AosError>;

/// What the cloud is told in the end.
enum Told {
    Answer(Outgoing),
    /// Certificates that are wanted, and what went wrong with others, for which there is no answer.
    Wanted(IssueUnitCertificates, Vec<String>),
    Nothing,
}

fn answer(answer: impl Into<Outgoing>) -> Told {
    Told::Answer(answer.into())
}

fn failed(error: &(dyn std::error::Error + 'static)) -> AosError {
    AosError::new(AosCode::Failed, ErrorChain(error).to_string())
}

fn node_id(node: &Identity) -> Done<NodeId> {
    let name = node.name().unwrap_or_default();
    NodeId::new(name).map_err(|error| AosError::new(AosCode::InvalidArgument, error.to_string()))
}

fn cert_type(text: &str) -> Done<CertType> {
    let parsed = text.parse();
    parsed.map_err(|error: muster_api::domain::InvalidValue| {
        AosError::new(AosCode::InvalidArgument, error.to_string())
    })
}

/// Whoever makes keys and brings certificates. A link with TLS is there only after it; without TLS there is nobody.
struct Authority {
    iam: Done<IamClient>,
    main: String,
}

impl Authority {
    fn of(identity: &LateIdentity) -> Self {
        match &*identity.borrow() {
            Some(known) => Self {
                iam: Ok(known.iam.clone()),
                main: known.main_node.to_string(),
            },
            None => {
                let text = "this Unit runs without an identity manager";
                Self {
                    iam: Err(AosError::new(AosCode::NotSupported, text)),
                    main: String::new(),
                }
            }
        }
    }

    fn iam(&self) -> Done<&IamClient> {
        self.iam.as_ref().map_err(Clone::clone)
    }
}

impl Certificates {
    pub(super) async fn act(self, message: Incoming, delivery: Delivery) {
        let authority = Authority::of(&self.identity);
        let told = match message {
            Incoming::StartProvisioning(request) => answer(authority.start(request).await),
            Incoming::FinishProvisioning(request) => {
                let node = request.node.clone();
                let done = authority.finish(request).await;
                answer(FinishProvisioningResponse(response(node, done)))
            }
            Incoming::Deprovisioning(request) => {
                let node = request.node.clone();
                let done = authority.deprovision(request).await;
                answer(DeprovisioningResponse(response(node, done)))
            }
            Incoming::RenewCertificates(request) => authority.renew(request).await,
            Incoming::IssuedUnitCertificates(issued) => answer(authority.install(issued).await),
            other => {
                let message_type = other.message_type();
                tracing::warn!(message_type, "nobody acts on this message of the cloud");
                Told::Nothing
            }
        };
        let correlation = delivery.correlation.as_deref();
        if let Err(error) = self.tell(&authority.main, told, correlation).await {
            // The cloud sends it again, because it is not acknowledged.
            tracing::warn!(error = %ErrorChain(&error), "an answer to the cloud is not kept");
            return;
        }
        delivery.accept();
    }

    async fn tell(
        &self,
        main: &str,
        told: Told,
        correlation: Option<&str>,
    ) -> Result<(), KeepError> {
        match told {
            Told::Nothing => Ok(()),
            Told::Answer(answer) => self.link.send(answer, correlation).await,
            Told::Wanted(wanted, failures) => {
                let alerts = failures.into_iter().map(|it| complaint(main, it));
                let alerts: Vec<_> = alerts.collect();
                if !alerts.is_empty() {
                    self.link.alerts(&alerts).await?;
                }
                match wanted.requests.is_empty() {
                    true => Ok(()),
                    false => self.link.send(wanted, correlation).await,
                }
            }
        }
    }
}

fn response(node: Identity, done: Done<()>) -> NodeResponse {
    NodeResponse {
        node,
        error_info: done.err().as_ref().map(convert::error),
    }
}

impl Authority {
    async fn start(&self, request: StartProvisioningRequest) -> StartProvisioningResponse {
        let password = request.password.expose();
        let made = async {
            let (iam, node) = (self.iam()?, node_id(&request.node)?);
            let started = iam.start_provisioning(&node, password).await;
            started.map_err(|error| failed(&error))?;
            let types = iam.cert_types(&node).await;
            let mut csrs = Vec::new();
            for kind in types.map_err(|error| failed(&error))? {
                let csr = iam.create_key(&node, &kind, "", password).await;
                csrs.push(NodeCsr {
                    kind: kind.to_string(),
                    csr: csr.map_err(|error| failed(&error))?,
                });
            }
            Ok(csrs)
        };
        let made: Done<Vec<NodeCsr>> = made.await;
        let (csrs, error) = match made {
            Ok(csrs) => (csrs, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        StartProvisioningResponse {
            node: request.node,
            csrs,
            error_info: error.as_ref().map(convert::error),
        }
    }

    async fn finish(&self, request: FinishProvisioningRequest) -> Done<()> {
        let (iam, node) = (self.iam()?, node_id(&request.node)?);
        for certificate in &request.certificates {
            let kind = cert_type(&certificate.kind)?;
            let applied = iam.apply_cert(&node, &kind, &certificate.chain).await;
            applied.map_err(|error| failed(&error))?;
        }
        let password = request.password.expose();
        let done = iam.finish_provisioning(&node, password).await;
        done.map_err(|error| failed(&error))
    }

    async fn deprovision(&self, request: DeprovisioningRequest) -> Done<()> {
        let (iam, node) = (self.iam()?, node_id(&request.node)?);
        let done = iam.deprovision(&node, request.password.expose()).await;
        done.map_err(|error| failed(&error))
    }

    /// New keys for certificates that end. The cloud asks again for what it does not get.
    async fn renew(&self, request: RenewCertificates) -> Told {
        let secrets = &request.unit_secrets.nodes;
        let mut requests = Vec::new();
        let mut failures = Vec::new();
        for certificate in request.certificates {
            let named = |it: &&NodeSecret| it.node.name() == certificate.node.name();
            let secret = secrets.iter().find(named);
            let password = secret.map_or("", |it| it.secret.expose());
            let made = async {
                let (iam, node) = (self.iam()?, node_id(&certificate.node)?);
                let kind = cert_type(certificate.kind.as_str())?;
                let csr = iam.create_key(&node, &kind, "", password).await;
                csr.map_err(|error| failed(&error))
            };
            match made.await {
                Ok(csr) => requests.push(CertificateRequest {
                    kind: certificate.kind,
                    node: certificate.node,
                    csr,
                }),
                Err(error) => {
                    let node = certificate.node.name().unwrap_or_default();
                    let kind = certificate.kind.as_str();
                    tracing::error!(node, kind, %error, "a key for a new certificate is not made");
                    failures.push(format!(
                        "no key for a new {kind} certificate of node {node}: {error}"
                    ));
                }
            }
        }
        Told::Wanted(IssueUnitCertificates { requests }, failures)
    }

    async fn install(&self, issued: IssuedUnitCertificates) -> InstallUnitCertificatesConfirmation {
        let mut certificates = Vec::new();
        for certificate in sorted(&self.main, issued.certificates) {
            let applied = async {
                let (iam, node) = (self.iam()?, node_id(&certificate.node)?);
                let kind = cert_type(certificate.kind.as_str())?;
                let chain = &certificate.certificate_chain;
                let applied = iam.apply_cert(&node, &kind, chain).await;
                applied.map_err(|error| failed(&error))
            };
            let (serial, error) = match applied.await {
                Ok(info) => (hex::encode(&info.serial), None),
                Err(error) => (String::new(), Some(error)),
            };
            certificates.push(InstalledCertificate {
                kind: certificate.kind,
                node: certificate.node,
                serial,
                error_info: error.as_ref().map(convert::error),
            });
        }
        InstallUnitCertificatesConfirmation { certificates }
    }
}

/// Secondary nodes first, by name, and each node's own identity manager last; so that whoever is cut off by its new
/// certificate has done its part.
fn sorted(main: &str, mut issued: Vec<IssuedCertificate>) -> Vec<IssuedCertificate> {
    issued.sort_by_key(|it| {
        let name = it.node.name().unwrap_or_default().to_owned();
        let is_iam = it.kind == message::CertType::Iam;
        (name == main, name, is_iam)
    });
    issued
}

#[cfg(test)]
mod tests {
    use muster_cloud::message::CertType as Kind;

    use super::*;

    #[test]
    fn the_main_node_comes_last_and_identity_managers_after_their_nodes() {
        let certificate = |node: &str, kind| IssuedCertificate {
            kind,
            node: Identity::codename(node),
            certificate_chain: String::new(),
        };
        let issued = vec![
            certificate("main", Kind::Iam),
            certificate("main", Kind::Sm),
            certificate("z", Kind::Iam),
            certificate("z", Kind::Sm),
            certificate("a", Kind::Iam),
            certificate("a", Kind::Online),
        ];
        let order: Vec<(String, Kind)> = sorted("main", issued)
            .into_iter()
            .map(|it| (it.node.name().expect("a name").to_owned(), it.kind))
            .collect();
        let expected = [
            ("a", Kind::Online),
            ("a", Kind::Iam),
            ("z", Kind::Sm),
            ("z", Kind::Iam),
            ("main", Kind::Sm),
            ("main", Kind::Iam),
        ];
        assert_eq!(order, expected.map(|(node, kind)| (node.to_owned(), kind)));
    }
}
