//! Whether a request was signed by who it says, recomputed.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::request::Parts;

use super::world::{Refusal, refuse};
use super::{ACCESS_KEY, SECRET_KEY, SESSION_TOKEN};

/// What clocks may differ.
const SKEW: Duration = Duration::from_secs(15 * 60);

/// The region and the service that a request was signed for.
pub(super) struct Scope {
    pub(super) service: String,
}

/// Checks a signature.
pub(super) fn check(parts: &Parts, url: &str, body: &[u8]) -> Result<Scope, Refusal> {
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let missing = || {
        refuse(
            403,
            "MissingAuthenticationToken",
            "the request is not signed",
        )
    };
    let authorization = header("authorization").ok_or_else(missing)?;
    let field = |name: &str| {
        let fields = authorization.split([' ', ',']);
        let mut values = fields.filter_map(|field| field.split_once('='));
        values
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    };
    let credential: Vec<&str> = field("Credential")
        .ok_or_else(missing)?
        .split('/')
        .collect();
    let [key, _, region, service, "aws4_request"] = credential.as_slice() else {
        return Err(refuse(400, "IncompleteSignature", "the scope is not whole"));
    };
    if *key != ACCESS_KEY {
        return Err(refuse(
            401,
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
        ));
    }
    let time = header("x-amz-date")
        .and_then(read_time)
        .ok_or_else(missing)?;
    let apart = SystemTime::now().duration_since(time).unwrap_or_default();
    if apart > SKEW {
        return Err(refuse(400, "RequestExpired", "the request is too old"));
    }
    let signed: Vec<&str> = field("SignedHeaders")
        .ok_or_else(missing)?
        .split(';')
        .collect();
    if !signed.contains(&"host") {
        return Err(refuse(400, "IncompleteSignature", "the host is not signed"));
    }
    // The signer adds these by itself.
    let own = ["host", "x-amz-date", "x-amz-security-token"];
    let session = header("x-amz-security-token").map(str::to_owned);
    if session
        .as_deref()
        .is_some_and(|session| session != SESSION_TOKEN)
    {
        return Err(refuse(
            400,
            "InvalidClientTokenId",
            "the session is not known",
        ));
    }
    let headers = signed.iter().filter(|name| !own.contains(name));
    let headers = headers.map(|name| (*name, header(name).unwrap_or_default()));
    let identity = Credentials::new(ACCESS_KEY, SECRET_KEY, session, None, "fake").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(time)
        .settings(SigningSettings::default())
        .build()
        .expect("every parameter is given")
        .into();
    let wrong = || {
        refuse(
            403,
            "SignatureDoesNotMatch",
            "the signature is not the one we calculated",
        )
    };
    let request = SignableRequest::new(
        parts.method.as_str(),
        url,
        headers,
        SignableBody::Bytes(body),
    );
    let request = request.map_err(|_| wrong())?;
    let (_, signature) = sign(request, &params).map_err(|_| wrong())?.into_parts();
    match field("Signature") == Some(signature.as_str()) {
        true => Ok(Scope {
            service: (*service).to_owned(),
        }),
        false => Err(wrong()),
    }
}

fn read_time(text: &str) -> Option<SystemTime> {
    let time = jiff::fmt::strtime::parse("%Y%m%dT%H%M%SZ", text).ok()?;
    let time = time
        .to_datetime()
        .ok()?
        .to_zoned(jiff::tz::TimeZone::UTC)
        .ok()?;
    Some(time.timestamp().into())
}
