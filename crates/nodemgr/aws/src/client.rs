//! Requests, signed and sent, and what came back.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningError, SigningSettings, sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;

use crate::credentials::{Keyring, NoCredentials, shown};
use crate::ec2::{Action, Ec2Fault, Meaning, ReadAnswerError, read_answer, read_fault};
use crate::settings::Region;
use crate::ssm;
use crate::transport::{Http, SendError};

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// The first wait when EC2 throttles; doubled with each.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is nobody to sign as.
    #[error("{action} in {region} cannot be signed")]
    Credentials {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// Why.
        #[source]
        source: NoCredentials,
    },
    /// It cannot be signed.
    #[error("{action} in {region} cannot be signed")]
    Sign {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// Why.
        #[source]
        source: SigningError,
    },
    /// The endpoint is no place to send anything to.
    #[error("{endpoint} is no endpoint")]
    Endpoint {
        /// What stands in the settings.
        endpoint: String,
        /// Why.
        #[source]
        source: http::Error,
    },
    /// It was not answered.
    #[error("{action} in {region} was not answered")]
    Send {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// Why.
        #[source]
        source: SendError,
    },
    /// It was refused.
    #[error("{action} in {region} was refused")]
    Fault {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// By what.
        #[source]
        source: Ec2Fault,
    },
    /// It was refused because of whom it came from.
    #[error("{action} in {region} was refused with the credentials from {credentials}")]
    NotAllowed {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// Whose credentials, without what is secret.
        credentials: String,
        /// By what.
        #[source]
        source: Ec2Fault,
    },
    /// The answer says nothing.
    #[error("{action} in {region} was answered with something else")]
    Answer {
        /// What was asked.
        action: &'static str,
        /// Where.
        region: Region,
        /// What is wrong with it.
        #[source]
        source: ReadAnswerError,
    },
}

impl CallError {
    /// What it means.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        match self {
            Self::Fault { source, .. } | Self::NotAllowed { source, .. } => source.meaning(),
            // It may have been done, and the next answer may be whole.
            Self::Send { .. } | Self::Answer { .. } => Meaning::Passing,
            Self::Credentials { source, .. } if source.is_lasting() => Meaning::Credentials,
            Self::Credentials { .. } => Meaning::Passing,
            Self::Sign { .. } | Self::Endpoint { .. } => Meaning::Wrong,
        }
    }
}

/// How requests are made.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) http: Arc<Http>,
    pub(crate) keyring: Keyring,
    pub(crate) endpoint: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) throttle_attempts: u32,
}

/// A request before it is signed.
struct Unsigned<'a> {
    service: &'static str,
    action: &'static str,
    region: &'a Region,
    headers: &'a [(&'static str, &'static str)],
    body: Bytes,
}

impl Client {
    /// Asks EC2, or another service of the Query API.
    pub(crate) async fn call<A: Action>(
        &self,
        region: &Region,
        request: &A,
    ) -> Result<A::Answer, CallError> {
        let answer = self
            .patiently(Unsigned {
                service: A::SERVICE,
                action: A::NAME,
                region,
                headers: &[("content-type", FORM)],
                body: request.query().encode().into(),
            })
            .await?;
        read_answer::<A>(&answer).map_err(|source| CallError::Answer {
            action: A::NAME,
            region: region.clone(),
            source,
        })
    }

    /// Asks the Systems Manager for a parameter.
    pub(crate) async fn parameter(&self, region: &Region, name: &str) -> Result<String, CallError> {
        let answer = self
            .patiently(Unsigned {
                service: "ssm",
                action: ssm::ACTION,
                region,
                headers: &[("content-type", ssm::JSON), ("x-amz-target", ssm::TARGET)],
                body: ssm::request(name).into(),
            })
            .await?;
        ssm::read(&answer).map_err(|source| CallError::Answer {
            action: ssm::ACTION,
            region: region.clone(),
            source,
        })
    }

    /// Asks again while we ask too often, later and later.
    async fn patiently(&self, request: Unsigned<'_>) -> Result<Bytes, CallError> {
        let mut failures = 0;
        loop {
            let result = self.once(&request).await;
            match result {
                Err(error)
                    if error.meaning() == Meaning::Throttled
                        && failures + 1 < self.throttle_attempts =>
                {
                    failures += 1;
                    let chance = rand::random();
                    tokio::time::sleep(wait(failures, chance)).await;
                }
                result => return result,
            }
        }
    }

