//! Calls of the protected port.

use muster_api::domain::{CertType, InstanceIdent, NodeId};
use muster_api::iamanager::v6 as wire;
use wire::iam_certificate_service_client::IamCertificateServiceClient;
use wire::iam_nodes_service_client::IamNodesServiceClient;
use wire::iam_permissions_service_client::IamPermissionsServiceClient;
use wire::iam_provisioning_service_client::IamProvisioningServiceClient;

use crate::client::{Call, IamClient, OF_NODE, PROVISIONING, SOON};
use crate::error::IamCallError;
use crate::types::{CertInfo, Grants, InstanceSecret};

/// A provisioning call that takes a node and a password and answers nothing but success.
macro_rules! provisioning_call {
    ($(#[$doc:meta])* $method:ident, $name:literal, $rpc:ident, $request:ident) => {
        $(#[$doc])*
        pub async fn $method(&self, node: &NodeId, password: &str) -> Result<(), IamCallError> {
            let mut client = IamProvisioningServiceClient::new(self.protected($name)?);
            let call = Call::new($name, node, PROVISIONING);
            let request = wire::$request {
                node_id: node.to_string(),
                password: password.to_owned(),
            };
            let answer = call.make(client.$rpc(request)).await?;
            call.check(answer.error)
        }
    };
}

/// Calls of the protected port.
impl IamClient {
    /// Takes a node out of service.
    pub async fn pause_node(&self, node: &NodeId) -> Result<(), IamCallError> {
        const NAME: &str = "PauseNode";
        let mut client = IamNodesServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, node, OF_NODE);
        let request = wire::PauseNodeRequest {
            node_id: node.to_string(),
        };
        let answer = call.make(client.pause_node(request)).await?;
        call.check(answer.error)
    }

    /// Takes a paused node back into service.
    pub async fn resume_node(&self, node: &NodeId) -> Result<(), IamCallError> {
        const NAME: &str = "ResumeNode";
        let mut client = IamNodesServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, node, OF_NODE);
        let request = wire::ResumeNodeRequest {
            node_id: node.to_string(),
        };
        let answer = call.make(client.resume_node(request)).await?;
        call.check(answer.error)
    }

    /// The certificates that a node needs.
    pub async fn cert_types(&self, node: &NodeId) -> Result<Vec<CertType>, IamCallError> {
        const NAME: &str = "GetCertTypes";
        let mut client = IamProvisioningServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, node, PROVISIONING);
        let request = wire::GetCertTypesRequest {
            node_id: node.to_string(),
        };
        let types = call.make(client.get_cert_types(request)).await?.types;
        let types: Result<_, _> = types.iter().map(|text| text.parse()).collect();
        types.map_err(|error| call.unusable(error))
    }

    provisioning_call!(
        /// First step of provisioning: prepares the node's key stores.
        start_provisioning, "StartProvisioning", start_provisioning, StartProvisioningRequest
    );
    provisioning_call!(
        /// Last step of provisioning: the node is a member from here on.
        finish_provisioning, "FinishProvisioning", finish_provisioning, FinishProvisioningRequest
    );
    provisioning_call!(
        /// Makes a node forget what provisioning gave it.
        deprovision, "Deprovision", deprovision, DeprovisionRequest
    );

    /// Makes a new key on a node, and gives the signing request for it, PEM. An empty subject is the
    /// system id.
    pub async fn create_key(
        &self,
        node: &NodeId,
        cert_type: &CertType,
        subject: &str,
        password: &str,
    ) -> Result<String, IamCallError> {
        const NAME: &str = "CreateKey";
        let mut client = IamCertificateServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, format_args!("{node}, {cert_type}"), PROVISIONING);
        let request = wire::CreateKeyRequest {
            node_id: node.to_string(),
            subject: subject.to_owned(),
            r#type: cert_type.to_string(),
            password: password.to_owned(),
        };
        let answer = call.make(client.create_key(request)).await?;
        call.check(answer.error)?;
        Ok(answer.csr)
    }

    /// Brings a node the certificate for the key made last: the chain, PEM, own certificate first.
    pub async fn apply_cert(
        &self,
        node: &NodeId,
        cert_type: &CertType,
        chain: &str,
    ) -> Result<CertInfo, IamCallError> {
        const NAME: &str = "ApplyCert";
        let mut client = IamCertificateServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, format_args!("{node}, {cert_type}"), PROVISIONING);
        let request = wire::ApplyCertRequest {
            node_id: node.to_string(),
            r#type: cert_type.to_string(),
            cert: chain.to_owned(),
        };
        let answer = call.make(client.apply_cert(request)).await?;
        call.check(answer.error)?;
        call.read(answer.cert_info.unwrap_or_default())
    }

    /// Registers what an instance may do, and gives its secret; the same as before if it is
    /// registered.
    pub async fn register_instance(
        &self,
        instance: &InstanceIdent,
        grants: &Grants,
    ) -> Result<InstanceSecret, IamCallError> {
        const NAME: &str = "RegisterInstance";
        let mut client = IamPermissionsServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, instance, SOON);
        let granted = |(server, permissions): (&String, &_)| {
            let permissions = wire::Permissions {
                permissions: Clone::clone(permissions),
            };
            (server.clone(), permissions)
        };
        let request = wire::RegisterInstanceRequest {
            instance: Some(instance.clone().into()),
            permissions: grants.iter().map(granted).collect(),
        };
        let answer = call.make(client.register_instance(request)).await?;
        Ok(InstanceSecret::new(answer.secret))
    }

    /// Makes an instance's secret worthless.
    pub async fn unregister_instance(&self, instance: &InstanceIdent) -> Result<(), IamCallError> {
        const NAME: &str = "UnregisterInstance";
        let mut client = IamPermissionsServiceClient::new(self.protected(NAME)?);
        let call = Call::new(NAME, instance, SOON);
        let request = wire::UnregisterInstanceRequest {
            instance: Some(instance.clone().into()),
        };
        call.make(client.unregister_instance(request)).await
    }
}
