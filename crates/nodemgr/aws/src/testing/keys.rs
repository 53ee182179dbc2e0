//! Where a machine or a container of EC2 finds its credentials: the metadata service (IMDSv2, which demands a token), and the
//! container's.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;

use super::{ACCESS_KEY, SECRET_KEY, SESSION_TOKEN};

const METADATA_TOKEN: &str = "metadata-token";
const ROLE: &str = "builder";

fn credentials() -> String {
    let keys = serde_json::json!({
        "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z",
        "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "Token": SESSION_TOKEN,
        "Expiration": "2999-01-01T00:00:00Z",
    });
    keys.to_string()
}

pub(super) fn answer(parts: &Parts) -> Response<Full<Bytes>> {
    let metadata = "/latest/meta-data/";
    let role = format!("{metadata}iam/security-credentials/{ROLE}");
    let path = parts.uri.path();
    let token = parts.headers.get("x-aws-ec2-metadata-token");
    let token = token.is_some_and(|token| token == METADATA_TOKEN);
    let text = match path {
        "/latest/api/token" if parts.method == http::Method::PUT => Some(METADATA_TOKEN.to_owned()),
        "/container" => Some(credentials()),
        "/latest/meta-data/iam/security-credentials/" if token => Some(ROLE.to_owned()),
        "/latest/meta-data/placement/region" if token => Some("eu-central-1".to_owned()),
        path if token && path == role => Some(credentials()),
        _ => None,
    };
    let status = match text {
        Some(_) => StatusCode::OK,
        None if path.starts_with(metadata) && !token => StatusCode::UNAUTHORIZED,
        None => StatusCode::NOT_FOUND,
    };
    let mut response = Response::new(Full::new(text.unwrap_or_default().into()));
    *response.status_mut() = status;
    if path == "/latest/api/token" {
        let lifetime = http::HeaderValue::from_static("21600");
        let name = "x-aws-ec2-metadata-token-ttl-seconds";
        response.headers_mut().insert(name, lifetime);
    }
    response
}
