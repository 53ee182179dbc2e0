//! Scraping over real sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{PATIENCE, Probe, command};

fn serving() -> (Probe, String) {
    let probe = Probe::start(command("metrics").env("PROBE_ADDRESS", "127.0.0.1:0"));
    let line = probe.wait_for("serving");
    let address = line
        .split("address=")
        .nth(1)
        .expect("the line says where")
        .to_owned();
    (probe, address)
}

/// Head and body of the answer to one request.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("set the timeout");
    stream
        .write_all(request.as_bytes())
        .expect("send the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read the answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_ascii_lowercase(), body.to_owned())
}

fn scrape(address: &str) -> (String, String) {
    ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A minimal reader of OpenMetrics text: every sample has a type, and the text ends in `# EOF`.
fn samples(text: &str) -> Vec<(String, f64)> {
    let body = text
        .strip_suffix("# EOF\n")
        .expect("the text ends in # EOF");
    let mut types: Vec<&str> = Vec::new();
    let mut samples = Vec::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match words.next() {
                Some("TYPE") => types.push(words.next().expect("a name")),
                Some("HELP" | "UNIT") => {}
                other => panic!("unknown comment {other:?}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let family = name
            .split('{')
            .next()
            .expect("a name")
            .trim_end_matches("_total");
        assert!(types.contains(&family), "{name} has no type");
        samples.push((name.to_owned(), value.parse().expect("a number")));
    }
    samples
}

#[test]
fn metrics_are_open_metrics_text() {
    let (mut probe, address) = serving();
    let (head, body) = scrape(&address);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    let samples = samples(&body);
    assert!(
        samples.contains(&("probe_events_total".to_owned(), 7.0)),
        "{samples:?}"
    );
    assert!(
        samples.contains(&("muster_log_lines_lost_total".to_owned(), 0.0)),
        "{samples:?}"
    );
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(0));
}

#[test]
fn anything_else_is_refused() {
    let (_probe, address) = serving();
    let status = |request: &str| {
        ask(&address, request)
            .0
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(status("GET / HTTP/1.1\r\nHost: l\r\n\r\n").contains("404"));
    assert!(status("GET /metricsx HTTP/1.1\r\nHost: l\r\n\r\n").contains("404"));
    let (head, _) = ask(
        &address,
        "POST /metrics HTTP/1.1\r\nHost: l\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(
        head.contains("405") && head.contains("allow: get"),
        "{head}"
    );
    assert!(status("GET /metrics HTTP/1.1\r\nnonsense\r\n\r\n").contains("400"));
    let long = format!(
        "GET /metrics HTTP/1.1\r\nHost: l\r\nX: {}\r\n\r\n",
        "x".repeat(10_000)
    );
    assert!(status(&long).contains("431"));
    let many = "X: y\r\n".repeat(100);
    assert!(status(&format!("GET /metrics HTTP/1.1\r\n{many}\r\n")).contains("431"));
    assert!(
        scrape(&address).0.contains("200"),
        "the server has survived all that"
    );
}

#[test]
fn slow_clients_do_not_keep_a_scraper_waiting() {
    let (_probe, address) = serving();
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).expect("connect");
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
                .expect("send a little");
            stream
        })
        .collect();
    let begun = Instant::now();
    let (head, body) = scrape(&address);
    assert!(head.contains("200") && body.ends_with("# EOF\n"));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    drop(slow);
}

#[test]
fn a_unix_socket_is_its_owners_replaced_after_a_kill_and_removed_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metrics");
    let address = format!("unix:{}", path.display());
    let start = || {
        let probe = Probe::start(command("metrics").env("PROBE_ADDRESS", &address));
        probe.wait_for("serving");
        probe
    };
    let mut killed = start();
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(path.exists(), "a killed process leaves its socket behind");

    let mut probe = start();
    let mode = std::fs::metadata(&path)
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("connect");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("set the timeout");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("send the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read the answer");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(0));
    assert!(!path.exists(), "the socket goes with its server");
}
