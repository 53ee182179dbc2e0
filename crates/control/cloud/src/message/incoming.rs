//! What the cloud says.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::common::{Base64, CertType, Checksum, Identity, IdentityType, Key, Secret, or_default};
use super::fold::from_value;

/// What the Unit shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DesiredStatus {
    /// Nodes, provisioned or paused.
    #[serde(deserialize_with = "or_default")]
    pub nodes: Vec<DesiredNode>,
    /// The Unit's configuration, as it came: whoever installs it knows its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_config: Option<Value>,
    /// What can run.
    #[serde(deserialize_with = "or_default")]
    pub items: Vec<DesiredItem>,
    /// What shall run.
    #[serde(deserialize_with = "or_default")]
    pub instances: Vec<DesiredInstances>,
    /// For whom.
    #[serde(deserialize_with = "or_default")]
    pub subjects: Vec<DesiredSubject>,
    /// Certificates that items may be signed with.
    #[serde(deserialize_with = "or_default")]
    pub certificates: Vec<SigningCertificate>,
    /// How they certify each other.
    #[serde(deserialize_with = "or_default")]
    pub certificate_chains: Vec<CertificateChain>,
}

/// How a node shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredNode {
    /// Which one, by codename.
    pub item: Identity,
    /// How.
    pub state: DesiredNodeState,
}

/// How a node shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum DesiredNodeState {
    Provisioned,
    Paused,
}

/// An item in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredItem {
    /// Which one, by id, and of which kind.
    pub item: Identity,
    /// In which version.
    pub version: String,
    /// Whose it is.
    #[serde(default, deserialize_with = "or_default")]
    pub owner: Identity,
    /// The digest of its OCI index.
    pub index_digest: String,
}

/// How an item shall run for a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredInstances {
    /// What.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// Higher is more important.
    #[serde(default)]
    pub priority: u64,
    /// How often.
    #[serde(default = "one")]
    pub num_instances: u64,
    /// A node must have all of them.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Vec<String>,
}

fn one() -> u64 {
    1
}

/// A subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredSubject {
    /// Which one.
    pub identity: Identity,
    /// Of which kind.
    #[serde(rename = "type")]
    pub kind: SubjectType,
    /// It counts only while the Unit itself says that it is there.
    #[serde(default)]
    pub is_reported_from_unit: bool,
}

/// What a subject is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum SubjectType {
    Group,
    User,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningCertificate {
    /// DER.
    pub certificate: Base64,
    /// How chains name it.
    pub fingerprint: String,
}

/// A chain of certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateChain {
    /// How signatures name it.
    pub name: String,
    /// Its certificates, the signer's first.
    pub fingerprints: Vec<String>,
}

/// Where blobs are: the answer to `requestBlobUrls`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobUrls {
    /// One for each digest that was asked for.
    pub items: Vec<BlobInfo>,
}

/// Where a blob is, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobInfo {
    /// Which one.
    pub digest: String,
    /// Where, best first.
    pub urls: Vec<String>,
    /// Of what is downloaded.
    pub sha256: Checksum,
    /// Of what is downloaded, in bytes.
    pub size: u64,
    /// How it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decrypt_info: Option<DecryptInfo>,
    /// How it is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_info: Option<SignInfo>,
}

/// How a blob is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecryptInfo {
    /// `AES256/CBC/pkcs7` or `AES256/GCM/`.
    #[serde(default = "cbc")]
    pub block_alg: String,
    /// The start vector.
    pub block_iv: Base64,
    /// The key.
    pub block_key: Key,
}

fn cbc() -> String {
    "AES256/CBC/pkcs7".to_owned()
}

/// How a blob is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignInfo {
    /// Which chain of the desired status.
    pub chain_name: String,
    /// `RSA/SHA256` or `EC/SHA256`.
    pub alg: String,
    /// The signature.
    pub value: Base64,
    /// When it was signed.
    pub trusted_timestamp: String,
    /// What was said about revocation then.
    #[serde(default, deserialize_with = "or_default")]
    pub ocsp_values: Vec<String>,
}

/// Which log entries are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestLog {
    /// Of whom.
    pub log_type: LogType,
    /// Which.
    pub filter: LogFilter,
    /// Where to, if not over this link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_options: Option<UploadOptions>,
}

/// Whose log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum LogType {
    SystemLog,
    InstanceLog,
    CrashLog,
}

