//! As much of HTTP as a registry on the loopback needs: one request per connection.
//!
//! Requests are of version 1.0, so that the answer is never sent in chunks and ends with the
//! connection.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Bound on one answer, and on the wait for any part of it.
const MAX_ANSWER: u64 = 1 << 30;
const PATIENCE: Duration = Duration::from_secs(30);

/// One request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) accept: &'a str,
    /// User and password.
    pub(super) login: Option<(&'a str, &'a str)>,
    /// Media type and bytes.
    pub(super) content: Option<(&'a str, &'a [u8])>,
}

/// Its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parse(answer: &[u8]) -> Option<Self> {
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&answer[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self {
            status,
            headers,
            body: answer[end + 4..].to_owned(),
        })
    }
}

impl Request<'_> {
    /// Sends the request and waits for the whole answer.
    pub(super) fn send(&self, server: SocketAddr) -> io::Result<Response> {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (kind, bytes) = self.content.unwrap_or(("application/octet-stream", &[]));
        let mut head = format!(
            "{} {} HTTP/1.0\r\nHost: {server}\r\nAccept: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n",
            self.method,
            self.path,
            self.accept,
            bytes.len()
        );
        if let Some((user, password)) = self.login {
            let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
            head.push_str(&format!("Authorization: Basic {credentials}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
        let response = Response::parse(&answer)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))?;
        let announced = response.header("content-length");
        let complete = announced.is_none_or(|length| length.parse() == Ok(response.body.len()));
        if !complete && self.method != "HEAD" {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let answer = b"HTTP/1.1 202 Accepted\r\nLocation: /x?y\r\nX: 1\r\n\r\nbody\r\n\r\n";
        let response = Response::parse(answer).unwrap();
        assert_eq!(
            (response.status, response.header("location")),
            (202, Some("/x?y"))
        );
        assert_eq!(response.body, b"body\r\n\r\n");
        assert_eq!(Response::parse(b"HTTP/1.1 200"), None);
        assert_eq!(Response::parse(b"nonsense\r\n\r\n"), None);
    }
}
