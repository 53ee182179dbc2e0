//! What the Unit says, apart from its status, monitoring, alerts and logs.

use serde::{Deserialize, Serialize};

use super::common::{CertType, Checksum, ErrorInfo, Identity};

/// Where are these blobs?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestBlobUrls {
    /// By digest.
    pub digests: Vec<String>,
}

/// What state shall the instance have?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRequest {
    /// What runs.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// The how manieth.
    pub instance: u64,
    /// The one that it begins with is wanted, not the last one.
    pub default: bool,
}

/// An instance has a new state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewState {
    /// What runs.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// The how manieth.
    pub instance: u64,
    /// Of the state.
    pub state_checksum: Checksum,
    /// The state.
    pub state: String,
}

/// What became of environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideEnvVarsStatus {
    /// By instance and variable.
    pub statuses: Vec<EnvVarStatus>,
}

/// What became of a variable of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVarStatus {
    /// What runs.
    pub item: Identity,
    /// For whom.
    #[serde(alias = "subjectId")]
    pub subject: Identity,
    /// The how manieth.
    pub instance: u64,
    /// Which variable.
    pub name: String,
    /// Why it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// A node has made its keys, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartProvisioningResponse {
    /// Which one, by codename.
    pub node: Identity,
    /// What is to be signed.
    pub csrs: Vec<NodeCsr>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// A request for a certificate of a node that is being provisioned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCsr {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: String,
    /// PEM.
    pub csr: String,
}

/// What became of a node's certificates, or of its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResponse {
    /// Which one, by codename.
    pub node: Identity,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// Certificates are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueUnitCertificates {
    /// By node and type.
    pub requests: Vec<CertificateRequest>,
}

/// A certificate is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRequest {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: CertType,
    /// Whose it will be, by codename.
    pub node: Identity,
    /// PEM.
    pub csr: String,
}

/// What became of new certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallUnitCertificatesConfirmation {
    /// By node and type.
    pub certificates: Vec<InstalledCertificate>,
}

/// What became of a new certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledCertificate {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: CertType,
    /// Whose it is, by codename.
    pub node: Identity,
    /// Its number, in hexadecimal.
    pub serial: String,
    /// Why it is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}
