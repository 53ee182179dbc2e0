//! A registry whose answers have no end: nobody reads more of them than a document may have.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use common::{open_with, settings};
use muster_api::domain::Digest;
use muster_image::{BlobSource, ImageStore, InstallError, RegistryImage, RegistrySource};

/// Documents have at most 4 MiB, and pipes between two processes some more.
const MOST: u64 = 32 << 20;

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    asked: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

struct Endless {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Endless {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if served.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let served = Arc::clone(&served);
                // Whoever has enough goes away, which is the point.
                std::thread::spawn(move || drop(serve(&served, stream.unwrap())));
            }
        });
        Self {
            address,
            shared,
            thread: Some(thread),
        }
    }

    fn source(&self) -> RegistrySource {
        let image: RegistryImage = format!("{}/team/web:1", self.address).parse().unwrap();
        RegistrySource::new(&image, None, Vec::new(), false).unwrap()
    }

    fn sent(&self) -> u64 {
        self.shared.sent.swap(0, Ordering::SeqCst)
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.asked.lock().unwrap())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Blobs are not there, manifests are, and neither answer ends.
fn serve(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap().to_owned();
    shared.asked.lock().unwrap().push(path.clone());
    if path == "/v2/" {
        return stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    let status = if path.contains("/blobs/") { 404 } else { 200 };
    write!(stream, "HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n")?;
    let piece = vec![b' '; 64 << 10];
    while !shared.is_over.load(Ordering::SeqCst) {
        stream.write_all(&piece)?;
        shared.sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
    }
    Ok(())
}

async fn store(folder: &tempfile::TempDir) -> ImageStore {
    let mut settings = settings(folder.path());
    settings.tries = 1;
    open_with(settings).await.0
}

#[tokio::test]
async fn answers_of_a_registry_that_have_no_end_are_not_read_to_it() {
    let registry = Endless::start();
    let error = registry.source().resolve().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("more than"), "{cause}");
    let sent = registry.sent();
    assert!(sent < MOST, "{sent} bytes");
    registry.asked();

    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder).await;
    let digest = Digest::from_sha256([7; 32]);
    let error = store
        .install(digest, Arc::new(registry.source()), None)
        .await
        .unwrap_err();
    assert!(matches!(error, InstallError::Fetch { .. }), "{error:?}");
    // One answer that is no blob, and one manifest.
    let sent = registry.sent();
    assert!(sent < 2 * MOST, "{sent} bytes");
    let asked = registry.asked();
    for shelf in ["/blobs/", "/manifests/"] {
        assert!(asked.iter().any(|path| path.contains(shelf)), "{asked:?}");
    }
}

#[tokio::test]
async fn what_is_no_document_is_not_looked_for_among_the_manifests() {
    let registry = Endless::start();
    let source = registry.source();
    let digest = Digest::from_sha256([7; 32]);
    let names = |places: Vec<Box<dyn muster_image::BlobPlace>>| {
        let names = places.iter().map(|place| place.name().to_owned());
        names.collect::<Vec<_>>()
    };
    let documents = names(source.places(digest).await.unwrap());
    assert_eq!(documents, ["blobs of team/web", "manifests of team/web"]);
    let others = names(source.content_places(digest).await.unwrap());
    assert_eq!(others, ["blobs of team/web"]);
}
