//! What a request asks for, decided without touching anything.

use http::header::{IF_RANGE, RANGE};
use http::{HeaderMap, Method, StatusCode, Uri};
use muster_api::domain::Digest;

use crate::token::TokenKey;

/// A request for a blob that may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) digest: Digest,
    /// Only the headers are wanted.
    pub(crate) head: bool,
}

/// The part of a blob that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// Whether the answer says that it is a part.
    pub(crate) partial: bool,
}

/// The path and query of a URL.
pub(crate) fn target(key: &TokenKey, digest: &Digest, expires: u64) -> String {
    let (algorithm, hex) = (digest.algorithm().as_str(), digest.to_hex());
    let token = key.sign(digest, expires);
    format!("/blobs/{algorithm}/{hex}?expires={expires}&token={token}")
}

/// Reads the request line; the error is the status to answer with.
pub(crate) fn wanted(
    key: &TokenKey,
    now: u64,
    method: &Method,
    uri: &Uri,
) -> Result<Wanted, StatusCode> {
    let head = match *method {
        Method::GET => false,
        Method::HEAD => true,
        _ => return Err(StatusCode::METHOD_NOT_ALLOWED),
    };
    let digest = digest(uri.path()).ok_or(StatusCode::NOT_FOUND)?;
    let (mut expires, mut token) = (None, None);
    for pair in uri.query().unwrap_or_default().split('&') {
        match pair.split_once('=') {
            Some(("expires", value)) => expires = value.parse::<u64>().ok(),
            Some(("token", value)) => token = Some(value),
            _ => {}
        }
    }
    let (Some(expires), Some(token)) = (expires, token) else {
        return Err(StatusCode::FORBIDDEN);
    };
    if expires < now || !key.is_good(&digest, expires, token) {
        return Err(StatusCode::FORBIDDEN);
    }
    Ok(Wanted { digest, head })
}

fn digest(path: &str) -> Option<Digest> {
    let (algorithm, hex) = path.strip_prefix("/blobs/")?.split_once('/')?;
    format!("{algorithm}:{hex}").parse().ok()
}

/// What identifies a blob's content: it never changes under its name.
pub(crate) fn etag(digest: &Digest) -> String {
    format!("\"{digest}\"")
}

/// Which part of a blob of this length is wanted; `None` if there is no such part.
///
/// Several ranges, other units and nonsense are answered with the whole, as HTTP allows; nodes only ever ask for the rest.
pub(crate) fn piece(headers: &HeaderMap, digest: &Digest, length: u64) -> Option<Piece> {
    let whole = Piece {
        start: 0,
        length,
        partial: false,
    };
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(IF_RANGE).is_some_and(|tag| tag != etag(digest)) {
        return Some(whole);
    }
    let range = text(RANGE).and_then(|range| range.trim().strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.trim().split_once('-')) else {
        return Some(whole);
    };
    let (start, end) = match (number(first), number(last)) {
        (Number::Given(start), Number::Given(last)) if start <= last => {
            (start, last.saturating_add(1).min(length))
        }
        (Number::Given(start), Number::Absent) => (start, length),
        (Number::Absent, Number::Given(suffix)) => (length.saturating_sub(suffix), length),
        _ => return Some(whole),
    };
    (start < end).then(|| Piece {
        start,
        length: end - start,
        partial: true,
    })
}

enum Number {
    Absent,
    Given(u64),
    Nonsense,
}

fn number(text: &str) -> Number {
    match text.trim() {
        "" => Number::Absent,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_or(Number::Nonsense, Number::Given)
        }
        _ => Number::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn key() -> TokenKey {
        let folder = tempfile::tempdir().unwrap();
        TokenKey::open(&folder.path().join("key")).unwrap()
    }

    fn blob() -> Digest {
        Digest::from_sha256([0xab; 32])
    }

    fn ask(key: &TokenKey, now: u64, target: &str) -> Result<Wanted, StatusCode> {
        wanted(key, now, &Method::GET, &target.parse().unwrap())
    }

    #[test]
    fn a_url_is_good_until_it_expires() {
        let key = key();
        let good = target(&key, &blob(), 100);
        assert_eq!(ask(&key, 100, &good).unwrap().digest, blob());
        assert_eq!(ask(&key, 101, &good), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn what_is_no_url_of_ours_has_its_status() {
        let key = key();
        let good = target(&key, &blob(), 100);
        let (path, query) = good.split_once('?').unwrap();
        let upper = path
            .to_uppercase()
            .replace("/BLOBS/SHA256", "/blobs/sha256");
        for (asked, status) in [
            (path.to_owned(), StatusCode::FORBIDDEN),
            (
                good.replace("expires=100", "expires=900"),
                StatusCode::FORBIDDEN,
            ),
            (
                good.replace("expires=100", "expires=x"),
                StatusCode::FORBIDDEN,
            ),
            (format!("{path}?expires=100&token="), StatusCode::FORBIDDEN),
            (
                format!("/blobs/../etc/passwd?{query}"),
                StatusCode::NOT_FOUND,
            ),
            (
                format!("/blobs/sha256/../../key?{query}"),
                StatusCode::NOT_FOUND,
            ),
            (format!("{upper}?{query}"), StatusCode::NOT_FOUND),
            (format!("{path}/?{query}"), StatusCode::NOT_FOUND),
            ("/".to_owned(), StatusCode::NOT_FOUND),
        ] {
            assert_eq!(ask(&key, 1, &asked), Err(status), "{asked}");
        }
        let post = wanted(&key, 1, &Method::POST, &good.parse().unwrap());
        assert_eq!(post, Err(StatusCode::METHOD_NOT_ALLOWED));
    }

    fn range(text: &str, length: u64) -> Option<Piece> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(text).unwrap());
        piece(&headers, &blob(), length)
    }

    #[test]
    fn ranges_are_those_of_http() {
        let part = |start, length| {
            Some(Piece {
                start,
                length,
                partial: true,
            })
        };
        let whole = Some(Piece {
            start: 0,
            length: 10,
            partial: false,
        });
        for (asked, answered) in [
            ("bytes=0-", part(0, 10)),
            ("bytes=3-", part(3, 7)),
            ("bytes=3-4", part(3, 2)),
            ("bytes=3-99", part(3, 7)),
            ("bytes=-4", part(6, 4)),
            ("bytes=-99", part(0, 10)),
            ("bytes=10-", None),
            ("bytes=-0", None),
            ("bytes=4-3", whole),
            ("bytes=-", whole),
            ("bytes=0-1,3-4", whole),
            ("lines=0-1", whole),
            ("bytes=+1-2", whole),
            ("bytes=99999999999999999999-", whole),
        ] {
            assert_eq!(range(asked, 10), answered, "{asked}");
        }
    }

    #[test]
    fn a_range_of_another_content_is_answered_with_the_whole() {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static("bytes=3-"));
        headers.insert(IF_RANGE, HeaderValue::from_static("\"other\""));
        assert!(!piece(&headers, &blob(), 10).unwrap().partial);
        let tag = HeaderValue::from_str(&etag(&blob())).unwrap();
        headers.insert(IF_RANGE, tag);
        assert!(piece(&headers, &blob(), 10).unwrap().partial);
    }

    proptest! {
        #[test]
        fn a_piece_lies_within_the_blob(text in "bytes=[0-9]{0,20}-[0-9]{0,20}|\\PC{0,40}", length in any::<u64>()) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(RANGE, value);
            }
            if let Some(piece) = piece(&headers, &blob(), length) {
                prop_assert!(piece.start.checked_add(piece.length).is_some_and(|end| end <= length));
            }
        }
    }
}
