use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const STALL: Duration = Duration::from_secs(30);
const LARGEST: u64 = 1 << 20;

/// How a server misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Good,
    /// Ends after so many bytes of the body.
    CutAfter(usize),
    /// Sends everything, whatever was asked for.
    IgnoresRanges,
    /// Sends another part than was asked for.
    WrongRange,
    Missing,
}

/// A web server with one file, on a port of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) manner: Arc<Mutex<Manner>>,
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) sent: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Files by their paths.
    pub(crate) async fn start(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let manner = Arc::new(Mutex::new(Manner::Good));
        let (asked, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let serve = (manner.clone(), asked.clone(), sent.clone());
        let task = tokio::spawn(async move {
            let (manner, asked, sent) = serve;
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => break,
                    }
                }
                asked.fetch_add(1, Ordering::SeqCst);
                let request = String::from_utf8(request).unwrap();
                let path = request.split(' ').nth(1).unwrap_or_default();
                let content = files.iter().find(|(name, _)| *name == path);
                let manner = *manner.lock().unwrap();
                let reply = reply(manner, &request, content.map(|(_, it)| it.as_slice()));
                sent.fetch_add(reply.1.len(), Ordering::SeqCst);
                // Whoever has heard enough hangs up.
                let _ = stream.write_all(reply.0.as_bytes()).await;
                let _ = stream.write_all(&reply.1).await;
            }
        });
        Self {
            url,
            manner,
            asked,
            sent,
            task,
        }
    }

    pub(crate) fn be(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

fn reply(manner: Manner, request: &str, content: Option<&[u8]>) -> (String, Vec<u8>) {
    let Some(content) = content.filter(|_| manner != Manner::Missing) else {
        let head = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return (head.to_owned(), Vec::new());
    };
    let range = request
        .lines()
        .find_map(|line| line.strip_prefix("range: bytes="))
        .and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    let from = match (range, manner) {
        (None, _) | (_, Manner::IgnoresRanges) => None,
        (Some(from), Manner::WrongRange) => Some(from + 1),
        (from, _) => from,
    };
    if from.is_some_and(|from| from >= content.len()) {
        let head =
            "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return (head.to_owned(), Vec::new());
    }
    let (status, range) = match from {
        Some(from) => {
            let (last, length) = (content.len() - 1, content.len());
            let range = format!("content-range: bytes {from}-{last}/{length}\r\n");
            ("206 Partial Content", range)
        }
        None => ("200 OK", String::new()),
    };
    let mut body = content[from.unwrap_or(0)..].to_vec();
    let head = format!(
        "HTTP/1.1 {status}\r\n{range}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    if let Manner::CutAfter(length) = manner {
        body.truncate(length);
    }
    (head, body)
}

pub(crate) fn checksum(content: &[u8]) -> Checksum {
    let zero: Checksum = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
    let mut hasher = zero.hasher();
    hasher.update(content);
    hasher.finish()
}

fn downloads() -> Downloads {
    Downloads::new(Path::new("/none"), STALL, LARGEST).unwrap()
}

fn content() -> Vec<u8> {
    (0..200_000u32)
        .flat_map(|number| [number.to_le_bytes()[0]])
        .collect()
}

/// What there is in a folder, but for locks.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

#[tokio::test]
async fn what_was_interrupted_goes_on_where_it_was() {
    let server = Server::start(vec![("/a", content())]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let expected = checksum(&content());
    server.be(Manner::CutAfter(50_000));
    for _ in 0..2 {
        let cut = downloads().fetch(&server.at("/a"), &expected, &path).await;
        assert!(matches!(cut, Err(DownloadError::Ask { .. })), "{cut:?}");
        assert!(!path.exists());
    }
    server.be(Manner::Good);
    downloads()
        .fetch(&server.at("/a"), &expected, &path)
        .await
        .unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content());
    assert_eq!(server.sent.load(Ordering::SeqCst), content().len());
    assert_eq!(files(folder.path()), ["a"]);
}

#[tokio::test]
async fn servers_that_know_no_parts_are_asked_for_everything() {
    for manner in [Manner::IgnoresRanges, Manner::WrongRange] {
        let server = Server::start(vec![("/a", content())]).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(folder.path().join("a.part"), &content()[..1000]).unwrap();
        server.be(manner);
        let fetched = downloads()
            .fetch(&server.at("/a"), &checksum(&content()), &path)
            .await;
        fetched.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), content(), "{manner:?}");
    }
}

#[tokio::test]
async fn what_is_not_right_has_no_name_and_is_not_kept() {
    let server = Server::start(vec![("/a", content())]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    // A part of something else, as long as the whole: only the checksum can tell.
    std::fs::write(folder.path().join("a.part"), vec![1; content().len()]).unwrap();
    let wrong = downloads()
        .fetch(&server.at("/a"), &checksum(&content()), &path)
        .await;
    assert!(
        matches!(wrong, Err(DownloadError::Checksum { .. })),
        "{wrong:?}"
    );
    assert_eq!(files(folder.path()), [""; 0]);
    let right = downloads()
        .fetch(&server.at("/a"), &checksum(&content()), &path)
        .await;
    right.unwrap();
}

#[tokio::test]
async fn what_is_too_large_or_not_there_is_refused() {
    let large = vec![0; usize::try_from(LARGEST).unwrap() + 1];
    let server = Server::start(vec![("/large", large)]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let refused = downloads()
        .fetch(&server.at("/large"), &checksum(b""), &path)
        .await;
    assert!(
        matches!(refused, Err(DownloadError::TooLarge { .. })),
        "{refused:?}"
    );
    let missing = downloads()
        .fetch(&server.at("/none"), &checksum(b""), &path)
        .await;
    assert!(
        matches!(missing, Err(DownloadError::Status { .. })),
        "{missing:?}"
    );
    let nobody = downloads().text("http://127.0.0.1:1/").await;
    assert!(
        matches!(nobody, Err(DownloadError::Ask { .. })),
        "{nobody:?}"
    );
}

#[tokio::test]
async fn two_who_want_the_same_get_it_once() {
    let server = Server::start(vec![("/a", content())]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let (url, expected) = (server.at("/a"), checksum(&content()));
    let (one, two) = (downloads(), downloads());
    let both = tokio::join!(
        one.fetch(&url, &expected, &path),
        two.fetch(&url, &expected, &path)
    );
    both.0.unwrap();
    both.1.unwrap();
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}

/// A list of checksums that came over an open line proves nothing.
#[test]
fn an_encrypted_place_leads_to_no_open_one() {
    let url = |text: &str| text.parse::<Url>().unwrap();
    let (open, encrypted) = (url("http://a/x"), url("https://a/x"));
    assert!(!stays_encrypted(&encrypted, &open));
    assert!(stays_encrypted(&encrypted, &url("https://b/y")));
    // Nobody is asked over an open line but in tests.
    assert!(stays_encrypted(&open, &open));
    assert!(stays_encrypted(&open, &encrypted));
}