/// Which log entries. What is not said does not limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogFilter {
    /// Not before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Not after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub till: Option<Timestamp>,
    /// Of these nodes, by codename; of all if empty.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub node_ids: Vec<Identity>,
    /// Of this item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Identity>,
    /// Of this subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Identity>,
    /// Of this instance.
    #[serde(deserialize_with = "index", skip_serializing_if = "Option::is_none")]
    pub instance: Option<u64>,
}

/// Another way for a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadOptions {
    /// Which way.
    #[serde(rename = "type")]
    pub kind: UploadType,
    /// Where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// With what permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<Secret>,
    /// Until when that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token_ttl: Option<Timestamp>,
}

/// Which way a log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UploadType {
    /// Over this link.
    Wss,
    /// By HTTPS.
    Https,
}

/// A state that an instance shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateState {
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

/// What the cloud says about a state that it was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateAcceptance {
    /// What runs.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// The how manieth.
    pub instance: u64,
    /// Of the state that it is about.
    pub checksum: Checksum,
    /// What it says.
    pub result: StateResult,
    /// Why.
    #[serde(default, deserialize_with = "or_default")]
    pub reason: String,
}

/// What the cloud says about a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum StateResult {
    Accepted,
    Rejected,
}

/// Environment variables over those of the images; all that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideEnvVars {
    /// By instances.
    pub items: Vec<EnvVars>,
}

/// Variables of some instances. What is not said does not limit which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVars {
    /// Of this item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Identity>,
    /// Of this subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Identity>,
    /// Of this instance.
    #[serde(
        default,
        deserialize_with = "index",
        skip_serializing_if = "Option::is_none"
    )]
    pub instance: Option<u64>,
    /// Which.
    pub variables: Vec<EnvVar>,
}

/// One variable. Its value may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
    /// Until when it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Timestamp>,
}

/// A node shall make its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartProvisioningRequest {
    /// Which one, by codename.
    pub node: Identity,
    /// Of its key store.
    pub password: Secret,
}

/// A node shall take its certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishProvisioningRequest {
    /// Which one, by codename.
    pub node: Identity,
    /// By type.
    pub certificates: Vec<NodeCertificate>,
    /// Of its key store.
    pub password: Secret,
}

/// A certificate of a node that is being provisioned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCertificate {
    /// What it is for; not a closed list.
    #[serde(rename = "type")]
    pub kind: String,
    /// It and those above it, PEM.
    pub chain: String,
}

/// A node shall forget its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeprovisioningRequest {
    /// Which one, by codename.
    pub node: Identity,
    /// Of its key store.
    pub password: Secret,
}

/// Certificates end soon: new keys and requests are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewCertificates {
    /// Which.
    pub certificates: Vec<ExpiringCertificate>,
    /// Passwords of the nodes' key stores.
    pub unit_secrets: UnitSecrets,
}

/// A certificate that ends soon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpiringCertificate {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: CertType,
    /// Whose it is, by codename.
    pub node: Identity,
    /// Its number.
    #[serde(default, deserialize_with = "or_default")]
    pub serial: String,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_till: Option<Timestamp>,
}

/// Passwords of key stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSecrets {
    /// Of this format.
    #[serde(default)]
    pub version: u64,
    /// By node.
    #[serde(default, deserialize_with = "one_or_many")]
    pub nodes: Vec<NodeSecret>,
}

/// The password of a node's key store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSecret {
    /// Which one, by codename.
    pub node: Identity,
    /// The password.
    pub secret: Secret,
}

/// New certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedUnitCertificates {
    /// By node and type.
    pub certificates: Vec<IssuedCertificate>,
}

/// A new certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCertificate {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: CertType,
    /// Whose it is, by codename.
    pub node: Identity,
    /// It and those above it, PEM.
    pub certificate_chain: String,
}

impl DesiredItem {
    /// Whether it is a component, which runs once per node type and never moves.
    pub fn is_component(&self) -> bool {
        self.item.kind == Some(IdentityType::Component)
    }
}

/// The index of an instance; negative means all, as on the Unit's own wire.
fn index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let index = Option::<i64>::deserialize(deserializer)?;
    Ok(index.and_then(|it| u64::try_from(it).ok()))
}

/// A list, which the published schema says is one object.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NodeSecret>, D::Error> {
    let nodes = match Value::deserialize(deserializer)? {
        Value::Null => Vec::new(),
        Value::Array(nodes) => nodes,
        one => vec![one],
    };
    let nodes = nodes.into_iter().map(from_value);
    nodes.collect::<Result<_, _>>().map_err(de::Error::custom)
}
