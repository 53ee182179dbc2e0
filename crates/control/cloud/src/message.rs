//! The protocol's messages, version 7.
//!
//! [`Incoming`] is what the cloud says, [`Outgoing`] what the Unit says. Keys are read in any case; what is not known is left
//! out; where the published schema and what runs differ, both are read, and what runs is written.

mod bounded;
mod common;
mod fold;
pub mod incoming;
pub mod outgoing;
pub mod status;
pub mod telemetry;
#[cfg(test)]
mod tests;

/// When something was, in these messages.
pub use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::common::{
    Base64, CertType, Checksum, ErrorInfo, Identity, IdentityType, Key, Secret,
};
pub use self::fold::InvalidField;
use self::incoming::{
    BlobUrls, DeprovisioningRequest, DesiredStatus, FinishProvisioningRequest,
    IssuedUnitCertificates, OverrideEnvVars, RenewCertificates, RequestLog,
    StartProvisioningRequest, StateAcceptance, UpdateState,
};
use self::outgoing::{
    InstallUnitCertificatesConfirmation, IssueUnitCertificates, NewState, NodeResponse,
    OverrideEnvVarsStatus, RequestBlobUrls, StartProvisioningResponse, StateRequest,
};
use self::status::UnitStatus;
use self::telemetry::{Alerts, MonitoringData, PushLog};

/// The version of the protocol.
pub const VERSION: u64 = 7;
/// How long a transaction's or a correlation's name may be.
const LONGEST_NAME: usize = 256;

macro_rules! messages {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident($content:ty) = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant($content),)*
        }

        impl $name {
            /// The types of these messages, as the protocol calls them.
            pub const TYPES: &[&str] = &[$($word),*];

            /// What the protocol calls it.
            pub fn message_type(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $word,)*
                }
            }

            fn read(message_type: &str, data: Value) -> Result<Self, ReadMessageError> {
                let problem = |source| ReadMessageError::Content {
                    message_type: message_type.to_owned(),
                    source,
                };
                match message_type {
                    $($word => fold::from_value(data).map(Self::$variant).map_err(problem),)*
                    _ => Err(ReadMessageError::Unknown {
                        message_type: message_type.chars().take(64).collect(),
                    }),
                }
            }
        }

        $(
            impl From<$content> for $name {
                fn from(content: $content) -> Self {
                    Self::$variant(content)
                }
            }
        )*
    };
}

messages! {
    /// What the cloud says.
    Incoming {
        /// What the Unit shall be.
        DesiredStatus(DesiredStatus) = "desiredStatus",
        /// Where blobs are.
        BlobUrls(BlobUrls) = "blobUrls",
        /// Which log entries are wanted.
        RequestLog(RequestLog) = "requestLog",
        /// A state that an instance shall have.
        UpdateState(UpdateState) = "updateState",
        /// What the cloud says about a state that it was shown.
        StateAcceptance(StateAcceptance) = "stateAcceptance",
        /// Environment variables over those of the images.
        OverrideEnvVars(OverrideEnvVars) = "overrideEnvVars",
        /// A node shall make its keys.
        StartProvisioning(StartProvisioningRequest) = "startProvisioningRequest",
        /// A node shall take its certificates.
        FinishProvisioning(FinishProvisioningRequest) = "finishProvisioningRequest",
        /// A node shall forget its keys.
        Deprovisioning(DeprovisioningRequest) = "deprovisioningRequest",
        /// Certificates end soon.
        RenewCertificates(RenewCertificates) = "renewCertificatesNotification",
        /// New certificates.
        IssuedUnitCertificates(IssuedUnitCertificates) = "issuedUnitCertificates",
    }
}

/// What became of a node's certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FinishProvisioningResponse(pub NodeResponse);

/// What became of a node's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeprovisioningResponse(pub NodeResponse);

messages! {
    /// What the Unit says.
    Outgoing {
        /// How the Unit is.
        UnitStatus(UnitStatus) = "unitStatus",
        /// Where are these blobs?
        RequestBlobUrls(RequestBlobUrls) = "requestBlobUrls",
        /// What nodes and instances used.
        Monitoring(MonitoringData) = "monitoringData",
        /// What went wrong.
        Alerts(Alerts) = "alerts",
        /// A part of a log.
        PushLog(PushLog) = "pushLog",
        /// What state shall the instance have?
        StateRequest(StateRequest) = "stateRequest",
        /// An instance has a new state.
        NewState(NewState) = "newState",
        /// What became of environment variables.
        OverrideEnvVarsStatus(OverrideEnvVarsStatus) = "overrideEnvVarsStatus",
        /// A node has made its keys, or not.
        StartProvisioning(StartProvisioningResponse) = "startProvisioningResponse",
        /// What became of a node's certificates.
        FinishProvisioning(FinishProvisioningResponse) = "finishProvisioningResponse",
        /// What became of a node's end.
        Deprovisioning(DeprovisioningResponse) = "deprovisioningResponse",
        /// Certificates are wanted.
        IssueUnitCertificates(IssueUnitCertificates) = "issueUnitCertificates",
        /// What became of new certificates.
        InstallUnitCertificatesConfirmation(InstallUnitCertificatesConfirmation)
            = "installUnitCertificatesConfirmation",
    }
}

