//! Keys and certificates of nodes, made and brought by the identity manager at the cloud's word.

use muster_api::domain::{AosCode, AosError, CertType, NodeId};
use muster_cloud::message::incoming::{
    FinishProvisioningRequest, IssuedCertificate, IssuedUnitCertificates, NodeSecret,
    RenewCertificates, StartProvisioningRequest,
};
use muster_cloud::message::outgoing::{
    CertificateRequest, InstallUnitCertificatesConfirmation, InstalledCertificate,
    IssueUnitCertificates, NodeCsr, NodeResponse, StartProvisioningResponse,
};
use muster_cloud::message::{
    self, DeprovisioningResponse, FinishProvisioningResponse, Identity, Incoming, Outgoing,
};
use muster_cloud::{CloudLink, Delivery};
use muster_iamclient::IamClient;
use muster_telemetry::ErrorChain;

use super::convert;
use crate::identity::{LateIdentity, arrival};

/// Acts on one message. It is acknowledged when the answer is kept.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) link: CloudLink,
    pub(super) identity: LateIdentity,
}

type Done<T> = Result<T, AosError>;

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

impl Certificates {
    pub(super) async fn act(self, message: Incoming, delivery: Delivery) {
        let identity = arrival(self.identity.clone()).await;
        let (iam, main) = (&identity.iam, &identity.main_node);
        let answer: Option<Outgoing> = match message {
            Incoming::StartProvisioning(request) => Some(start(iam, request).await.into()),
            Incoming::FinishProvisioning(request) => {
                let node = request.node.clone();
                let done = finish(iam, request).await;
                Some(FinishProvisioningResponse(response(node, done)).into())
            }
            Incoming::Deprovisioning(request) => {
                let done = async {
                    let node = node_id(&request.node)?;
                    let done = iam.deprovision(&node, request.password.expose()).await;
                    done.map_err(|error| failed(&error))
                };
                let done = done.await;
                Some(DeprovisioningResponse(response(request.node, done)).into())
            }
            Incoming::RenewCertificates(request) => Some(renew(iam, request).await.into()),
            Incoming::IssuedUnitCertificates(issued) => {
                Some(install(iam, main, issued).await.into())
            }
            other => {
                let message_type = other.message_type();
                tracing::warn!(message_type, "nobody acts on this message of the cloud");
                None
            }
        };
        if let Some(answer) = answer {
            let kept = self
                .link
                .send(answer, delivery.correlation.as_deref())
                .await;
            if let Err(error) = kept {
                // The cloud sends it again, because it is not acknowledged.
                tracing::warn!(error = %ErrorChain(&error), "an answer to the cloud is not kept");
                return;
            }
        }
        delivery.accept();
    }
}

fn response(node: Identity, done: Done<()>) -> NodeResponse {
    NodeResponse {
        node,
        error_info: done.err().as_ref().map(convert::error),
    }
}

async fn start(iam: &IamClient, request: StartProvisioningRequest) -> StartProvisioningResponse {
    let password = request.password.expose();
    let made = async {
        let node = node_id(&request.node)?;
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

async fn finish(iam: &IamClient, request: FinishProvisioningRequest) -> Done<()> {
    let node = node_id(&request.node)?;
    for certificate in &request.certificates {
        let kind = cert_type(&certificate.kind)?;
        let applied = iam.apply_cert(&node, &kind, &certificate.chain).await;
        applied.map_err(|error| failed(&error))?;
    }
    let done = iam
        .finish_provisioning(&node, request.password.expose())
        .await;
    done.map_err(|error| failed(&error))
}

/// New keys for certificates that end. What fails is logged; the cloud asks again for what it does not get.
async fn renew(iam: &IamClient, request: RenewCertificates) -> IssueUnitCertificates {
    let secrets = &request.unit_secrets.nodes;
    let mut requests = Vec::new();
    for certificate in request.certificates {
        let named = |it: &&NodeSecret| it.node.name() == certificate.node.name();
        let secret = secrets.iter().find(named);
        let password = secret.map_or("", |it| it.secret.expose());
        let made = async {
            let node = node_id(&certificate.node)?;
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
                let (node, kind) = (certificate.node.name(), certificate.kind.as_str());
                tracing::error!(node, kind, %error, "a key for a new certificate is not made");
            }
        }
    }
    IssueUnitCertificates { requests }
}

/// Secondary nodes first, by name, and each node's own identity manager last; so that whoever is cut off by its new
/// certificate has done its part.
fn sorted(main: &NodeId, mut issued: Vec<IssuedCertificate>) -> Vec<IssuedCertificate> {
    issued.sort_by_key(|it| {
        let name = it.node.name().unwrap_or_default().to_owned();
        let is_iam = it.kind == message::CertType::Iam;
        (name == main.as_str(), name, is_iam)
    });
    issued
}

async fn install(
    iam: &IamClient,
    main: &NodeId,
    issued: IssuedUnitCertificates,
) -> InstallUnitCertificatesConfirmation {
    let mut certificates = Vec::new();
    for certificate in sorted(main, issued.certificates) {
        let applied = async {
            let node = node_id(&certificate.node)?;
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
        let main = NodeId::new("main").expect("an id");
        let order: Vec<(String, Kind)> = sorted(&main, issued)
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
