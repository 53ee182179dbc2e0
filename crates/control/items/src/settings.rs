//! What the keeper of items is told.

use std::path::PathBuf;
use std::time::Duration;

use muster_image::HttpSettings;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How items are got and kept.
#[derive(Debug, Clone)]
pub struct ItemsSettings {
    /// Their folder. Belongs to this crate alone.
    pub folder: PathBuf,
    /// The most that items may take, in bytes; as much as the file system has if absent.
    pub max_bytes: Option<u64>,
    /// How long an item that is not needed any more stays, unless space is short: 30 days.
    pub item_ttl: Duration,
    /// Between two looks for what may go and for damage: a day.
    pub maintenance_period: Duration,
    /// Blobs that are downloaded at the same time: 3.
    pub parallel: usize,
    /// Tries of one blob that bring nothing before it is given up: 3.
    pub tries: u32,
    /// Before the second of such tries; doubles with each one, up to a minute.
    pub retry_delay: Duration,
    /// How long the cloud may take to say where a blob is.
    pub answer: Duration,
    /// How the cloud's URLs are asked.
    pub http: HttpSettings,
    /// Take `http` URLs from the cloud, too. What comes is verified in any case, but everybody on the way sees it.
    pub plain_http: bool,
    /// Whose signatures count for items of the cloud.
    pub signatures: SignaturePolicy,
    /// Files with revocation lists (PEM) that are added to those of the policy. They are read anew for every item, because
    /// authorities replace them.
    pub revocation_list_files: Vec<PathBuf>,
}

/// Whose signatures count for items of the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// Authorities (certificates in DER) that every chain must lead to.
    pub roots: Vec<Vec<u8>>,
    /// Revocation lists of authorities (DER). Where there are any, an authority that has none certifies nobody; one that should
    /// have been replaced by now still counts. They are what is known about revocation: OCSP is not spoken, and what a cloud says
    /// about it beside a signature is not looked at.
    pub revocation_lists: Vec<Vec<u8>>,
    /// Take blobs that nobody has signed. Signatures that are there are checked all the same.
    pub accept_unsigned: bool,
}

impl ItemsSettings {
    /// Settings with the defaults that stand beside the fields. Signatures are required.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            max_bytes: None,
            item_ttl: 30 * DAY,
            maintenance_period: DAY,
            parallel: 3,
            tries: 3,
            retry_delay: Duration::from_secs(1),
            answer: Duration::from_secs(60),
            http: HttpSettings::default(),
            plain_http: false,
            signatures: SignaturePolicy::default(),
            revocation_list_files: Vec::new(),
        }
    }
}