/// Why a message is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadMessageError {
    /// It is not JSON, or too deep or too long.
    #[error("the message is not JSON that can be read")]
    Json(#[source] serde_json::Error),
    /// Header or data is missing or not right.
    #[error("the message's envelope is not right")]
    Envelope(#[source] InvalidField),
    /// It is of another version of the protocol.
    #[error("the message is of version {version} of the protocol, not {VERSION}")]
    Version {
        /// Which one.
        version: u64,
    },
    /// It is for another Unit.
    #[error("the message is for another system")]
    System,
    /// Its type is not known.
    #[error("messages of type {message_type:?} are not known")]
    Unknown {
        /// What it says, shortened.
        message_type: String,
    },
    /// Its content is not right.
    #[error("the content of a message of type {message_type} is not right")]
    Content {
        /// Its type.
        message_type: String,
        /// What is wrong.
        source: InvalidField,
    },
}

/// A message with what it came in.
#[derive(Debug)]
pub struct Envelope<T> {
    /// Its name, which an acknowledgement repeats.
    pub txn: String,
    /// To which request it belongs.
    pub correlation: Option<String>,
    /// What it says; an error if that is not understood.
    pub body: Result<Body<T>, ReadMessageError>,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq)]
pub enum Body<T> {
    /// The message of this name has arrived.
    Ack,
    /// The message of this name is to be sent again.
    Nack {
        /// So many milliseconds later.
        retry_after: Option<u64>,
    },
    /// A message proper.
    Message(T),
}

#[derive(Deserialize)]
struct Outer {
    header: Header,
    data: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(default = "current")]
    version: u64,
    system_id: String,
    #[serde(default)]
    created_at: String,
    txn: String,
}

fn current() -> u64 {
    VERSION
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inner {
    message_type: String,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    retry_after: Option<u64>,
}

fn read<T>(
    bytes: &[u8],
    system_id: &str,
    content: impl FnOnce(&str, Value) -> Result<T, ReadMessageError>,
) -> Result<Envelope<T>, ReadMessageError> {
    // No value takes fewer than two bytes; the densest lists of real messages take ten for each.
    let value = bounded::read(bytes, 64 + bytes.len() / 4).map_err(ReadMessageError::Json)?;
    let outer: Outer = fold::from_value(value).map_err(ReadMessageError::Envelope)?;
    if outer.header.version != VERSION {
        let version = outer.header.version;
        return Err(ReadMessageError::Version { version });
    }
    if outer.header.system_id != system_id {
        return Err(ReadMessageError::System);
    }
    let problem = |text: &str| ReadMessageError::Envelope(serde::de::Error::custom(text));
    let txn = outer.header.txn;
    if txn.is_empty() || txn.len() > LONGEST_NAME {
        return Err(problem("txn has no name that can be used"));
    }
    let inner: Inner =
        fold::from_value(head_of(&outer.data)).map_err(ReadMessageError::Envelope)?;
    let correlation = inner.correlation_id.filter(|it| !it.is_empty());
    if correlation
        .as_ref()
        .is_some_and(|it| it.len() > LONGEST_NAME)
    {
        return Err(problem("correlationId is too long"));
    }
    let body = match inner.message_type.as_str() {
        "ack" => Ok(Body::Ack),
        "nack" => Ok(Body::Nack {
            retry_after: inner.retry_after,
        }),
        other => content(other, outer.data).map(Body::Message),
    };
    Ok(Envelope {
        txn,
        correlation,
        body,
    })
}

/// The few values of the data that every message has, so that the others are not copied.
fn head_of(data: &Value) -> Value {
    const HEAD: [&str; 3] = ["messageType", "correlationId", "retryAfter"];
    let entries = data.as_object().into_iter().flatten();
    let head = entries.filter(|(key, _)| HEAD.iter().any(|it| it.eq_ignore_ascii_case(key)));
    Value::Object(
        head.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

impl Envelope<Incoming> {
    /// Reads a message of the cloud to this system.
    ///
    /// # Errors
    /// When there is nobody to answer: no message, no envelope, or not for this system.
    pub fn from_cloud(bytes: &[u8], system_id: &str) -> Result<Self, ReadMessageError> {
        read(bytes, system_id, Incoming::read)
    }
}

impl Envelope<Outgoing> {
    /// Reads a message of a Unit, as a cloud does.
    ///
    /// # Errors
    /// As for [`from_cloud`](Envelope::from_cloud).
    pub fn from_unit(bytes: &[u8], system_id: &str) -> Result<Self, ReadMessageError> {
        read(bytes, system_id, Outgoing::read)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a, T> {
    message_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(flatten)]
    content: &'a T,
}

/// A message's `data`, as text.
fn data<T: Serialize>(message_type: &str, correlation: Option<&str>, content: &T) -> String {
    let data = Data {
        message_type,
        correlation_id: correlation,
        content,
    };
    serde_json::to_string(&data).expect("messages have text keys and no maps of other kinds")
}

impl Outgoing {
    /// The `data` of the message, as text.
    pub fn data(&self, correlation: Option<&str>) -> String {
        data(self.message_type(), correlation, self)
    }
}

impl Incoming {
    /// The `data` of the message, as text.
    pub fn data(&self, correlation: Option<&str>) -> String {
        data(self.message_type(), correlation, self)
    }
}

/// The `data` of an acknowledgement.
pub fn ack_data() -> String {
    r#"{"messageType":"ack"}"#.to_owned()
}

/// The `data` of a refusal.
pub fn nack_data(retry_after: std::time::Duration) -> String {
    format!(
        r#"{{"messageType":"nack","retryAfter":{}}}"#,
        retry_after.as_millis()
    )
}

/// A whole message around its `data`.
pub fn envelope(system_id: &str, txn: &str, created_at: Timestamp, data: &str) -> String {
    let header = Header {
        version: VERSION,
        system_id: system_id.to_owned(),
        created_at: created_at.to_string(),
        txn: txn.to_owned(),
    };
    let header = serde_json::to_string(&header).expect("a header has text keys");
    format!(r#"{{"header":{header},"data":{data}}}"#)
}