    async fn once(&self, request: &Unsigned<'_>) -> Result<Bytes, CallError> {
        let &Unsigned {
            service,
            action,
            region,
            ..
        } = request;
        let now = SystemTime::now();
        let credentials = self.keyring.get(now).await;
        let credentials = credentials.map_err(|source| CallError::Credentials {
            action,
            region: region.clone(),
            source,
        })?;
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => format!("https://{service}.{region}.{}/", region.domain()),
        };
        let signed = signed(request, &endpoint, &credentials, now)?;
        let answer = self.http.send(signed, Some(self.timeout)).await;
        let answer = answer.map_err(|source| CallError::Send {
            action,
            region: region.clone(),
            source,
        })?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let status = answer.status().as_u16();
        let fault = match service {
            "ssm" => ssm::read_fault(status, answer.body()),
            _ => read_fault(status, answer.body()),
        };
        let region = region.clone();
        match fault.meaning() {
            meaning @ (Meaning::Credentials | Meaning::Forbidden) => {
                if meaning == Meaning::Credentials {
                    self.keyring.forget().await;
                }
                Err(CallError::NotAllowed {
                    action,
                    region,
                    credentials: shown(&credentials),
                    source: fault,
                })
            }
            _ => Err(CallError::Fault {
                action,
                region,
                source: fault,
            }),
        }
    }
}

/// The wait after so many failures: up to twice as long with each, at random, so that not all who were throttled come back at once.
fn wait(failures: u32, chance: f64) -> Duration {
    let doubled = 1 << failures.saturating_sub(1).min(16);
    let longest = FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT);
    longest.mul_f64(chance.clamp(0.05, 1.0))
}

fn signed(
    request: &Unsigned<'_>,
    endpoint: &str,
    credentials: &Credentials,
    now: SystemTime,
) -> Result<http::Request<Bytes>, CallError> {
    let failed = |source: SigningError| CallError::Sign {
        action: request.action,
        region: request.region.clone(),
        source,
    };
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(request.region.as_str())
        .name(request.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .expect("every parameter is given")
        .into();
    let headers = request.headers.iter().copied();
    let body = SignableBody::Bytes(&request.body);
    let signable = SignableRequest::new("POST", endpoint, headers, body).map_err(failed)?;
    let (instructions, _) = sign(signable, &params).map_err(failed)?.into_parts();
    let mut builder = http::Request::post(endpoint);
    for (name, value) in request.headers {
        builder = builder.header(*name, *value);
    }
    let built = builder.body(request.body.clone());
    let mut built = built.map_err(|source| CallError::Endpoint {
        endpoint: muster_config::printable(endpoint, 200),
        source,
    })?;
    instructions.apply_to_request_http1x(&mut built);
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_are_never_nothing() {
        assert_eq!(wait(1, 1.0), FIRST_WAIT);
        assert_eq!(wait(2, 1.0), FIRST_WAIT * 2);
        assert_eq!(wait(30, 1.0), LONGEST_WAIT);
        assert!(wait(1, 0.0) > Duration::ZERO);
    }

    #[test]
    fn a_signature_is_the_one_that_others_compute() {
        // Computed with botocore 1.44 for the same request, key and time.
        let region: Region = "eu-central-1".parse().unwrap();
        let request = Unsigned {
            service: "ec2",
            action: "DescribeInstances",
            region: &region,
            headers: &[("content-type", FORM)],
            body: Bytes::from_static(b"Action=DescribeInstances&Version=2016-11-15"),
        };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIDEXAMPLE", secret, None, None, "given");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        let endpoint = "https://ec2.eu-central-1.amazonaws.com/";
        let signed = signed(&request, endpoint, &credentials, now).unwrap();
        let header = signed.headers()["authorization"].to_str().unwrap();
        assert_eq!(
            header,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/eu-central-1/ec2/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=c576c515ef45760133a762371f1eceb72879c7703f488940438ba5cd8786ee46"
        );
    }
}
