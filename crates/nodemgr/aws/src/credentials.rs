//! Who we are for AWS.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_async::rt::sleep::TokioSleep;
use tokio::sync::Mutex;

use crate::settings::Region;
use crate::transport::{CredentialsHttp, Http};

/// Credentials are renewed so long before they end.
const MARGIN: Duration = Duration::from_secs(5 * 60);
/// Those that do not end are read again so often, so that a changed file is noticed.
const READ_AGAIN: Duration = Duration::from_secs(15 * 60);

/// There are no credentials.
#[derive(Debug, thiserror::Error)]
#[error(
    "there are no credentials for AWS: looked at the environment, the profile, a web identity, the container and the machine"
)]
pub struct NoCredentials(#[source] CredentialsError);

impl NoCredentials {
    /// Whether somebody has to do something about it. A role's or a container's may come by themselves.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(
            self.0,
            CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_)
        )
    }
}

/// Where credentials come from: what every tool of AWS looks at, in the same order, or some that are given.
#[derive(Clone)]
pub struct CredentialSource(SharedCredentialsProvider);

impl CredentialSource {
    /// Some that are given.
    #[must_use]
    pub fn fixed(access_key: &str, secret: &muster_provider::Secret) -> Self {
        let secret = secret.reveal();
        let credentials = Credentials::new(access_key, secret, None, None, "given");
        Self(SharedCredentialsProvider::new(credentials))
    }

    /// The environment, a profile, a web identity, a container's, a machine's (IMDSv2).
    pub(crate) async fn chain(http: &Arc<Http>, profile: Option<&str>, region: &Region) -> Self {
        let region = aws_config::Region::new(region.as_str().to_owned());
        let mut chain = DefaultCredentialsChain::builder()
            .configure(provider_config(http))
            .region(region);
        if let Some(profile) = profile {
            chain = chain.profile_name(profile);
        }
        Self(SharedCredentialsProvider::new(chain.build().await))
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialSource")
    }
}

fn provider_config(http: &Arc<Http>) -> ProviderConfig {
    ProviderConfig::without_region()
        .with_http_client(CredentialsHttp(Arc::clone(http)))
        .with_sleep_impl(TokioSleep::new())
}

/// The region that the environment, the profile or the machine names.
pub(crate) async fn default_region(http: &Arc<Http>, profile: Option<&str>) -> Option<String> {
    let config = provider_config(http);
    let mut file = ProfileFileRegionProvider::builder().configure(&config);
    if let Some(profile) = profile {
        file = file.profile_name(profile);
    }
    let machine = ImdsRegionProvider::builder().configure(&config);
    let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(file.build())
        .or_else(machine.build());
    let region = chain.region().await?;
    Some(region.as_ref().to_owned())
}

/// Credentials as long as they are good.
#[derive(Debug)]
pub(crate) struct Keyring {
    source: CredentialSource,
    current: Mutex<Option<(Credentials, SystemTime)>>,
}

impl Keyring {
    pub(crate) fn new(source: CredentialSource) -> Self {
        Self {
            source,
            current: Mutex::new(None),
        }
    }

    /// Those to sign with now. Whoever asks while they are being fetched waits for the same.
    pub(crate) async fn get(&self, now: SystemTime) -> Result<Credentials, NoCredentials> {
        let mut current = self.current.lock().await;
        if let Some((credentials, until)) = &*current
            && now < *until
        {
            return Ok(credentials.clone());
        }
        let fetched = self.source.0.provide_credentials().await;
        let credentials = fetched.map_err(NoCredentials)?;
        let until = good_until(&credentials, now);
        *current = Some((credentials.clone(), until));
        Ok(credentials)
    }

    /// AWS did not accept them: others may be there by now.
    pub(crate) async fn forget(&self) {
        *self.current.lock().await = None;
    }
}

fn good_until(credentials: &Credentials, now: SystemTime) -> SystemTime {
    let again = now + READ_AGAIN;
    match credentials.expiry() {
        Some(end) => end.checked_sub(MARGIN).map_or(now, |end| end.min(again)),
        None => again,
    }
}

/// Which credentials they are, without what is secret.
pub(crate) fn shown(credentials: &Credentials) -> String {
    let key = credentials.access_key_id();
    let tail = key.len().saturating_sub(4);
    let tail = key.get(tail..).unwrap_or_default();
    format!("{}, key ...{tail}", origin(credentials))
}

fn origin(credentials: &Credentials) -> &'static str {
    use AwsCredentialFeature as From;
    let features = credentials.get_property::<Vec<AwsCredentialFeature>>();
    let last = features.and_then(|features| features.last());
    match last {
        Some(From::CredentialsEnvVars) => "environment variables",
        Some(From::CredentialsProfile | From::CredentialsProfileSourceProfile) => "the profile",
        Some(From::CredentialsProfileNamedProvider) => "the profile's named provider",
        Some(From::CredentialsProfileProcess | From::CredentialsProcess) => {
            "the profile's credential process"
        }
        Some(From::CredentialsStsAssumeRole) => "a role that was assumed",
        Some(
            From::CredentialsStsAssumeRoleWebId
            | From::CredentialsEnvVarsStsWebIdToken
            | From::CredentialsProfileStsWebIdToken,
        ) => "a web identity",
        Some(From::CredentialsHttp) => "the container",
        Some(From::CredentialsImds) => "the machine's own role (IMDS)",
        _ => "the settings",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(expiry: Option<SystemTime>) -> Credentials {
        Credentials::new("AKIDEXAMPLE", "very secret", None, expiry, "given")
    }

    #[test]
    fn what_is_shown_has_no_secret() {
        let shown = shown(&credentials(None));
        assert_eq!(shown, "the settings, key ...MPLE");
        let source = CredentialSource::fixed(
            "AKIDEXAMPLE",
            &muster_provider::Secret::new("very secret".to_owned()),
        );
        assert!(!format!("{source:?}").contains("very"));
        assert!(!format!("{:?}", Keyring::new(source)).contains("very"));
    }

    #[test]
    fn credentials_are_renewed_before_they_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let in_an_hour = now + Duration::from_secs(3600);
        let soon = now + Duration::from_secs(60);
        assert_eq!(good_until(&credentials(None), now), now + READ_AGAIN);
        assert_eq!(
            good_until(&credentials(Some(in_an_hour)), now),
            now + READ_AGAIN
        );
        assert!(good_until(&credentials(Some(soon)), now) < now);
    }

    #[tokio::test]
    async fn credentials_that_were_refused_are_fetched_again() {
        let source = CredentialSource::fixed(
            "AKIDEXAMPLE",
            &muster_provider::Secret::new("very secret".to_owned()),
        );
        let keyring = Keyring::new(source);
        let now = SystemTime::now();
        assert_eq!(
            keyring.get(now).await.unwrap().access_key_id(),
            "AKIDEXAMPLE"
        );
        assert!(keyring.current.lock().await.is_some());
        keyring.forget().await;
        assert!(keyring.current.lock().await.is_none());
    }
}
