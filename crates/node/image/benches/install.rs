//! Memory and time of installing one large layer, over HTTP, in a process of its own.
//!
//! `cargo bench -p muster-image --bench install [-- MEGABYTES]` (2048 unless said). The bound that matters: 32 MiB of memory,
//! whatever the size of the layer. It is a promise, not a figure of this machine: the bench fails when it is broken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{
    BlobUrls, BoxError, HttpSettings, ImageStore, SCHEMA, StoreSettings, UrlSource,
};
use muster_item::Platform;
use muster_store::{OnDamage, Store, StoreConfig};
use serde_json::json;
use sha2::{Digest as _, Sha256};

const BOUND_KIB: i64 = 32 << 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [role, folder, url, digest] = arguments.as_slice()
        && role == "install"
    {
        install(folder, url, digest);
        return ExitCode::SUCCESS;
    }
    let megabytes = arguments
        .first()
        .and_then(|word| word.parse().ok())
        .unwrap_or(2048);
    println!("| layer | time | throughput | peak memory | bound |");
    println!("|---|---|---|---|---|");
    let mut is_kept = true;
    for compression in ["tar", "tar+gzip", "tar+zstd"] {
        is_kept &= run(megabytes, compression);
    }
    match is_kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Half of the content is noise, half compresses well, like programs do.
fn content(seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = vec![0; 1 << 20];
    for word in bytes.chunks_exact_mut(16) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word[..8].copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

struct Hashed<W>(W, Sha256, u64);

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let length = self.0.write(bytes)?;
        self.1.update(&bytes[..length]);
        self.2 += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn write_layer(out: impl Write, megabytes: u64) -> std::io::Result<()> {
    let mut tar = tar::Builder::new(out);
    for number in 0..megabytes / 64 {
        let mut header = tar::Header::new_gnu();
        header.set_size(64 << 20);
        header.set_mode(0o644);
        header.set_mtime(0);
        let parts: Vec<Vec<u8>> = (0..64)
            .map(|part| content(number * 64 + part + 1))
            .collect();
        tar.append_data(
            &mut header,
            format!("file-{number}"),
            parts.concat().as_slice(),
        )?;
    }
    tar.into_inner()?.flush()
}

/// Whether the bound holds.
fn run(megabytes: u64, compression: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = folder.path().join("blobs");
    std::fs::create_dir(&blobs).expect("a folder");
    let save = |bytes: &[u8], kind: &str| {
        let digest = hex::encode(Sha256::digest(bytes));
        std::fs::write(blobs.join(&digest), bytes).expect("written");
        json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    };
    let file = std::fs::File::create(blobs.join("layer")).expect("a file");
    let mut layer = Hashed(std::io::BufWriter::new(file), Sha256::new(), 0);
    match compression {
        "tar" => write_layer(&mut layer, megabytes).expect("packed"),
        "tar+gzip" => {
            let mut gzip = flate2::write::GzEncoder::new(&mut layer, flate2::Compression::fast());
            write_layer(&mut gzip, megabytes).expect("packed");
            gzip.finish().expect("packed");
        }
        _ => {
            let mut zstd = zstd::Encoder::new(&mut layer, 1).expect("an encoder");
            write_layer(&mut zstd, megabytes).expect("packed");
            zstd.finish().expect("packed");
        }
    }
    layer.flush().expect("flushed");
    let digest = hex::encode(layer.1.finalize());
    std::fs::rename(blobs.join("layer"), blobs.join(&digest)).expect("renamed");
    let layer = json!({
        "mediaType": format!("application/vnd.oci.image.layer.v1.{compression}"),
        "digest": format!("sha256:{digest}"), "size": layer.2,
    });
    let config = save(b"{}", "application/vnd.oci.image.config.v1+json");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    let manifest = save(
        manifest.as_bytes(),
        "application/vnd.oci.image.manifest.v1+json",
    );

    let url = serve(blobs);
    let started = Instant::now();
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["install", folder.path().to_str().expect("text"), &url])
        .arg(manifest["digest"].as_str().expect("text"))
        .stdout(Stdio::piped())
        .output()
        .expect("the installation runs");
    let time = started.elapsed();
    assert!(child.status.success(), "{:?}", child.status);
    let peak: i64 = String::from_utf8_lossy(&child.stdout)
        .trim()
        .parse()
        .expect("a number");
    let speed = u128::from(megabytes) * 1000 / time.as_millis().max(1);
    let is_kept = peak <= BOUND_KIB;
    let verdict = if is_kept { "reached" } else { "BROKEN" };
    println!(
        "| {megabytes} MiB {compression} | {time:.1?} | {speed} MiB/s | {:.1} MiB | {} MiB: {verdict} |",
        peak as f64 / 1024.0,
        BOUND_KIB >> 10
    );
    is_kept
}

/// A file server; ends with the process.
fn serve(folder: std::path::PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            std::thread::spawn(move || answer(&folder, &stream));
        }
    });
    url
}

fn answer(folder: &std::path::Path, mut stream: &TcpStream) {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    reader.read_line(&mut line).expect("a request");
    let name = line
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_owned();
    while reader.read_line(&mut line).expect("a header") > 2 {}
    let mut file = std::fs::File::open(folder.join(name)).expect("a blob");
    let length = file.metadata().expect("its size").len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

#[derive(Debug)]
struct OneServer(String);

impl BlobUrls for OneServer {
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>> {
        let urls = vec![format!("{}/{}", self.0, digest.to_hex())];
        Box::pin(std::future::ready(Ok(urls)))
    }
}

/// The process that is measured.
fn install(folder: &str, url: &str, digest: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let folder = std::path::Path::new(folder);
        let config = StoreConfig::new(folder.join("db/sm.db"), "bench 1", OnDamage::Refuse);
        let db = Store::open(&config.schema(&SCHEMA))
            .expect("a database")
            .store;
        let settings = StoreSettings::new(folder.join("images"), Platform::of_this_program());
        let (images, _) = ImageStore::open(settings, db).await.expect("a store");
        let urls = Arc::new(OneServer(url.to_owned()));
        let source = UrlSource::new(urls, HttpSettings::default()).expect("a source");
        let digest = digest.parse().expect("a digest");
        images
            .install(digest, Arc::new(source), None)
            .await
            .expect("installed");
    });
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("the peak");
    println!("{}", peak.trim().trim_end_matches(" kB"));
}
